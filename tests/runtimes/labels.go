// Goroutines at work: without labels, with short ones, with long ones, with as many as there is room for, and with very many.
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
	some := []string{}
	for i := 0; i < 12; i++ {
		some = append(some, fmt.Sprintf("label-%02d", i), strings.Repeat(fmt.Sprint(i%10), 30))
	}
	return [][]string{{}, {"user", "bob", "path", "/äpfel", "", "nameless"}, long, some, many}
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
