//go:build !release_1_8

package main

import profiles "go.opentelemetry.io/proto/otlp/profiles/v1development"

const release = "1.9 or newer"

func location(i int32) *profiles.Location {
	return &profiles.Location{Address: uint64(i) * 4096, AttributeIndices: []int32{i}, Lines: []*profiles.Line{{FunctionIndex: i}}}
}

func addSamples(profile *profiles.Profile, samples []*profiles.Sample) {
	profile.Samples = samples
}
