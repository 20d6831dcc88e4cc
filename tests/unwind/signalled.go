// SPDX-License-Identifier: Apache-2.0
// Signals without end, which interrupt functions of the program.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

var sink int

//go:noinline
func interrupted() {
	for {
		sink++
	}
}

func main() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	for i := 0; i < 3; i++ {
		go interrupted()
	}
	go func() {
		for {
			syscall.Kill(syscall.Getpid(), syscall.SIGUSR1)
		}
	}()
	for range c {
	}
}
