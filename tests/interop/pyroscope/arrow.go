package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"

	"connectrpc.com/connect"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// parca-agent's schema v2 (its reporter/arrow_v2.go), by the library and with the types that it writes.
var (
	mem       = memory.NewGoAllocator()
	text      = arrow.BinaryTypes.String
	words     = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: text}
	labelType = runs(words)
	function  = arrow.StructOf(
		arrow.Field{Name: "system_name", Type: arrow.BinaryTypes.StringView, Nullable: true},
		arrow.Field{Name: "filename", Type: words, Nullable: true},
		arrow.Field{Name: "start_line", Type: arrow.PrimitiveTypes.Uint64})
	functions = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: function}
	lineType  = arrow.StructOf(
		arrow.Field{Name: "line", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "column", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "function", Type: functions})
	location = arrow.StructOf(
		arrow.Field{Name: "address", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "frame_type", Type: words, Nullable: true},
		arrow.Field{Name: "mapping_file", Type: words, Nullable: true},
		arrow.Field{Name: "mapping_build_id", Type: words, Nullable: true},
		arrow.Field{Name: "lines", Type: arrow.ListViewOf(lineType), Nullable: true})
	locations = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: location}
)

func runs(of arrow.DataType) arrow.DataType {
	return arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, of)
}

// Frame is one of a stack, leaf first.
type Frame struct {
	Type, File, BuildID, Function, Source string
	Address, Line                         uint64
}

// Row is a sample.
type Row struct {
	Labels                                       map[string]string
	Stack                                        []Frame
	Value, Period, Time                          int64
	Producer, Type, Unit, PeriodType, PeriodUnit string
}

// What is sent: of two processes, on CPUs, off them, and of memory; native, kernel's and Python's frames.
func rows(n int) []Row {
	kernel := Frame{Type: "kernel", File: "[kernel.kallsyms]", Function: "do_syscall_64", Source: "vmlinux", Address: 0xffffffff81000000}
	native := Frame{Type: "native", File: "libc.so.6", BuildID: "c289da5071a3399de893d2af81d6a30c62646e1e", Address: 0x1234}
	hashed := Frame{Type: "native", File: "app", BuildID: "0123456789abcdef0123456789abcdef", Address: 0x99}
	python := Frame{Type: "cpython", Function: "handle_a_request_with_a_long_name", Source: "/app/web.py", Line: 17, Address: 17}
	short := Frame{Type: "cpython", Function: "main", Source: "/app/web.py", Line: 3}
	aborted := Frame{Type: "abort-marker", File: "agent-internal-error-frame", Function: "aborted"}
	stacks := [][]Frame{{kernel, native, python, short}, {native, hashed}, {hashed}, {python, short, aborted}, {}}
	ret := []Row{}
	for i := 0; i < n; i++ {
		r := Row{Stack: stacks[i%len(stacks)], Value: 1, Period: 52631578, Time: 1_700_000_000_000_000_000 + int64(i)*1000,
			Producer: "parca_agent", Type: "samples", Unit: "count", PeriodType: "cpu", PeriodUnit: "nanoseconds",
			Labels: map[string]string{"node": "n1", "comm": "web", "thread_id": strconv.Itoa(100 + i%3), "thread_name": "worker",
				"cpu": strconv.Itoa(i % 2), "region": "eu"}}
		switch i % 7 {
		case 5:
			r.Type, r.Unit, r.PeriodType, r.PeriodUnit, r.Period, r.Value = "wallclock", "nanoseconds", "samples", "count", 0, int64(i)*1000
		case 6:
			r.Producer, r.Type, r.Unit, r.PeriodType, r.PeriodUnit, r.Period, r.Value = "memory", "inuse_space", "bytes", "space", "bytes", 512<<10, 4096
			r.Labels["comm"] = "db"
			delete(r.Labels, "region")
			r.Labels["trace_id"], r.Labels["span_id"] = fmt.Sprintf("%032x", i+1), fmt.Sprintf("%016x", i+1)
		}
		ret = append(ret, r)
	}
	return ret
}

func append1(b array.Builder, value string) {
	if value == "" {
		b.AppendNull()
	} else if err := b.AppendValueFromString(value); err != nil {
		panic(err)
	}
}

// As the agent's builders do: a run goes on while the value is the same.
func run(values []string, of arrow.DataType) arrow.Array {
	b := array.NewBuilder(mem, runs(of)).(*array.RunEndEncodedBuilder)
	for i, value := range values {
		if i > 0 && value == values[i-1] && value != "" {
			b.ContinueRun(1)
			continue
		}
		b.Append(1)
		append1(b.ValueBuilder(), value)
	}
	return b.NewArray()
}

func column(rows []Row, of func(Row) string) []string {
	ret := []string{}
	for _, r := range rows {
		ret = append(ret, of(r))
	}
	return ret
}

func data(of arrow.DataType, n int, buffers []*memory.Buffer, nulls int, children ...arrow.Array) arrow.ArrayData {
	all := []arrow.ArrayData{}
	for _, child := range children {
		all = append(all, child.Data())
	}
	return array.NewData(of, n, buffers, all, nulls, 0)
}

func listView(of arrow.DataType, offsets, sizes []int32, valid *memory.Buffer, nulls int, child arrow.Array) arrow.Array {
	return array.NewListViewData(data(arrow.ListViewOf(of), len(offsets),
		[]*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(sizes))},
		nulls, child))
}

func indices(of []uint32) arrow.Array {
	b := array.NewUint32Builder(mem)
	b.AppendValues(of, nil)
	return b.NewArray()
}

// The columns stacktrace and stacktrace_id: locations and functions are dictionaries of structs, and rows with one stack name
// one list.
func stacktraces(rows []Row) (arrow.Array, arrow.Array) {
	var offsets, sizes, lineOffsets, lineSizes []int32
	var stacks, called []uint32
	known, knownFunctions, lists := map[Frame]uint32{}, map[[2]string]uint32{}, map[string]int32{}
	ids := extensions.NewUUIDBuilder(mem)
	address, lines, columns := array.NewUint64Builder(mem), array.NewUint64Builder(mem), array.NewUint64Builder(mem)
	types, files, builds := array.NewBuilder(mem, words), array.NewBuilder(mem, words), array.NewBuilder(mem, words)
	f := array.NewStructBuilder(mem, function)
	for _, r := range rows {
		key := fmt.Sprint(r.Stack)
		ids.AppendBytes([16]byte(append([]byte(key), make([]byte, 16)...)[:16]))
		at, ok := lists[key]
		if !ok {
			at = int32(len(stacks))
			lists[key] = at
			for _, frame := range r.Stack {
				index, ok := known[frame]
				if !ok {
					index = uint32(len(known))
					known[frame] = index
					address.Append(frame.Address)
					append1(types, frame.Type)
					append1(files, frame.File)
					append1(builds, frame.BuildID)
					lineOffsets = append(lineOffsets, int32(lines.Len()))
					lineSizes = append(lineSizes, 0)
					if frame.Function != "" {
						name := [2]string{frame.Function, frame.Source}
						number, ok := knownFunctions[name]
						if !ok {
							number = uint32(len(knownFunctions))
							knownFunctions[name] = number
							f.Append(true)
							append1(f.FieldBuilder(0), name[0])
							append1(f.FieldBuilder(1), name[1])
							f.FieldBuilder(2).(*array.Uint64Builder).Append(0)
						}
						lines.Append(frame.Line)
						columns.Append(0)
						called = append(called, number)
						lineSizes[len(lineSizes)-1] = 1
					}
				}
				stacks = append(stacks, index)
			}
		}
		offsets, sizes = append(offsets, at), append(sizes, int32(len(r.Stack)))
	}
	functionArray := array.NewDictionaryArray(functions, indices(called), f.NewArray())
	lineArray := array.MakeFromData(data(lineType, len(called), []*memory.Buffer{nil}, 0, lines.NewArray(), columns.NewArray(), functionArray))
	bits, nulls := make([]byte, bitutil.BytesForBits(int64(len(lineSizes)))), 0
	for i, size := range lineSizes {
		if size > 0 {
			bitutil.SetBit(bits, i)
		} else {
			nulls++
		}
	}
	lists2 := listView(lineType, lineOffsets, lineSizes, memory.NewBufferBytes(bits), nulls, lineArray)
	place := array.MakeFromData(data(location, len(known), []*memory.Buffer{nil}, 0, address.NewArray(), types.NewArray(), files.NewArray(),
		builds.NewArray(), lists2))
	return listView(locations, offsets, sizes, nil, 0, array.NewDictionaryArray(locations, indices(stacks), place)), ids.NewArray()
}

func record(rows []Row) arrow.RecordBatch {
	fields, children := []arrow.Field{}, []arrow.Array{}
	for _, name := range []string{"comm", "cpu", "node", "region", "span_id", "thread_id", "thread_name", "trace_id"} {
		fields = append(fields, arrow.Field{Name: name, Type: labelType, Nullable: true})
		children = append(children, run(column(rows, func(r Row) string { return r.Labels[name] }), words))
	}
	labels := arrow.StructOf(fields...)
	values, times := array.NewInt64Builder(mem), array.NewBuilder(mem, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}).(*array.TimestampBuilder)
	for _, r := range rows {
		values.Append(r.Value)
		times.Append(arrow.Timestamp(r.Time))
	}
	stack, id := stacktraces(rows)
	columns := []struct {
		name string
		of   arrow.Array
	}{
		{"labels", array.MakeFromData(data(labels, len(rows), []*memory.Buffer{nil}, 0, children...))},
		{"stacktrace", stack}, {"stacktrace_id", id}, {"value", values.NewArray()},
		{"producer", run(column(rows, func(r Row) string { return r.Producer }), text)},
		{"sample_type", run(column(rows, func(r Row) string { return r.Type }), text)},
		{"sample_unit", run(column(rows, func(r Row) string { return r.Unit }), text)},
		{"period_type", run(column(rows, func(r Row) string { return r.PeriodType }), text)},
		{"period_unit", run(column(rows, func(r Row) string { return r.PeriodUnit }), text)},
		{"temporality", run(column(rows, func(r Row) string { return map[bool]string{true: "delta"}[r.Period < 512<<10] }), text)},
		{"period", run(column(rows, func(r Row) string { return strconv.FormatInt(r.Period, 10) }), arrow.PrimitiveTypes.Int64)},
		{"duration", run(column(rows, func(Row) string { return "1000000000" }), arrow.PrimitiveTypes.Uint64)},
		{"timestamp", times.NewArray()},
	}
	all, arrays := []arrow.Field{}, []arrow.Array{}
	for _, c := range columns {
		all = append(all, arrow.Field{Name: c.name, Type: c.of.DataType()})
		arrays = append(arrays, c.of)
	}
	metadata := arrow.NewMetadata([]string{"parca_write_schema_version"}, []string{"v2"})
	return array.NewRecordBatch(arrow.NewSchema(all, &metadata), arrays, int64(len(rows)))
}

// The stream as the agent has it (lz4), or with buffers of another kind; or that file as it is.
func stream(how string, rows []Row) ([]byte, error) {
	options := map[string][]ipc.Option{"lz4": {ipc.WithLZ4()}, "zstd": {ipc.WithZstd()}, "plain": {}}[how]
	if options == nil {
		return os.ReadFile(how)
	}
	batch := record(rows)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(options, ipc.WithSchema(batch.Schema()))...)
	if err := w.Write(batch); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// arrow URL|FILE HOW ROWS: as parca-agent calls WriteArrow, or into a file; prints the rows. The messages WriteArrowRequest
// and -Response are on the wire as these two.
func pushArrow(url, how, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	all := rows(n)
	body, err := stream(how, all)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		return err
	}
	if url[0] == '/' {
		return os.WriteFile(url, body, 0o644)
	}
	client := &http.Client{Transport: &http2.Transport{AllowHTTP: true,
		DialTLSContext: func(_ context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
			return net.Dial(network, address)
		}}}
	_, err = connect.NewClient[wrapperspb.BytesValue, emptypb.Empty](client, url+"/parca.profilestore.v1alpha1.ProfileStoreService/WriteArrow",
		connect.WithGRPC()).CallUnary(context.Background(), connect.NewRequest(wrapperspb.Bytes(body)))
	if e, ok := err.(*connect.Error); ok {
		return fmt.Errorf("%s: %s", e.Code(), e.Message())
	}
	return err
}
