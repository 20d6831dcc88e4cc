// The chain in Go: frame pointers, and no frame information.
package main

var sink uint64

//go:noinline
func spin(n uint64) {
	for i := uint64(0); i < n; i++ {
		sink += i
	}
}

//go:noinline
func chain_c(n uint64) { spin(n); sink++ }

//go:noinline
func chain_b(n uint64) { chain_c(n); sink++ }

//go:noinline
func chain_a(n uint64) { chain_b(n); sink++ }

func main() {
	for {
		chain_a(100000)
	}
}
