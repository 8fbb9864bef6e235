package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Meaning of test_extrinsic_allocation: two running hostds form a mesh of hosts, and the program
// that takes them shuts them down.
func TestRunningHosts_areAttachedTakenAndShutDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn := c.connect(t, testmesh.Operator)
	found, err := conn.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	hosts, err := conn.Attach(t.Context(), "extrinsic", found.Hosts()...)
	require.NoError(t, err)
	for name, perHost := range map[string]shape.Extent{"one": shape.Unit(), "four": shape.Of("gpus", 4)} {
		procs, err := hosts.Spawn(t.Context(), name, perHost)
		require.NoError(t, err)
		actors, err := mesh.Spawn(t.Context(), procs, actortest.TestActors, "test", actor.None{})
		require.NoError(t, err)
		whole := answersFrom(t, actors)
		require.Equal(t, whole[:len(whole)/2], answersFrom(t, actors.Slice("host", 0, 1)))
		time.Sleep(time.Second) // what comes twice comes after what was waited for
		states, err := actors.Slice("host", 1, 2).States(t.Context())
		require.NoError(t, err)
		for _, s := range states.Values() {
			require.EqualValues(t, 1, s.Actor.Handled)
		}
	}
	require.NoError(t, hosts.Take(t.Context()))
	require.NoError(t, hosts.Shutdown(t.Context(), "done"))
	for _, n := range c.nodes {
		require.Zero(t, n.Exit(t), n.Said())
		n.killed = true // it need not be told to stop
	}
	require.NoError(t, hosts.Shutdown(t.Context(), "again"), "a second shutdown succeeds")
}

// answersFrom asks each actor for its identity, and requires the expected one.
func answersFrom(t *testing.T, actors mesh.ActorMesh[actortest.TestActor]) []subjects.ActorID {
	t.Helper()
	ids, err := cast.Gather(t.Context(), actors, actortest.GetActorID, actor.None{})
	require.NoError(t, err)
	for rank, id := range ids.Values() {
		require.Equal(t, actors.Ref(rank).ID(), id)
	}
	return ids.Values()
}
