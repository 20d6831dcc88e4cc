// Pyroscope's ways of pushing, by its own libraries, and a service that net/http/pprof profiles.
//
//	sdk URL SECONDS      pyroscope-go pushes what it profiles
//	push URL HOW FILE... push.v1 with Pyroscope's generated client, HOW: connect, json, grpc; a series each
//	arrow URL|FILE HOW ROWS      rows as parca-agent's WriteArrow has them, HOW: lz4, zstd, plain, or a file
//	serve [CERT KEY USER PASSWORD]  /debug/pprof of a busy service; prints its port
//	query URL HOW SELECTOR [USER PASSWORD]  what Grafana's data source asks, HOW: connect, json, gzip; prints what it makes of the answers
//	sum FILE...          the totals by sample type, as google/pprof reads the files
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	"github.com/grafana/pyroscope-go"
	profilev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	"golang.org/x/net/http2"
)

var kept [][]byte

// Something for every profile: CPU, allocations, a contended mutex, a channel that blocks.
func work(seconds float64) {
	var mutex sync.Mutex
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	var group sync.WaitGroup
	for i := 0; i < 2; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; time.Now().Before(end); n++ {
				mutex.Lock()
				kept = append(kept, make([]byte, 4096))
				if len(kept) > 1000 {
					kept = nil
				}
				for t := time.Now(); time.Since(t) < 300*time.Microsecond; {
				}
				mutex.Unlock()
			}
		}()
	}
	group.Wait()
}

func sdk(url, seconds string) error {
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1000)
	p, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: "go.sdk", ServerAddress: url, Logger: pyroscope.StandardLogger,
		Tags: map[string]string{"region": "eu", "pod": "a b"}, UploadRate: time.Second,
		ProfileTypes: []pyroscope.ProfileType{
			pyroscope.ProfileCPU, pyroscope.ProfileAllocObjects, pyroscope.ProfileAllocSpace, pyroscope.ProfileInuseObjects,
			pyroscope.ProfileInuseSpace, pyroscope.ProfileGoroutines, pyroscope.ProfileMutexCount, pyroscope.ProfileMutexDuration,
			pyroscope.ProfileBlockCount, pyroscope.ProfileBlockDuration,
		},
	})
	if err != nil {
		return err
	}
	for _, endpoint := range []string{"a", "b"} {
		pyroscope.TagWrapper(context.Background(), pyroscope.Labels("endpoint", endpoint), func(context.Context) {
			s, _ := strconv.ParseFloat(seconds, 64)
			work(s / 2)
		})
	}
	p.Flush(true)
	return p.Stop()
}

func push(url, how string, files []string) error {
	options := []connect.ClientOption{}
	client := http.DefaultClient
	switch how {
	case "json":
		options = append(options, connect.WithProtoJSON())
	case "grpc":
		options = append(options, connect.WithGRPC())
		client = &http.Client{Transport: &http2.Transport{AllowHTTP: true,
			DialTLSContext: func(_ context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
				return net.Dial(network, address)
			}}}
	case "gzip":
		options = append(options, connect.WithSendGzip())
	}
	request := &pushv1.PushRequest{}
	for i, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		request.Series = append(request.Series, &pushv1.RawProfileSeries{
			Labels: []*typesv1.LabelPair{{Name: "__name__", Value: "process_cpu"}, {Name: "service_name", Value: "pushed"},
				{Name: "number", Value: strconv.Itoa(i)}},
			Samples: []*pushv1.RawSample{{RawProfile: body, ID: "7"}},
		})
	}
	_, err := pushv1connect.NewPusherServiceClient(client, url, options...).Push(context.Background(), connect.NewRequest(request))
	if e, ok := err.(*connect.Error); ok {
		return fmt.Errorf("%s: %s", e.Code(), e.Message())
	}
	return err
}

func serve(arguments []string) error {
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1000)
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	var handler http.Handler = mux
	if len(arguments) == 4 {
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			if user != arguments[2] || password != arguments[3] {
				http.Error(w, "no", http.StatusUnauthorized)
				return
			}
			mux.ServeHTTP(w, r)
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	go func() {
		for {
			work(0.2)
			time.Sleep(300 * time.Millisecond)
		}
	}()
	if len(arguments) == 4 {
		return http.ServeTLS(l, handler, arguments[0], arguments[1])
	}
	return http.Serve(l, handler)
}

func sum(files []string) error {
	totals := map[string]int64{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		p, err := profile.Parse(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for i, t := range p.SampleType {
			for _, s := range p.Sample {
				totals[t.Type+"/"+t.Unit] += s.Value[i]
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(totals)
}

// As levelsToTree of Grafana's data source (pkg/tsdb/grafana-pyroscope-datasource/query.go): bars that lie in no parent are lost.
func walk(levels []*querierv1.Level) (nodes, lost int, self int64) {
	type bar struct{ start, value int64 }
	parents := []bar{{0, levels[0].Values[1]}}
	self = levels[0].Values[2]
	for _, l := range levels[1:] {
		var next []bar
		current := 0
		offset := int64(0)
		for i := 0; i < len(l.Values); {
			start := l.Values[i] + offset
			end := start + l.Values[i+1]
			if start >= parents[current].start && end <= parents[current].start+parents[current].value {
				next = append(next, bar{start, l.Values[i+1]})
				nodes++
				self += l.Values[i+2]
				offset = end
				i += 4
			} else if current+1 == len(parents) {
				lost += (len(l.Values) - i) / 4
				break
			} else {
				current++
			}
		}
		parents = next
	}
	return
}

func total(p *profilev1.Profile) (sum int64) {
	for _, s := range p.Sample {
		sum += s.Value[0]
	}
	return
}

type withUser struct{ user, password string }

func (w withUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r.SetBasicAuth(w.user, w.password)
	return http.DefaultTransport.RoundTrip(r)
}

func query(arguments []string) error {
	url, how, selector := arguments[0], arguments[1], arguments[2]
	client := &http.Client{}
	if len(arguments) > 3 {
		client.Transport = withUser{arguments[3], arguments[4]}
	}
	options := []connect.ClientOption{}
	switch how {
	case "json":
		options = append(options, connect.WithProtoJSON())
	case "gzip":
		options = append(options, connect.WithSendGzip())
	}
	c := querierv1connect.NewQuerierServiceClient(client, url, options...)
	ctx := context.Background()
	end := time.Now().UnixMilli()
	start := end - 3600_000
	types, err := c.ProfileTypes(ctx, connect.NewRequest(&querierv1.ProfileTypesRequest{Start: start, End: end}))
	if err != nil {
		return err
	}
	said := map[string]any{}
	ids := []string{}
	for _, t := range types.Msg.ProfileTypes {
		ids = append(ids, t.ID)
		if t.ID == "process_cpu:cpu:nanoseconds:cpu:nanoseconds" {
			said["type"] = []string{t.Name, t.SampleType, t.SampleUnit, t.PeriodType, t.PeriodUnit}
		}
	}
	said["types"] = ids
	id := "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
	names, err := c.LabelNames(ctx, connect.NewRequest(&typesv1.LabelNamesRequest{Matchers: []string{"{}"}, Start: start, End: end}))
	if err != nil {
		return err
	}
	said["names"] = names.Msg.Names
	values, err := c.LabelValues(ctx, connect.NewRequest(&typesv1.LabelValuesRequest{
		Name: "service_name", Matchers: []string{`{__profile_type__="` + id + `"}`}, Start: start, End: end}))
	if err != nil {
		return err
	}
	said["services"] = values.Msg.Names
	sets, err := c.Series(ctx, connect.NewRequest(&querierv1.SeriesRequest{
		Matchers: []string{"{}"}, LabelNames: []string{"service_name", "__profile_type__"}, Start: start, End: end}))
	if err != nil {
		return err
	}
	services := []map[string]string{}
	for _, set := range sets.Msg.LabelsSet {
		labels := map[string]string{}
		for _, l := range set.Labels {
			labels[l.Name] = l.Value
		}
		services = append(services, labels)
	}
	said["sets"] = services
	series, err := c.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{
		ProfileTypeID: id, LabelSelector: selector, Start: start, End: end, Step: 15, GroupBy: []string{"service_name"}}))
	if err != nil {
		return err
	}
	over := map[string]float64{}
	for _, s := range series.Msg.Series {
		name := "" // of what has no service
		for _, l := range s.Labels {
			name = l.Value
		}
		for _, p := range s.Points {
			over[name] += p.Value
			if (p.Timestamp-start)%15_000 != 0 {
				return fmt.Errorf("a point is not at a step: %d", p.Timestamp)
			}
		}
	}
	said["series"] = over
	ask := func(nodes int64, format querierv1.ProfileFormat, site ...string) (*querierv1.SelectMergeStacktracesResponse, error) {
		request := &querierv1.SelectMergeStacktracesRequest{ProfileTypeID: id, LabelSelector: selector, Start: start, End: end, MaxNodes: &nodes, Format: format}
		for _, name := range site {
			if request.StackTraceSelector == nil {
				request.StackTraceSelector = &typesv1.StackTraceSelector{}
			}
			request.StackTraceSelector.CallSite = append(request.StackTraceSelector.CallSite, &typesv1.Location{Name: name})
		}
		answer, err := c.SelectMergeStacktraces(ctx, connect.NewRequest(request))
		if err != nil {
			return nil, err
		}
		return answer.Msg, nil
	}
	for name, nodes := range map[string]int64{"flamegraph": 16384, "small": 50} {
		answer, err := ask(nodes, querierv1.ProfileFormat_PROFILE_FORMAT_UNSPECIFIED)
		if err != nil {
			return err
		}
		n, lost, self := walk(answer.Flamegraph.Levels)
		said[name] = map[string]any{"total": answer.Flamegraph.Total, "nodes": n, "lost": lost, "self": self, "names": answer.Flamegraph.Names}
	}
	answer, err := ask(16384, querierv1.ProfileFormat_PROFILE_FORMAT_PPROF)
	if err != nil {
		return err
	}
	said["pprof"] = total(answer.Pprof.Profile)
	if answer, err = ask(16384, 0, said["flamegraph"].(map[string]any)["names"].([]string)[2]); err != nil {
		return err
	}
	said["site"] = answer.Flamegraph.Total
	merged, err := c.SelectMergeProfile(ctx, connect.NewRequest(&querierv1.SelectMergeProfileRequest{ProfileTypeID: id, LabelSelector: selector, Start: start, End: end}))
	if err != nil {
		return err
	}
	said["merged"] = total(merged.Msg)
	side := &querierv1.SelectMergeStacktracesRequest{ProfileTypeID: id, LabelSelector: selector, Start: start, End: end}
	all := &querierv1.SelectMergeStacktracesRequest{ProfileTypeID: id, LabelSelector: "{}", Start: start, End: end}
	diff, err := c.Diff(ctx, connect.NewRequest(&querierv1.DiffRequest{Left: side, Right: all}))
	if err != nil {
		return err
	}
	said["diff"] = []int64{diff.Msg.Flamegraph.LeftTicks, diff.Msg.Flamegraph.RightTicks, diff.Msg.Flamegraph.Total}
	stats, err := c.GetProfileStats(ctx, connect.NewRequest(&typesv1.GetProfileStatsRequest{}))
	if err != nil {
		return err
	}
	said["stats"] = stats.Msg.DataIngested && stats.Msg.OldestProfileTime < stats.Msg.NewestProfileTime
	_, heat := c.SelectHeatmap(ctx, connect.NewRequest(&querierv1.SelectHeatmapRequest{}))
	side.LabelSelector = "{a"
	_, bad := c.SelectMergeStacktraces(ctx, connect.NewRequest(side))
	side.LabelSelector, side.TraceIdSelector = "{}", []string{"7c9e66797425440de944be07fc1f90ae"}
	_, trace := c.SelectMergeStacktraces(ctx, connect.NewRequest(side))
	_, points := c.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{ProfileTypeID: id, Start: start, End: end, Step: 0.0001}))
	said["errors"] = []string{connect.CodeOf(heat).String(), connect.CodeOf(bad).String(), connect.CodeOf(trace).String(), connect.CodeOf(points).String()}
	return json.NewEncoder(os.Stdout).Encode(said)
}

func main() {
	var err error
	switch arguments := os.Args[2:]; os.Args[1] {
	case "sdk":
		err = sdk(arguments[0], arguments[1])
	case "push":
		err = push(arguments[0], arguments[1], arguments[2:])
	case "arrow":
		err = pushArrow(arguments[0], arguments[1], arguments[2])
	case "serve":
		err = serve(arguments)
	case "query":
		err = query(arguments)
	case "sum":
		err = sum(arguments)
	default:
		err = fmt.Errorf("%s: nobody knows that", os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}
