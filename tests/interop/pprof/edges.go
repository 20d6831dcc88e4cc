package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/google/pprof/profile"
)

// One sample in a stack of two frames, one of them inlined, and nothing else.
func small() *profile.Profile {
	m := &profile.Mapping{ID: 1, Start: 0x1000, Limit: 0x9000, Offset: 0x100, File: "/bin/program", BuildID: "abcdef"}
	f := []*profile.Function{{ID: 1, Name: "main", SystemName: "_main", Filename: "main.c", StartLine: 3}, {ID: 2, Name: "leaf"},
		{ID: 3, Name: "inlined"}}
	l := []*profile.Location{{ID: 1, Mapping: m, Address: 0x1010, Line: []profile.Line{{Function: f[2], Line: 9, Column: 4},
		{Function: f[1], Line: 8}}}, {ID: 2, Mapping: m, Address: 0x1020, Line: []profile.Line{{Function: f[0], Line: 5, Column: 1}}}}
	return &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period: 10000000, TimeNanos: 1700000000123456789, DurationNanos: 10000000001,
		Mapping: []*profile.Mapping{m}, Function: f, Location: l, Sample: []*profile.Sample{{Location: l, Value: []int64{7}}},
	}
}

func types(names ...string) (out []*profile.ValueType) {
	for i, name := range names {
		out = append(out, &profile.ValueType{Type: name, Unit: fmt.Sprint("unit", i)})
	}
	return
}

var edges = map[string]func(p *profile.Profile){
	"small": func(p *profile.Profile) {},
	"empty": func(p *profile.Profile) {
		*p = profile.Profile{SampleType: types("x"), PeriodType: &profile.ValueType{}}
	},
	"no-samples": func(p *profile.Profile) { p.Sample = nil },
	"text-label": func(p *profile.Profile) { p.Sample[0].Label = map[string][]string{"key": {"value"}} },
	"text-labels": func(p *profile.Profile) {
		p.Sample[0].Label = map[string][]string{"b": {"z", "a", "z"}, "a": {"1"}, "service.name": {"x"}}
	},
	"number-label": func(p *profile.Profile) { p.Sample[0].NumLabel = map[string][]int64{"bytes": {64}} },
	"number-unit": func(p *profile.Profile) {
		p.Sample[0].NumLabel = map[string][]int64{"size": {64}}
		p.Sample[0].NumUnit = map[string][]string{"size": {"bytes"}}
	},
	"number-zero": func(p *profile.Profile) {
		p.Sample[0].NumLabel = map[string][]int64{"zero": {0}}
		p.Sample[0].NumUnit = map[string][]string{"zero": {"bytes"}}
	},
	"numbers": func(p *profile.Profile) {
		p.Sample[0].NumLabel = map[string][]int64{"n": {math.MaxInt64, math.MinInt64, -1}}
	},
	"numbers-one-unit": func(p *profile.Profile) {
		p.Sample[0].NumLabel = map[string][]int64{"n": {3, 2, 1}}
		p.Sample[0].NumUnit = map[string][]string{"n": {"ms", "ms", "ms"}}
	},
	"numbers-units": func(p *profile.Profile) {
		p.Sample[0].NumLabel = map[string][]int64{"n": {3, 2, 1}}
		p.Sample[0].NumUnit = map[string][]string{"n": {"ms", "", "s"}}
	},
	"text-and-number": func(p *profile.Profile) {
		p.Sample[0].Label = map[string][]string{"key": {"text", "more"}}
		p.Sample[0].NumLabel = map[string][]int64{"key": {1, 2}}
		p.Sample[0].NumUnit = map[string][]string{"key": {"a", "b"}}
	},
	"empty-key": func(p *profile.Profile) { p.Sample[0].Label = map[string][]string{"": {"value"}} },
	"span":      func(p *profile.Profile) { span(p, "0123456789abcdef0123456789abcdef", "0123456789abcdef") },
	"span-odd":  func(p *profile.Profile) { span(p, "0123456789ABCDEF0123456789abcdef", "0123456789abcdef") },
	"span-zero": func(p *profile.Profile) { span(p, "00000000000000000000000000000000", "0123456789abcdef") },
	"span-alone": func(p *profile.Profile) {
		p.Sample[0].Label = map[string][]string{"span_id": {"0123456789abcdef"}}
	},
	"span-twice": func(p *profile.Profile) {
		span(p, "0123456789abcdef0123456789abcdef", "0123456789abcdef")
		p.Sample[0].Label["trace_id"] = append(p.Sample[0].Label["trace_id"], "x")
	},
	"flags": func(p *profile.Profile) {
		m := p.Mapping[0]
		m.HasFunctions, m.HasFilenames, m.HasLineNumbers, m.HasInlineFrames = true, true, true, true
	},
	"flag":        func(p *profile.Profile) { p.Mapping[0].HasLineNumbers = true },
	"no-build-id": func(p *profile.Profile) { p.Mapping[0].BuildID = "" },
	"folded":      func(p *profile.Profile) { p.Location[1].IsFolded = true },
	"no-mapping":  func(p *profile.Profile) { p.Location[0].Mapping, p.Location[1].Mapping, p.Mapping = nil, nil, nil },
	"no-lines":    func(p *profile.Profile) { p.Location[0].Line = nil },
	"inline-order": func(p *profile.Profile) {
		l := p.Location[0]
		l.Line = []profile.Line{l.Line[1], l.Line[0], {Function: p.Function[0], Line: 1, Column: 2}, l.Line[0]}
	},
	"comments": func(p *profile.Profile) { p.Comments = []string{"one, two", "", "three", "one, two"} },
	"comment":  func(p *profile.Profile) { p.Comments = []string{"alone, with a comma"} },
	"frames": func(p *profile.Profile) {
		p.DropFrames, p.KeepFrames, p.DocURL = "^drop.*$", "keep|also", "https://example.com/?a=b"
	},
	"default-first":   func(p *profile.Profile) { several(p); p.DefaultSampleType = "alloc_objects" },
	"default-middle":  func(p *profile.Profile) { several(p); p.DefaultSampleType = "inuse_objects" },
	"default-last":    func(p *profile.Profile) { several(p); p.DefaultSampleType = "inuse_space" },
	"default-unknown": func(p *profile.Profile) { several(p); p.DefaultSampleType = "nothing" },
	"several":         several,
	"types-alike":     func(p *profile.Profile) { several(p); p.SampleType[2] = p.SampleType[0] },
	"types-unnamed":   func(p *profile.Profile) { several(p); p.SampleType[1] = &profile.ValueType{} },
	"hyphen":          func(p *profile.Profile) { p.SampleType[0].Type = "alloc-samples" },
	"duplicates": func(p *profile.Profile) {
		p.Sample = append(p.Sample, p.Sample[0], &profile.Sample{Location: p.Location, Value: []int64{7}}, &profile.Sample{Value: []int64{1}})
	},
	"equal-entries": func(p *profile.Profile) {
		f, l, m := *p.Function[0], *p.Location[0], *p.Mapping[0]
		f.ID, l.ID, m.ID = 4, 3, 2
		p.Function, p.Location, p.Mapping = append(p.Function, &f), append(p.Location, &l), append(p.Mapping, &m)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{&l, p.Location[1]}, Value: []int64{2}})
	},
	"orphans": func(p *profile.Profile) {
		p.Function = append(p.Function, &profile.Function{ID: 4, Name: "nobody"})
		p.Location = append(p.Location, &profile.Location{ID: 3, Address: 0x77})
		p.Mapping = append(p.Mapping, &profile.Mapping{ID: 2, File: "[vdso]"}, &profile.Mapping{ID: 3})
	},
	"ids": func(p *profile.Profile) {
		p.Mapping[0].ID, p.Function[0].ID, p.Function[1].ID, p.Function[2].ID = math.MaxUint64, 1<<40, 5, 2
		p.Location[0].ID, p.Location[1].ID = math.MaxUint64, 1<<63
	},
	"no-stack": func(p *profile.Profile) { p.Sample[0].Location = nil },
	"deep": func(p *profile.Profile) {
		for range 5000 {
			p.Sample[0].Location = append(p.Sample[0].Location, p.Location[1])
		}
	},
	"negative": func(p *profile.Profile) { p.Sample[0].Value[0] = -7 },
	"zero":     func(p *profile.Profile) { p.Sample[0].Value[0] = 0 },
	"extremes": func(p *profile.Profile) {
		several(p)
		p.Sample[0].Value = []int64{math.MinInt64, math.MaxInt64, 0, -1}
		p.Mapping[0].Start, p.Mapping[0].Limit, p.Mapping[0].Offset = 0xffffffff80000000, math.MaxUint64, 1<<63
		p.Location[0].Address = math.MaxUint64
		p.Location[0].Line[0].Line, p.Location[0].Line[0].Column = math.MaxInt64, math.MinInt64
		p.Function[0].StartLine, p.Period = math.MinInt64, math.MinInt64
	},
	"times":          func(p *profile.Profile) { p.TimeNanos, p.DurationNanos = math.MaxInt64, math.MaxInt64 },
	"times-negative": func(p *profile.Profile) { p.TimeNanos, p.DurationNanos = -1, -5 },
	"times-zero":     func(p *profile.Profile) { p.TimeNanos, p.DurationNanos = 0, 0 },
	"no-period":      func(p *profile.Profile) { p.PeriodType, p.Period = &profile.ValueType{}, 0 },
	"not-utf8": func(p *profile.Profile) {
		p.Function[0].Name, p.Function[1].Name = "a\xffb\xc3", "\ufffdff is no byte, \ufffd neither"
		p.Sample[0].Label = map[string][]string{"k\x80": {"v\xfe", "w"}, "k": {"\xed\xa0\x80"}}
		p.Comments = []string{"c\xf5", "\ufffd"}
		p.Mapping[0].File, p.DocURL, p.SampleType[0].Type = "/bin/\xe9", "\xe9", "t\xe9"
	},
	"replacement": func(p *profile.Profile) { p.Function[0].Name = "\ufffdff" },
}

func span(p *profile.Profile, trace, id string) {
	p.Sample[0].Label = map[string][]string{"trace_id": {trace}, "span_id": {id}, "other": {"x"}}
	p.Sample = append(p.Sample, &profile.Sample{Location: p.Location, Value: []int64{2}})
}

func several(p *profile.Profile) {
	p.SampleType = types("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
	p.Sample[0].Value = []int64{1, 0, -3, 4}
	p.Sample = append(p.Sample, &profile.Sample{Location: p.Location[1:], Value: []int64{0, 0, 0, 0}},
		&profile.Sample{Location: p.Location, Value: []int64{9, 8, 7, 6}, NumLabel: map[string][]int64{"bytes": {32}}})
}

func makeEdges(folder string) {
	for name, change := range edges {
		p := small()
		change(p)
		file, err := os.Create(filepath.Join(folder, name+".pb.gz"))
		if err == nil {
			err = p.Write(file)
		}
		if err == nil {
			err = file.Close()
		}
		if err != nil {
			fmt.Println(name, err)
			os.Exit(2)
		}
	}
}
