package otelcastnet_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/otelcastnet"
)

// discard is an exporter without a collector.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                        { return nil }

// tracers are those to compare: none, and one that samples a share.
func tracers(b *testing.B, run func(b *testing.B, t actor.Tracer)) {
	b.Helper()
	p := sdk.NewTracerProvider(sdk.WithBatcher(discard{}))
	testkit.Close(b, p.Shutdown)
	b.Run("off", func(b *testing.B) { run(b, nil) })
	for name, share := range map[string]float64{"0%": 0, "1%": 0.01, "100%": 1} {
		t, err := otelcastnet.New(p, otelcastnet.Roots(share))
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) { run(b, t) })
	}
}

func BenchmarkSend(b *testing.B) { tracers(b, send) }

func BenchmarkCall_sameProc(b *testing.B) {
	tracers(b, func(b *testing.B, t actor.Tracer) { call(b, t, false) })
}

func BenchmarkCall_otherProc(b *testing.B) {
	tracers(b, func(b *testing.B, t actor.Tracer) { call(b, t, true) })
}

func BenchmarkReduce(b *testing.B) { tracers(b, reduce) }

// BenchmarkSDK is the least that the SDK charges for the two spans of a call.
func BenchmarkSDK(b *testing.B) {
	p := sdk.NewTracerProvider(sdk.WithBatcher(discard{}))
	testkit.Close(b, p.Shutdown)
	tracer := p.Tracer("bench")
	run(b, func(ctx context.Context) error {
		client, outer := tracer.Start(ctx, "counter/add", trace.WithSpanKind(trace.SpanKindClient))
		_, inner := tracer.Start(client, "counter/add", trace.WithSpanKind(trace.SpanKindServer))
		inner.End()
		outer.End()
		return nil
	})
}

// run repeats an operation and reports its processor time, which other processes disturb least.
func run(b *testing.B, one func(context.Context) error) {
	b.Helper()
	ctx := b.Context()
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		if err := one(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// processorTime is that of this process so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// newRank is an actor of a proc with a tracer, and a proc to reach it from: the same or another one.
func newRank(b *testing.B, tracer actor.Tracer, remote bool) actor.Ref[*Rank] {
	b.Helper()
	srv := bustest.Server(b)
	def := rankType.Define(func(_ *actor.Context, rank int) (*Rank, error) { return &Rank{rank: rank}, nil },
		square.Handle((*Rank).square), note.Handle((*Rank).note))
	from, _ := testproc.Start(b, srv, testproc.Options{Options: actor.Options{Tracer: tracer}}, def)
	to := from
	if remote {
		to, _ = testproc.Start(b, srv, testproc.Options{Options: actor.Options{Tracer: tracer}}, def)
	}
	ref, err := actor.Spawn(b.Context(), to, rankType, "rank", 0)
	require.NoError(b, err)
	return ref.Via(from)
}

func call(b *testing.B, tracer actor.Tracer, remote bool) {
	b.Helper()
	ref := newRank(b, tracer, remote)
	run(b, func(ctx context.Context) error {
		_, err := square.Call(ctx, ref, 1)
		return err
	})
}

func send(b *testing.B, tracer actor.Tracer) {
	b.Helper()
	ref := newRank(b, tracer, false)
	run(b, func(ctx context.Context) error { return note.SendWait(ctx, ref, 1) })
}

func reduce(b *testing.B, tracer actor.Tracer) {
	b.Helper()
	m := newRanksWith(b, func(string) actor.Tracer { return tracer })
	run(b, func(ctx context.Context) error {
		_, err := cast.Reduce(ctx, m, square, 1, cast.Sum[int]())
		return err
	})
}
