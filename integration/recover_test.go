package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestKilledHost_ranksFailAndTheOwnerIsNotified(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn := c.connect(t)
	procs := c.spawn(t, conn, 2)
	m := counters(t, procs)
	c.nodes[1].kill(t)
	told := map[int]string{}
	for e, err := range procs.Slice("host", 1, 2).Watch(testkit.Soon(t)) {
		require.NoError(t, err)
		require.Contains(t, e.Reason, "host b is dead")
		told[e.View] = e.Point
		if len(told) == 2 {
			break
		}
	}
	require.Equal(t, map[int]string{0: "host=1/2,proc=0/2", 1: "host=1/2,proc=1/2"}, told,
		"by rank of the slice")
	_, err := cast.Gather(t.Context(), m, counting.Progress, actor.None{})
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, "host=1,proc=*", partial.Coverage.FailedRegion())
	require.ErrorIs(t, err, actor.ErrProcDead)
}

func TestKilledHost_spareTakesItsPlaceAndActorsFollow(t *testing.T) { // CTL-8
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	conn := c.connect(t)
	hosts, err := conn.AwaitHosts(t.Context(), 3)
	require.NoError(t, err)
	procs, err := hosts.Slice("host", 0, 2).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("proc", 2),
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Spares: []subjects.HostID{hosts.Hosts()[2]}},
	})
	require.NoError(t, err)
	m, err := mesh.SpawnActors(t.Context(), procs, counting.Type, mesh.ActorSpawnSpec[actor.None]{
		Label: "counters", RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient},
	})
	require.NoError(t, err)
	c.nodes[1].kill(t)
	var steps []string
	again := 0
	for e, err := range m.Changes(testkit.Soon(t)) {
		require.NoError(t, err)
		steps = append(steps, fmt.Sprint(e.Rank, " ", e.Step, " ", e.Reason))
		if e.Step == "rank.restart.success" {
			again++
		}
		if again == 2 {
			break
		}
	}
	require.Equal(t, 2, again, "%q", steps)
	all, err := cast.Gather(t.Context(), m, counting.Progress, actor.None{})
	require.NoError(t, err, "the mesh is whole again")
	require.Equal(t, 4, all.Len())
	host, err := procs.Host(3)
	require.NoError(t, err)
	require.Equal(t, hosts.Hosts()[2], host)
	_, err = counting.Progress.Call(t.Context(), m.At("host", 1, "proc", 1), actor.None{})
	require.NoError(t, err)
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	last, ok := states.At(3)
	require.True(t, ok)
	require.Equal(t, 1, last.Gen)
	require.NoError(t, procs.Stop(t.Context()))
}
