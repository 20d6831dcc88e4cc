// Pyroscope's ways of pushing, by its own libraries, and a service that net/http/pprof profiles.
//
//	sdk URL SECONDS      pyroscope-go pushes what it profiles
//	push URL HOW FILE... push.v1 with Pyroscope's generated client, HOW: connect, json, grpc; a series each
//	arrow URL|FILE HOW ROWS      rows as parca-agent's WriteArrow has them, HOW: lz4, zstd, plain, or a file
//	serve [CERT KEY USER PASSWORD]  /debug/pprof of a busy service; prints its port
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
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
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
	case "sum":
		err = sum(arguments)
	default:
		err = fmt.Errorf("%s: nobody knows that", os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}
