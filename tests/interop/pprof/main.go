// pprof's own library as a judge: `compare A B …` compares files pairwise, field by field, where only ids and the order of
// strings may differ, prints the first difference of each pair and ends with 1 when there is one; `compare-older A B …` the same where
// A is of a format of before pprof was protobuf; `make FOLDER` writes profiles
// that have what real ones seldom have; `debug FOLDER` writes this program's own as text (debug=1); `accepts FILE …` prints for each
// whether it is read, `true` or `false`.
package main

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"sort"

	"github.com/google/pprof/profile"
)

func read(path string) *profile.Profile {
	data, err := os.ReadFile(path)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	p, err := profile.Parse(bytes.NewReader(data))
	if err != nil {
		fmt.Println(path, err)
		os.Exit(2)
	}
	return p
}

// An entry of a table by its place, instead of its id.
func places(p *profile.Profile) (map[*profile.Mapping]int, map[*profile.Function]int, map[*profile.Location]int) {
	m, f, l := map[*profile.Mapping]int{nil: -1}, map[*profile.Function]int{nil: -1}, map[*profile.Location]int{}
	for i, x := range p.Mapping {
		m[x] = i
	}
	for i, x := range p.Function {
		f[x] = i
	}
	for i, x := range p.Location {
		l[x] = i
	}
	return m, f, l
}

func labels(s *profile.Sample) string {
	var all []string
	for key, values := range s.Label {
		all = append(all, fmt.Sprintf("%q=%q", key, values))
	}
	for key, values := range s.NumLabel {
		all = append(all, fmt.Sprintf("%q=%v%q", key, values, s.NumUnit[key]))
	}
	sort.Strings(all)
	return fmt.Sprint(all)
}

// The profile as lines: tables in their order, samples by the places of their locations.
func lines(p *profile.Profile) []string {
	var out []string
	add := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	m, f, l := places(p)
	for _, t := range p.SampleType {
		add("type %q %q", t.Type, t.Unit)
	}
	add("default %q drop %q keep %q doc %q time %d duration %d period %d", p.DefaultSampleType, p.DropFrames, p.KeepFrames,
		p.DocURL, p.TimeNanos, p.DurationNanos, p.Period)
	if p.PeriodType != nil {
		add("period type %q %q", p.PeriodType.Type, p.PeriodType.Unit)
	}
	add("comments %q", p.Comments)
	for _, x := range p.Mapping {
		add("mapping %#x %#x %#x %q %q %v %v %v %v", x.Start, x.Limit, x.Offset, x.File, x.BuildID, x.HasFunctions, x.HasFilenames,
			x.HasLineNumbers, x.HasInlineFrames)
	}
	for _, x := range p.Function {
		add("function %q %q %q %d", x.Name, x.SystemName, x.Filename, x.StartLine)
	}
	for _, x := range p.Location {
		text := fmt.Sprintf("location mapping %d %#x folded %v", m[x.Mapping], x.Address, x.IsFolded)
		for _, line := range x.Line {
			text += fmt.Sprintf(" line %d:%d:%d", f[line.Function], line.Line, line.Column)
		}
		add("%s", text)
	}
	for _, s := range p.Sample {
		text := "sample"
		for _, x := range s.Location {
			text += fmt.Sprintf(" %d", l[x])
		}
		add("%s values %v labels %s", text, s.Value, labels(s))
	}
	return out
}

// Without what the older formats say by their kind alone, and numbers that pprof's own writer would leave out.
func plain(p *profile.Profile) *profile.Profile {
	p.DropFrames, p.KeepFrames = "", ""
	for _, s := range p.Sample {
		if n := s.NumLabel["bytes"]; len(n) == 1 && n[0] == 0 {
			s.NumLabel, s.NumUnit = nil, nil
		} else {
			s.NumUnit = map[string][]string{}
		}
	}
	return p
}

func compare(pairs []string, of func(*profile.Profile) *profile.Profile) int {
	failed := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		a, b := lines(of(read(pairs[i]))), lines(of(read(pairs[i+1])))
		if reflect.DeepEqual(a, b) {
			continue
		}
		failed = 1
		for k := 0; k < len(a) || k < len(b); k++ {
			if k >= len(a) || k >= len(b) || a[k] != b[k] {
				x, y := "(nothing)", "(nothing)"
				if k < len(a) {
					x = a[k]
				}
				if k < len(b) {
					y = b[k]
				}
				fmt.Printf("%s: %s\n%s: %s\n", pairs[i], x, pairs[i+1], y)
				break
			}
		}
	}
	return failed
}

func main() {
	switch {
	case len(os.Args) > 2 && os.Args[1] == "compare":
		os.Exit(compare(os.Args[2:], func(p *profile.Profile) *profile.Profile { return p }))
	case len(os.Args) > 2 && os.Args[1] == "compare-older":
		os.Exit(compare(os.Args[2:], plain))
	case len(os.Args) > 1 && os.Args[1] == "accepts":
		for _, path := range os.Args[2:] {
			data, err := os.ReadFile(path)
			if err == nil {
				_, err = profile.ParseData(data)
			}
			fmt.Println(err == nil)
		}
	case len(os.Args) == 3 && os.Args[1] == "make":
		makeEdges(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "debug":
		if err := writeTexts(os.Args[2]); err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
	default:
		os.Exit(2)
	}
}
