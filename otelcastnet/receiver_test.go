package otelcastnet_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/castnet-io/castnet/internal/testkit"
)

// receiver takes spans by OTLP over HTTP, as a collector does.
type receiver struct {
	url string

	mu    sync.Mutex
	spans []received
}

// received is a span and the service that sent it.
type received struct {
	*tracepb.Span
	service string
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 16 << 20

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var body io.Reader = http.MaxBytesReader(w, q.Body, maxRequest)
	if q.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = io.LimitReader(unpacked, maxRequest)
	}
	var request collector.ExportTraceServiceRequest
	raw, err := io.ReadAll(body)
	if err == nil {
		err = proto.Unmarshal(raw, &request)
	}
	if err != nil || q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "want spans as protobuf", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range request.ResourceSpans {
		service := attributes(of.Resource.GetAttributes())["service.name"]
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				r.spans = append(r.spans, received{s, service.GetStringValue()})
			}
		}
	}
}

// all returns the spans so far, once there are n.
func (r *receiver) all(t testing.TB, n int) (all []received) {
	t.Helper()
	testkit.Until(t, "the spans have come", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		all = append([]received(nil), r.spans...)
		return len(all) >= n
	})
	require.Len(t, all, n)
	return all
}

func attributes(all []*common.KeyValue) map[string]*common.AnyValue {
	m := map[string]*common.AnyValue{}
	for _, kv := range all {
		m[kv.Key] = kv.Value
	}
	return m
}

func (s received) text(key string) string { return attributes(s.Attributes)[key].GetStringValue() }
func (s received) int(key string) int     { return int(attributes(s.Attributes)[key].GetIntValue()) }
