package mesh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func TestDrain_withoutForceRefusesToLoseActors(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.Net = c.Connect(t, operator)
	all := c.AllHosts(t, c.Net)
	spare := all.Slice("host", 2, 3)
	procs, err := all.Slice("host", 0, 2).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", 2),
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Spares: spare.Hosts()},
	})
	require.NoError(t, err)
	_, err = mesh.SpawnActors(t.Context(), procs, counter, mesh.ActorSpawnSpec[int64]{
		Label: "kept", RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond},
	})
	require.NoError(t, err)
	free, err := mesh.SpawnActors(t.Context(), procs.Slice("gpu", 1, 2), counter,
		mesh.ActorSpawnSpec[int64]{Label: "free", Uncontrolled: true})
	require.NoError(t, err)
	stopped, err := all.Slice("host", 1, 2).Spawn(t.Context(), "stopped", shape.Unit()) // which no host can take
	require.NoError(t, err)
	_, err = mesh.SpawnActors(t.Context(), stopped, counter,
		mesh.ActorSpawnSpec[int64]{Label: "end", Uncontrolled: true})
	require.NoError(t, err)

	b := all.Slice("host", 1, 2)
	before := c.pids(t, procs)
	_, err = b.Drain(t.Context(), mesh.DrainOptions{Reason: "new disks"})
	var lost *mesh.LostActorsError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, []mesh.LostActors{{Name: free.Name(), Region: "host=1,gpu=1",
		Reason: "no owner restarts them"}}, lost.Lost, "of that host alone")
	require.EqualError(t, err, "drain "+procs.ID().String()+": its actors would be lost:\n  "+free.Name()+
		" on [host=1,gpu=1]: no owner restarts them")
	require.Equal(t, before, c.pids(t, procs))
	require.NoError(t, spare.CheckDrain(t.Context()))
	done, err := b.Drain(t.Context(), mesh.DrainOptions{Reason: "new disks", Force: true})
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{done.Moved, done.Ended})
}

func TestDrain_movesRanksOfALiveMeshToASpareHost_CTL11(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.Net = c.Connect(t, operator)
	all := c.AllHosts(t, c.Net)
	hosts, spare := all.Slice("host", 0, 2), all.Slice("host", 2, 3)
	procs, err := hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", 2),
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Spares: spare.Hosts()},
	})
	require.NoError(t, err)
	counters, err := mesh.SpawnActors(t.Context(), procs, counter, mesh.ActorSpawnSpec[int64]{
		Label:         "counters",
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond},
	})
	require.NoError(t, err)
	said, actors := steps(t, procs), steps(t, counters)

	answered := make(chan int, 1) // the fewest ranks that answered a cast meanwhile
	enough, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		fewest := 4
		for enough.Err() == nil {
			ctx, done := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := cast.Gather(ctx, counters, add, 1)
			done()
			if partial, ok := errors.AsType[*cast.CoverageError](err); ok {
				fewest = min(fewest, partial.Coverage.Answered)
			}
		}
		answered <- fewest
	}()
	at := agent.Of(all.Hosts()[1].Proc()).Via(c.Proc())
	done, err := agent.Drain.Call(t.Context(), at,
		agent.DrainRequest{Reason: "new disks", Grace: 5 * time.Second})
	require.NoError(t, err)
	require.Equal(t, agent.StopSummary{Moved: 2}, done)
	var moved []string
	for _, rank := range []string{"2", "3"} {
		moved = append(moved, rank+" initializing rank.move.attempt <nil>", rank+" running rank.move.success <nil>")
	}
	var heard []string
	for _, want := range moved {
		require.Equal(t, want, hear(t, said))
		heard = append(heard, hear(t, actors))
	}
	require.Equal(t, moved, heard, "actors follow their procs, and the next proc leaves when they run")
	cancel()
	require.GreaterOrEqual(t, <-answered, 2, "the others answered all the while")
	sum, err := cast.Reduce(t.Context(), counters, add, 0, cast.Max[int64]())
	require.NoError(t, err)
	require.Positive(t, sum)
	info, err := agent.Info.Call(t.Context(), at, actor.None{})
	require.NoError(t, err)
	require.Zero(t, info.Procs)
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	for at, s := range states.All() {
		require.Equal(t, agent.Running, s.Status.Phase)
		require.Equal(t, all.Hosts()[2*(at.Rank()/2)].String(), s.Proc.Host)
	}
	require.NoError(t, procs.Stop(t.Context()))
}

// workersWithSpare is a mesh on two of three hosts. The third is its spare.
func workersWithSpare(t *testing.T) (c *cluster, all mesh.HostMesh, procs mesh.ProcMesh) {
	t.Helper()
	c = newCluster(t, "a", "b", "c")
	c.Net = c.Connect(t, operator)
	all = c.AllHosts(t, c.Net)
	procs, err := all.Slice("host", 0, 2).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", 2),
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Spares: all.Slice("host", 2, 3).Hosts()},
	})
	require.NoError(t, err)
	return c, all, procs
}

// The drained host becomes the spare, and takes the ranks of another place.
func TestDrain_oneSpareEmptiesHostsOneAfterAnother_CTL11(t *testing.T) {
	t.Parallel()
	c, all, procs := workersWithSpare(t)
	for _, host := range []int{0, 1, 2} {
		h := all.Slice("host", host, host+1)
		done, err := h.Drain(t.Context(), mesh.DrainOptions{Reason: "new disks"})
		require.NoError(t, err)
		require.Equal(t, []int{2, 0}, []int{done.Moved, done.Ended})
		_, err = agent.Cordon.Call(testkit.Soon(t), agent.Of(h.Hosts()[0].Proc()).Via(c.Net.Proc()),
			agent.CordonRequest{})
		require.NoError(t, err)
	}
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	for _, s := range states.Values() {
		require.Equal(t, agent.Running, s.Status.Phase, s.Status.Reason)
	}
}

func TestDrain_withoutForceRefusesToEndRanksForLackOfASpare(t *testing.T) {
	t.Parallel()
	c, all, procs := workersWithSpare(t)
	spare := agent.Of(all.Hosts()[2].Proc()).Via(c.Proc())
	label := all.Hosts()[2].Label()
	a := all.Slice("host", 0, 1)
	require.NoError(t, a.CheckDrain(t.Context()))
	var ends *mesh.NoSpareError
	require.ErrorAs(t, all.Slice("host", 0, 2).CheckDrain(t.Context()), &ends, "one spare for two hosts")
	require.Equal(t, &mesh.NoSpareError{Mesh: procs.ID().String(), Region: "*", Closed: []string{}}, ends)
	require.ErrorContains(t, all.CheckDrain(t.Context()), "spare host "+label+" is drained, too")
	_, err := agent.Cordon.Call(t.Context(), spare, agent.CordonRequest{Cordon: true})
	require.NoError(t, err)
	before := c.pids(t, procs)
	_, err = a.Drain(t.Context(), mesh.DrainOptions{Reason: "new disks"})
	require.EqualError(t, err, "drain "+procs.ID().String()+": its ranks [host=0,gpu=*] end, which cannot move: "+
		"spare host "+label+" is cordoned")
	require.Equal(t, before, c.pids(t, procs))
	done, err := a.Drain(t.Context(), mesh.DrainOptions{Reason: "new disks", Force: true})
	require.NoError(t, err)
	require.Equal(t, agent.StopSummary{Requested: 2, Ended: 2}, done)
}

func TestDrain_stopsRanksThatNoPolicyMoves_CTL11(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.Net = c.Connect(t, operator)
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", 2), RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient},
	})
	require.NoError(t, err)
	said := steps(t, procs)
	at := agent.Of(c.AllHosts(t, c.Net).Hosts()[0].Proc()).Via(c.Proc())
	done, err := agent.Drain.Call(t.Context(), at, agent.DrainRequest{Reason: "new disks"})
	require.NoError(t, err)
	require.Equal(t, agent.StopSummary{Requested: 2, Ended: 2}, done)
	for range 2 {
		require.Contains(t, hear(t, said), " stopped ", "and it does not restart")
	}
}
