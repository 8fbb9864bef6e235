package collector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/otelcastnet"
	"github.com/castnet-io/castnet/shape"
)

// worker is the actor of a rank.
type worker struct{}

var (
	workerType = actor.NewType[*worker, actor.None]("worker")
	try        = actor.NewEndpoint[*worker, actor.None, int]("try")
)

// The ranks with other outcomes, and the time that the cast has for them.
const (
	failing, silent = 1, 6
	castTimeout     = 2 * time.Second
)

var errUnlucky = errors.New("this rank is unlucky")

func (*worker) try(ctx *actor.Context, _ actor.None) (int, error) {
	switch rank := ctx.Point().Rank(); rank {
	case failing:
		return 0, errUnlucky
	case silent: // longer than its caller
		left, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*castTimeout)
		defer cancel()
		<-left.Done()
		return 0, left.Err()
	default:
		return rank, nil
	}
}

func TestMain(m *testing.M) {
	def := workerType.Define(
		func(*actor.Context, actor.None) (*worker, error) { return &worker{}, nil }, try.Handle((*worker).try))
	proc.MainWith(proc.MainOptions{StartTracer: startTracer}, def)
	testkit.Main(m)
}

// startTracer sends the spans of this process where its environment says.
func startTracer(ctx context.Context) (actor.Tracer, func(context.Context) error, error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, err
	}
	about, err := resource.New(ctx, resource.WithFromEnv(), resource.WithProcessPID())
	if err != nil {
		return nil, nil, err
	}
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	tracer, err := otelcastnet.New(p)
	return tracer, p.Shutdown, err
}

// startReceiver starts the receiver of the collector on a free port. It returns its URL.
func startReceiver(t *testing.T) (string, *consumertest.TracesSink) {
	t.Helper()
	for range 10 { // another process may take the port
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		at := l.Addr().String()
		require.NoError(t, l.Close())
		factory := otlpreceiver.NewFactory()
		c := factory.CreateDefaultConfig().(*otlpreceiver.Config)
		c.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = at
		sink := &consumertest.TracesSink{}
		r, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()), c, sink)
		require.NoError(t, err)
		if err := r.Start(t.Context(), componenttest.NewNopHost()); err != nil {
			t.Logf("cannot start the receiver: %v", err)
			continue
		}
		testkit.Close(t, r.Shutdown)
		return "http://" + at, sink
	}
	t.Fatal("cannot start the receiver: no free port")
	return "", nil
}

// span is a span, and the process that sent it.
type span struct {
	ptrace.Span
	service string
	pid     int
}

func (s span) text(key string) string {
	v, _ := s.Attributes().Get(key)
	return v.AsString()
}

// spansOf returns the spans with a name, once there are n.
func spansOf(t *testing.T, sink *consumertest.TracesSink, name string, n int) (all []span) {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("the collector has %d spans %s", n, name), func() bool {
		all = nil
		for _, request := range sink.AllTraces() {
			for _, of := range request.ResourceSpans().All() {
				service, _ := of.Resource().Attributes().Get("service.name")
				pid, _ := of.Resource().Attributes().Get("process.pid")
				for _, scope := range of.ScopeSpans().All() {
					for _, s := range scope.Spans().All() {
						if s.Name() == name {
							all = append(all, span{s, service.AsString(), int(pid.Int())})
						}
					}
				}
			}
		}
		return len(all) >= n
	})
	require.Len(t, all, n)
	return all
}

func TestCollector_hasTheCastThatWasMade(t *testing.T) { // SPAN-1
	url, sink := startReceiver(t)
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
	forProcs := []string{"OTEL_SERVICE_NAME=rank"}
	for key, value := range env {
		t.Setenv(key, value)
		forProcs = append(forProcs, key+"="+value)
	}
	t.Setenv("OTEL_SERVICE_NAME", "caller")
	tracer, stop, err := startTracer(t.Context())
	require.NoError(t, err)
	testkit.Close(t, stop)

	c := testmesh.Start(t, testmesh.Hosts("a", "b"))
	conn := c.Connect(t, func(o *mesh.Options) { o.Tracer = tracer })
	procs, err := c.AllHosts(t, conn).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", 4), Command: mesh.Command{Env: forProcs}})
	require.NoError(t, err)
	workers, err := mesh.Spawn(t.Context(), procs, workerType, "workers", actor.None{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), castTimeout)
	defer cancel()
	_, err = cast.Gather(ctx, workers, try, actor.None{})
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	made := partial.Coverage
	require.Equal(t, "host=0,gpu=1", made.FailedRegion())
	require.Equal(t, "host=1,gpu=2", made.MissingRegion())

	home := spansOf(t, sink, "cast workers/try", 1)[0]
	require.Equal(t, "caller", home.service)
	require.Equal(t, os.Getpid(), home.pid)
	require.Equal(t, ptrace.SpanKindProducer, home.Kind())
	require.Equal(t, ptrace.StatusCodeError, home.Status().Code())
	requireCoverage(t, home, made)
	require.Equal(t, made.FailedRegion(), home.text("castnet.cast.failed_region"))
	require.Equal(t, made.MissingRegion(), home.text("castnet.cast.missing_region"))

	sum := map[string]int64{}
	pids := map[int]bool{}
	for _, s := range spansOf(t, sink, "receive workers/try", made.Asked) {
		require.Equal(t, "rank", s.service)
		require.Equal(t, ptrace.SpanKindConsumer, s.Kind())
		require.Equal(t, home.TraceID(), s.TraceID())
		require.Equal(t, home.SpanID(), s.ParentSpanID())
		pids[s.pid] = true
		for _, key := range []string{"asked", "answered", "failed", "missing"} {
			v, _ := s.Attributes().Get("castnet.cast." + key)
			require.Equal(t, pcommon.ValueTypeInt, v.Type())
			sum[key] += v.Int()
		}
		if s.text("castnet.cast.missing") == "1" {
			require.Equal(t, made.MissingRegion(), s.text("castnet.cast.missing_region"))
		}
	}
	require.Len(t, pids, made.Asked, "each rank is a process")
	require.Equal(t, map[string]int64{"asked": int64(made.Asked), "answered": int64(made.Answered),
		"failed": int64(len(made.Failed)), "missing": int64(len(made.Missing))}, sum)
}

// requireCoverage checks the counts of a span.
func requireCoverage(t *testing.T, s span, made cast.Coverage) {
	t.Helper()
	for key, want := range map[string]int{"asked": made.Asked, "answered": made.Answered,
		"failed": len(made.Failed), "missing": len(made.Missing)} {
		require.Equal(t, fmt.Sprint(want), s.text("castnet.cast."+key), key)
	}
}
