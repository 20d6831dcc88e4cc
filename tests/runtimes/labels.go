// Four goroutines at work: one without labels, one with short ones, one with long ones and one with very many.
package main

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
)

//go:noinline
func work(n int) int {
	x := 0
	for i := 0; i < n; i++ {
		x += i * i % 7
	}
	return x
}

func labels() [][]string {
	many := []string{}
	for i := 0; i < 40; i++ {
		many = append(many, fmt.Sprintf("k%02d", i), fmt.Sprint(i))
	}
	long := []string{strings.Repeat("k", 62) + "é", strings.Repeat("v", 126) + "é", "user", "carol"}
	return [][]string{{}, {"user", "bob", "path", "/äpfel", "", "nameless"}, long, many}
}

func main() {
	done := make(chan int)
	for _, of := range labels() {
		go pprof.Do(context.Background(), pprof.Labels(of...), func(context.Context) {
			for x := 0; ; {
				x += work(100000)
			}
		})
	}
	<-done
}
