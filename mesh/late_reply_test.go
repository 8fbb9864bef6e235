package mesh_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/mesh"
)

// lateOwner is a controller with late replies: a wait for running ranks ends after the deadline.
type lateOwner struct{ agent.Agent }

var lateOverlay = agent.Overlay{{First: 0, Count: 2, Status: agent.Status{Phase: agent.Initializing}}}

func (lateOwner) Wait(ctx *actor.Context, w agent.WaitRequest) (agent.Overlay, error) {
	if w.Until != agent.Initializing {
		actor.Defer[agent.Overlay](ctx)
	}
	return lateOverlay, nil
}

// ownerWith starts a controller of a test in a program of its own.
func ownerWith(t *testing.T, a agent.Agent) actor.Ref[agent.Agent] {
	t.Helper()
	return ownerIn(t, testmesh.Start(t, testmesh.InMemory()), a)
}

func ownerIn(
	t *testing.T, c *testmesh.Cluster, a agent.Agent, more ...actor.Method[agent.Agent],
) actor.Ref[agent.Agent] {
	t.Helper()
	typ := actor.NewType[agent.Agent, actor.None]("owner")
	p, _ := testproc.Start(t, c.Server, testproc.Options{Options: actor.Options{Bus: c.Open(t)}},
		typ.Define(func(*actor.Context, actor.None) (agent.Agent, error) { return a, nil },
			append(agent.Methods(), more...)...))
	owner, err := actor.Spawn(t.Context(), p, typ, "owner", actor.None{})
	require.NoError(t, err)
	return owner
}

func TestAwaitSettled_returnsTheRanksAfterTheDeadline_MESH3(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		owner := ownerWith(t, lateOwner{})
		for _, timeout := range []bool{true, false} {
			got, err := mesh.AwaitSettled(testkit.Soon(t), owner, timeout, lateOverlay)
			require.NoError(t, err)
			require.Equal(t, lateOverlay, got)
		}
	})
}

// slowOwner is a controller whose first rank runs from a time on. No wait is satisfied.
type slowOwner struct {
	lateOwner
	from time.Time
}

func (o slowOwner) Wait(ctx *actor.Context, w agent.WaitRequest) (agent.Overlay, error) {
	if _, err := o.lateOwner.Wait(ctx, w); err != nil || time.Now().Before(o.from) {
		return lateOverlay, err
	}
	return agent.Overlay{{First: 0, Count: 1, Status: agent.Status{Phase: agent.Running}},
		{First: 1, Count: 1, Status: agent.Status{Phase: agent.Initializing}}}, nil
}

// The limit of AwaitSettled is a second.
func TestAwaitSettled_endsOneTimeoutAfterTheLastChange_MESH3(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		for _, change := range []time.Duration{0, 800 * time.Millisecond} {
			began := time.Now()
			owner := ownerWith(t, slowOwner{from: began.Add(change)})
			last := lateOverlay
			if change == 0 {
				last, _ = slowOwner{}.Wait(nil, agent.WaitRequest{Until: agent.Initializing})
			}
			_, err := mesh.AwaitSettled(testkit.Soon(t), owner, true, last)
			require.NoError(t, err)
			quiet := time.Since(began) - change
			require.GreaterOrEqual(t, quiet, time.Second)
			require.LessOrEqual(t, quiet, 5*time.Second/4)
		}
	})
}

func TestSpawn_awaitsAGrowOfAnOwnerThatIsSilentForAWhile(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c, asked := testmesh.Start(t, testmesh.InMemory()), 0
		grown := agent.Mesh{ID: testproc.MeshID(t, "m"), Revision: 2}
		owner := ownerIn(t, c, lateOwner{}, agent.Revision.Handle(func(_ agent.Agent, ctx *actor.Context,
			_ agent.RevisionRequest,
		) (agent.RevisionResponse, error) {
			asked++
			if asked == 2 {
				actor.Defer[agent.RevisionResponse](ctx)
			}
			return agent.RevisionResponse{Growing: asked == 1, Mesh: &grown}, nil
		}))
		grown.Owner = owner.ID()
		m := agent.Mesh{ID: grown.ID, Owner: grown.Owner, Revision: 1}
		said, err := mesh.AwaitGrow(testkit.Soon(t), c.Connect(t), m)
		require.NoError(t, err)
		require.NotNil(t, said.Mesh, "silence is no end of a Grow")
		require.Equal(t, 2, said.Mesh.Revision)
		require.Equal(t, 3, asked)
	})
}

func TestCheckDrain_namesTheMeshOfASilentOwner_HOST16(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c := testmesh.Start(t, testmesh.InMemory())
		owner := ownerIn(t, c, lateOwner{}, controller.Health.Handle(func(_ agent.Agent, ctx *actor.Context,
			_ actor.None,
		) (controller.Report, error) {
			actor.Defer[controller.Report](ctx)
			return controller.Report{}, nil
		}))
		m := agent.Mesh{ID: testproc.MeshID(t, "m"), Owner: owner.ID()}
		err := mesh.LostByMoving(t.Context(), c.Connect(t), m)
		require.ErrorContains(t, err, "cannot ask the owner of mesh "+m.ID.String())
	})
}
