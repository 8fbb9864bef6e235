package otelcastnet_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
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

func BenchmarkCall_sameProc(b *testing.B) {
	tracers(b, func(b *testing.B, t actor.Tracer) { call(b, t, false) })
}

func BenchmarkCall_otherProc(b *testing.B) {
	tracers(b, func(b *testing.B, t actor.Tracer) { call(b, t, true) })
}

func call(b *testing.B, tracer actor.Tracer, remote bool) {
	b.Helper()
	srv := bustest.Server(b)
	def := rankType.Define(func(_ *actor.Context, rank int) (*Rank, error) { return &Rank{rank: rank}, nil },
		square.Handle((*Rank).square))
	from, _ := testproc.Start(b, srv, testproc.Options{Options: actor.Options{Tracer: tracer}}, def)
	to := from
	if remote {
		to, _ = testproc.Start(b, srv, testproc.Options{Options: actor.Options{Tracer: tracer}}, def)
	}
	ref, err := actor.Spawn(b.Context(), to, rankType, "rank", 0)
	require.NoError(b, err)
	ref = ref.Via(from)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := square.Call(b.Context(), ref, 1); err != nil {
			b.Fatal(err)
		}
	}
}
