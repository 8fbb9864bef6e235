package otlp

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// collect serves OTLP over HTTP, and returns its URL and the received requests.
func collect(t *testing.T) (url string, got <-chan *collector.ExportTraceServiceRequest) {
	t.Helper()
	all := make(chan *collector.ExportTraceServiceRequest, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		raw, err := io.ReadAll(body)
		request := &collector.ExportTraceServiceRequest{}
		if err != nil || proto.Unmarshal(raw, request) != nil || r.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		all <- request
	}))
	t.Cleanup(srv.Close)
	return srv.URL, all
}

// environment sets variables for the test and the SDK.
func environment(t *testing.T, vars map[string]string) func(string) string {
	t.Helper()
	for key, value := range vars {
		t.Setenv(key, value)
	}
	return func(key string) string { return vars[key] }
}

// unexpected fails the test at an error of the exporter.
func unexpected(t *testing.T) func(error) { return func(err error) { t.Errorf("unexpected: %v", err) } }

func TestStart_lastSpansLeaveAtTheStop_OTLP1(t *testing.T) {
	url, got := collect(t)
	env := environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url,
		"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"})
	tracer, stop, err := Start(t.Context(), "castnet-hostd", "1.2", env, unexpected(t))
	require.NoError(t, err)
	tracer.Start(t.Context(), actor.Trace{}, actor.Operation{Kind: actor.OpAsk}).End(actor.Outcome{})
	require.NoError(t, stop(t.Context()))
	of := testkit.Next(t, got).ResourceSpans[0]
	said := map[string]string{}
	for _, kv := range of.Resource.Attributes {
		said[kv.Key] = kv.Value.GetStringValue()
	}
	require.Equal(t, "castnet-hostd", said["service.name"])
	require.Equal(t, "1.2", said["service.version"])
	require.Equal(t, "test", said["deployment.environment.name"])
	require.Len(t, of.ScopeSpans[0].Spans, 1)
}

func TestStart_serviceNameOfTheEnvironmentCounts_OTLP1(t *testing.T) {
	url, got := collect(t)
	env := environment(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url + "/v1/traces",
		"OTEL_SERVICE_NAME": "mine"})
	tracer, stop, err := Start(t.Context(), "castnet", "1", env, unexpected(t))
	require.NoError(t, err)
	tracer.Start(t.Context(), actor.Trace{}, actor.Operation{Kind: actor.OpCast}).End(actor.Outcome{})
	require.NoError(t, stop(t.Context()))
	for _, kv := range testkit.Next(t, got).ResourceSpans[0].Resource.Attributes {
		if kv.Key == "service.name" {
			require.Equal(t, "mine", kv.Value.GetStringValue())
		}
	}
}

func TestStop_unreachableCollectorCostsOneReport_OTLP1(t *testing.T) {
	env := environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
	reports := make(chan error, 100)
	tracer, stop, err := Start(t.Context(), "castnet", "1", env, func(err error) { reports <- err })
	require.NoError(t, err)
	for range 10_000 {
		tracer.Start(t.Context(), actor.Trace{}, actor.Operation{Kind: actor.OpAsk}).End(actor.Outcome{})
	}
	require.NoError(t, stop(testkit.Soon(t)))
	require.ErrorContains(t, testkit.Next(t, reports), "cannot send")
	require.Empty(t, reports)
}

func TestStop_silentCollectorDelaysItsContextAtMost_OTLP1(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	env := environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + l.Addr().String()})
	tracer, stop, err := Start(t.Context(), "castnet", "1", env, func(error) {})
	require.NoError(t, err)
	tracer.Start(t.Context(), actor.Trace{}, actor.Operation{Kind: actor.OpAsk}).End(actor.Outcome{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = stop(ctx)
	require.Less(t, time.Since(began), testkit.Patience)
}

func TestStart_isOffUnlessAsked_OTLP2(t *testing.T) {
	for _, vars := range []map[string]string{
		{},
		{"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "always_on"},
		{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
	} {
		tracer, stop, err := Start(t.Context(), "castnet", "1", func(key string) string { return vars[key] }, unexpected(t))
		require.NoError(t, err)
		require.Nil(t, tracer)
		require.NoError(t, stop(t.Context()))
	}
}

func TestStart_refusesWhatItWouldIgnore_OTLP2(t *testing.T) {
	for want, vars := range map[string]map[string]string{
		"want otlp or none":  {"OTEL_TRACES_EXPORTER": "zipkin"},
		"want http/protobuf": {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		"want a number from 0 to 1": {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio",
			"OTEL_TRACES_SAMPLER_ARG": "2"},
		"want always_on": {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "jaeger_remote"},
	} {
		_, _, err := Start(t.Context(), "castnet", "1", func(key string) string { return vars[key] }, unexpected(t))
		require.ErrorContains(t, err, want)
	}
}

func TestStart_samplesTheShareOfTheEnvironment_OTLP2(t *testing.T) {
	url, _ := collect(t)
	for share, want := range map[string][2]int{"0": {0, 0}, "0.1": {20, 250}, "": {1000, 1000}} {
		env := environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url,
			"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": share})
		tracer, stop, err := Start(t.Context(), "castnet", "1", env, unexpected(t))
		require.NoError(t, err)
		n := 0
		for range 1000 {
			if tracer.Samples(t.Context(), actor.Undecided) {
				n++
			}
		}
		require.GreaterOrEqual(t, n, want[0])
		require.LessOrEqual(t, n, want[1])
		require.NoError(t, stop(t.Context()))
	}
}
