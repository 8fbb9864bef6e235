package mesh

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestIncarnations_endOnceDespiteLossAndDuplicates(t *testing.T) {
	r := incarnations{}
	hear := func(rank, gen int, status actor.Status) (out []string) {
		for _, e := range r.news(actor.Event{Rank: rank, Gen: gen, Status: string(status), Reason: "said"}) {
			out = append(out, fmt.Sprintf("%d.%d %s: %s", e.Rank, e.Gen, e.Status, e.Reason))
		}
		return out
	}
	require.Empty(t, hear(0, 0, actor.Running), "it runs: that is no news to who begins to watch")
	require.Equal(t, []string{"1.0 failed: said"}, hear(1, 0, actor.Failed), "what was before is told")
	require.Empty(t, hear(1, 0, actor.Failed))
	require.Empty(t, hear(1, 0, actor.Running), "an answer may be older than an event")
	require.Equal(t, []string{"1.1 running: said"}, hear(1, 1, actor.Running))
	require.Empty(t, hear(1, 0, actor.Stopped), "what comes late is known")
	require.Equal(t, []string{"0.0 failed: replaced by another generation", "0.2 running: said"}, hear(0, 2, actor.Running))
	require.Equal(t, []string{"1.1 failed: replaced by another generation", "1.2 failed: said"}, hear(1, 2, actor.Failed))
	mesh, err := subjects.NewMeshID("train")
	require.NoError(t, err)
	over := r.over(mesh, "it is gone")
	require.Len(t, over, 1)
	require.Equal(t, []any{0, 2, "stopped", "it is gone"}, []any{over[0].Rank, over[0].Gen, over[0].Status, over[0].Reason})
}

func TestFreeActors_endWithTheirProcsOnly(t *testing.T) {
	w := ofActors{actors: "probe", procs: ProcMesh{desc: agent.Mesh{Extent: shape.Of("gpu", 3)}}}
	ranks := incarnations{0: {over: true}, 1: {}}
	for rank, means := range []bool{false, true, false} { // it has ended, it was there, it never was
		e, is := w.read(actor.Event{Kind: actor.KindProc, Rank: rank, Status: string(actor.Failed), Reason: "killed"}, ranks)
		require.Equal(t, means, is, "rank %d", rank)
		if is {
			require.Equal(t, actor.Event{
				Kind: actor.KindActor, Actor: "probe", Rank: 1, Status: string(actor.Failed), Reason: "killed", Point: "gpu=1/3",
			}, e)
		}
	}
	require.False(t, ranks.allOver(2))
	require.True(t, ranks.allOver(1))
}
