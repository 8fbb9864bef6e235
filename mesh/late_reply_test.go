package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/mesh"
)

// lateOwner is a controller whose reply to a wait for running ranks comes after the deadline.
type lateOwner struct{ agent.Agent }

var lateOverlay = agent.Overlay{{First: 0, Count: 2, Status: agent.Status{Phase: agent.Initializing}}}

func (lateOwner) Wait(ctx *actor.Context, w agent.WaitRequest) (agent.Overlay, error) {
	if w.Until != agent.Initializing {
		actor.Defer[agent.Overlay](ctx)
	}
	return lateOverlay, nil
}

func TestAwaitSettled_returnsTheRanksAfterTheDeadline_MESH3(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c := testmesh.Start(t, testmesh.InMemory())
		typ := actor.NewType[agent.Agent, actor.None]("late-owner")
		p, _ := testproc.Start(t, c.Server, testproc.Options{Options: actor.Options{Bus: c.Open(t)}},
			typ.Define(func(*actor.Context, actor.None) (agent.Agent, error) { return lateOwner{}, nil },
				agent.Methods()...))
		owner, err := actor.Spawn(t.Context(), p, typ, "owner", actor.None{})
		require.NoError(t, err)
		for _, timeout := range []bool{true, false} {
			got, err := mesh.AwaitSettled(testkit.Soon(t), owner, timeout)
			require.NoError(t, err)
			require.Equal(t, lateOverlay, got)
		}
	})
}
