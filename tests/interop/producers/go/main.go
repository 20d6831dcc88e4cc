// Sends the known profile (../README.md) with Go's generated OTLP code, by HTTP or gRPC. tests/lib/producers.py builds
// it once per release of that code into a cache outside the tree; release_1_8.go and release.go hold what differs.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	collector "go.opentelemetry.io/proto/otlp/collector/profiles/v1development"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	profiles "go.opentelemetry.io/proto/otlp/profiles/v1development"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func text(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

func request() *collector.ExportProfilesServiceRequest {
	strings := []string{"", "samples", "count", "cpu", "nanoseconds", "profile.frame.type", "do_idle", "main", "runtime.mcall"}
	dictionary := &profiles.ProfilesDictionary{
		StringTable:    strings,
		MappingTable:   []*profiles.Mapping{{}},
		LinkTable:      []*profiles.Link{{}},
		FunctionTable:  []*profiles.Function{{}, {NameStrindex: 6}, {NameStrindex: 7}, {NameStrindex: 8}},
		AttributeTable: []*profiles.KeyValueAndUnit{{}},
		LocationTable:  []*profiles.Location{{}},
		StackTable: []*profiles.Stack{{}, {LocationIndices: []int32{1, 2}}, {LocationIndices: []int32{2}},
			{LocationIndices: []int32{3, 2}}},
	}
	for i, kind := range []string{"kernel", "native", "go"} {
		dictionary.AttributeTable = append(dictionary.AttributeTable, &profiles.KeyValueAndUnit{KeyStrindex: 5, Value: text(kind)})
		dictionary.LocationTable = append(dictionary.LocationTable, location(int32(i+1)))
	}
	profile := &profiles.Profile{
		SampleType:   &profiles.ValueType{TypeStrindex: 1, UnitStrindex: 2},
		PeriodType:   &profiles.ValueType{TypeStrindex: 3, UnitStrindex: 4},
		Period:       1_000_000_000 / 19,
		TimeUnixNano: 1_760_000_000_000_000_000,
		DurationNano: 5_000_000_000,
	}
	addSamples(profile, []*profiles.Sample{
		{StackIndex: 1, Values: []int64{1}, AttributeIndices: []int32{1}},
		{StackIndex: 2, Values: []int64{1, 1}, AttributeIndices: []int32{2}, TimestampsUnixNano: []uint64{1_760_000_000_000_000_001, 1_760_000_000_000_000_002}},
		{StackIndex: 3, Values: []int64{1}, AttributeIndices: []int32{3}},
	})
	return &collector.ExportProfilesServiceRequest{
		Dictionary: dictionary,
		ResourceProfiles: []*profiles.ResourceProfiles{{
			Resource: &resource.Resource{Attributes: []*common.KeyValue{{Key: "service.name", Value: text("known")}}},
			ScopeProfiles: []*profiles.ScopeProfiles{{
				Scope:    &common.InstrumentationScope{Name: "producer-go", Version: release},
				Profiles: []*profiles.Profile{profile},
			}},
		}},
	}
}

func post(port string, body []byte, contentType string) error {
	answer, err := http.Post("http://127.0.0.1:"+port+"/v1development/profiles", contentType, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != 200 {
		return fmt.Errorf("%s: %q", answer.Status, said)
	}
	response := &collector.ExportProfilesServiceResponse{}
	if contentType == "application/json" {
		err = protojson.Unmarshal(said, response)
	} else {
		err = proto.Unmarshal(said, response)
	}
	if err != nil || response.PartialSuccess != nil {
		return fmt.Errorf("%v, partial success %v", err, response.PartialSuccess)
	}
	return nil
}

func send(protocol, port string, times int) error {
	message := request()
	if protocol == "grpc" {
		connection, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer connection.Close()
		client := collector.NewProfilesServiceClient(connection)
		for i := 0; i < times; i++ {
			var options []grpc.CallOption
			if i%2 == 1 {
				options = append(options, grpc.UseCompressor(gzip.Name))
			}
			response, err := client.Export(context.Background(), message, options...)
			if err != nil {
				return err
			}
			if response.PartialSuccess != nil {
				return fmt.Errorf("partial success: %v", response.PartialSuccess)
			}
		}
		return nil
	}
	body, err := proto.Marshal(message)
	kind := "application/x-protobuf"
	if protocol == "json" {
		body, err = protojson.Marshal(message)
		kind = "application/json"
	}
	for i := 0; i < times && err == nil; i++ {
		err = post(port, body, kind)
	}
	return err
}

func main() {
	times, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = send(os.Args[1], os.Args[2], times)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
