// A load in Go: JSON there and back, maps, garbage.
package main

import (
	"encoding/json"
	"sort"
)

type item struct {
	Name  string
	Parts []item
	Score float64
}

func build(depth, width int) item {
	it := item{Name: "item", Score: float64(depth*width) / 3}
	for i := 0; depth > 0 && i < width; i++ {
		it.Parts = append(it.Parts, build(depth-1, width))
	}
	return it
}

func main() {
	for {
		text, err := json.Marshal(build(4, 5))
		if err != nil {
			panic(err)
		}
		var back item
		if err := json.Unmarshal(text, &back); err != nil {
			panic(err)
		}
		sort.Slice(back.Parts, func(i, j int) bool { return back.Parts[i].Score < back.Parts[j].Score })
	}
}
