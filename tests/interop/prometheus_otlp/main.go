// Prometheus's OTLP receiver before a Prometheus that has none (Debian's): its own translation, of the release in go.mod, and what
// comes of it is written on by remote write. tests/lib/peers.py builds it once into a cache outside the tree; the whole of a
// Prometheus 3 takes ten minutes.
//
//	prometheus-otlp REMOTE_WRITE_URL PROMOTED_ATTRIBUTE…     says the port that it listens on
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote/otlptranslator/prometheusremotewrite"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// As storage/remote/write_handler.go has it.
func receive(r *http.Request, settings prometheusremotewrite.Settings) (*prompb.WriteRequest, error) {
	plain := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		plain = unpacked
	}
	body, err := io.ReadAll(plain)
	if err != nil {
		return nil, err
	}
	request := pmetricotlp.NewExportRequest()
	if err := request.UnmarshalProto(body); err != nil {
		return nil, err
	}
	converter := prometheusremotewrite.NewPrometheusConverter()
	if _, err := converter.FromMetrics(r.Context(), request.Metrics(), settings); err != nil {
		return nil, err
	}
	return &prompb.WriteRequest{Timeseries: converter.TimeSeries()}, nil
}

func main() {
	settings := prometheusremotewrite.Settings{AddMetricSuffixes: true, PromoteResourceAttributes: os.Args[2:]}
	http.HandleFunc("/api/v1/otlp/v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		written, err := receive(r, settings)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		encoded, err := written.Marshal()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		onwards, _ := http.NewRequest("POST", os.Args[1], bytes.NewReader(snappy.Encode(nil, encoded)))
		onwards.Header.Set("Content-Encoding", "snappy")
		onwards.Header.Set("Content-Type", "application/x-protobuf")
		answer, err := http.DefaultClient.Do(onwards)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		answer.Body.Close()
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.WriteHeader(answer.StatusCode / 100 * 100)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, nil))
}
