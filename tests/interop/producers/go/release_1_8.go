//go:build release_1_8

package main

import profiles "go.opentelemetry.io/proto/otlp/profiles/v1development"

const release = "1.8"

func location(i int32) *profiles.Location {
	return &profiles.Location{Address: uint64(i) * 4096, AttributeIndices: []int32{i}, Line: []*profiles.Line{{FunctionIndex: i}}}
}

func addSamples(profile *profiles.Profile, samples []*profiles.Sample) {
	profile.Sample = samples
	// what 1.9 dropped, and what tells the two apart
	profile.SampleType.AggregationTemporality = profiles.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	profile.CommentStrindices = []int32{7}
}
