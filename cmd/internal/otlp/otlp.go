package otlp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/spans"
)

// protocol is the only protocol of the exporter.
const protocol = "http/protobuf"

// Start returns the tracer of a command with the default service name, or nil if the environment
// asks for none. stop sends the last spans and ends the exporter. report gets an error of the
// exporter, once in a minute at most. The exporter reads the other variables in the environment of
// the process.
func Start(ctx context.Context, service, version string, getenv func(string) string,
	report func(error)) (t actor.Tracer, stop func(context.Context) error, err error) {
	stop = func(context.Context) error { return nil }
	asked, err := isAsked(getenv)
	if err != nil || !asked {
		return nil, stop, err
	}
	roots, err := rootShare(getenv)
	if err != nil {
		return nil, stop, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, stop, fmt.Errorf("cannot export spans: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service),
			attribute.String("service.version", version)),
		resource.WithHost(), resource.WithProcessPID(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, stop, fmt.Errorf("cannot read the resource of spans: %w", err)
	}
	// the share of new traces is drawn before the SDK makes a span of them
	p := trace.NewTracerProvider(
		trace.WithBatcher(&reporting{SpanExporter: exporter, report: report}),
		trace.WithResource(about),
		trace.WithSampler(trace.ParentBased(trace.AlwaysSample())))
	t, err = spans.New(spans.Options{Provider: p, Roots: roots})
	return t, p.Shutdown, err
}

// reportInterval is the least time between two reports of errors.
const reportInterval = time.Minute

// reporting is an exporter that reports its errors. The SDK would log each of them.
type reporting struct {
	trace.SpanExporter
	report func(error)

	mu       sync.Mutex // guards the field below
	reported time.Time  // the last report; zero: there was none
}

// ExportSpans sends spans, or loses them and reports an error.
func (r *reporting) ExportSpans(ctx context.Context, all []trace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, all)
	if err == nil {
		return nil
	}
	r.mu.Lock()
	due := time.Since(r.reported) > reportInterval
	if due {
		r.reported = time.Now()
	}
	r.mu.Unlock()
	if due {
		r.report(fmt.Errorf("cannot send %d spans: %w", len(all), err))
	}
	return nil
}

// isAsked reports whether the environment asks for spans by OTLP.
func isAsked(getenv func(string) string) (bool, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpoint := getenv("OTEL_EXPORTER_OTLP_ENDPOINT") + getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); {
	case exporter == "none":
		return false, nil
	case exporter == "" && endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER=%.100s: want otlp or none", exporter)
	}
	for _, key := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if v := getenv(key); v != "" && v != protocol {
			return false, fmt.Errorf("%s=%.100s: want %s", key, v, protocol)
		}
	}
	return true, nil
}

// rootShare is the share of new traces among messages without one. The share does not concern the
// traces of an application.
func rootShare(getenv func(string) string) (float64, error) {
	switch sampler := getenv("OTEL_TRACES_SAMPLER"); sampler {
	case "", "always_on", "parentbased_always_on":
		return 1, nil
	case "always_off", "parentbased_always_off":
		return 0, nil
	case "traceidratio", "parentbased_traceidratio":
		arg := getenv("OTEL_TRACES_SAMPLER_ARG")
		if arg == "" {
			return 1, nil
		}
		share, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return 0, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG=%.100s: want a number from 0 to 1", arg)
		}
		return share, nil
	default:
		return 0, fmt.Errorf("OTEL_TRACES_SAMPLER=%.100s: want always_on, always_off or traceidratio, "+
			"or one of them with parentbased_ before it", sampler)
	}
}
