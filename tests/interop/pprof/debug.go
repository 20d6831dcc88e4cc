package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
)

// Profiles of this program as text, `debug=1`, of every kind that Go has: with something of each in them.
func writeTexts(folder string) error {
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	runtime.MemProfileRate = 512
	var group sync.WaitGroup
	var mutex sync.Mutex
	stop := make(chan bool)
	kept := make([][]byte, 0, 400)
	for i := range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 50 {
				mutex.Lock()
				kept = append(kept, bytes.Repeat([]byte{byte(i)}, 100*(i+1)))
				mutex.Unlock()
			}
			<-stop
		}()
	}
	for range 30 {
		_ = bytes.Repeat([]byte{1}, 1<<16)
	}
	runtime.GC()
	defer group.Wait()
	defer close(stop)
	for _, p := range pprof.Profiles() {
		var text bytes.Buffer
		if err := p.WriteTo(&text, 1); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, p.Name()), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	runtime.KeepAlive(kept)
	return nil
}
