package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testproc"
)

// BenchmarkProcMetrics is the cost of a scrape in a proc with 1,000 actors.
func BenchmarkProcMetrics(b *testing.B) {
	type idle struct{}
	kind := actor.NewType[*idle, actor.None]("idle")
	poke := actor.NewEndpoint[*idle, int, int]("poke")
	p, _ := testproc.Start(b, bustest.Server(b), testproc.Options{},
		kind.Define(func(*actor.Context, actor.None) (*idle, error) { return &idle{}, nil },
			poke.Handle(func(_ *idle, _ *actor.Context, n int) (int, error) { return n, nil })))
	for range 1000 {
		ref, err := actor.Spawn(b.Context(), p, kind, "idle", actor.None{})
		require.NoError(b, err)
		_, err = poke.Call(b.Context(), ref, 1)
		require.NoError(b, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if m := agent.ProcMetrics(p); m.Types[0].Endpoints[0].Handled != 1000 {
			b.Fatal(m)
		}
	}
}
