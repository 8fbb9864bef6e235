package mesh_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestRestart_rollsOneRankAtATimeWithActors_MESH18(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", 2)})
	require.NoError(t, err)
	counters, err := mesh.SpawnActors(t.Context(), procs, counter, mesh.ActorSpawnSpec[int64]{
		Label: "counters", Params: 10,
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond},
	})
	require.NoError(t, err)
	said, actors := steps(t, procs), steps(t, counters)
	before := c.pids(t, procs)
	var told []int
	part := procs.Slice("gpu", 1, 2)
	require.NoError(t, part.Restart(t.Context(),
		mesh.RollingRestart{Reason: "a new release", OnRank: func(s mesh.RankStatus) {
			require.Equal(t, agent.Running, s.Status.Phase)
			told = append(told, s.Rank)
			n, err := add.Call(t.Context(), counters.Ref(s.Rank), 1)
			require.NoError(t, err, "its actor runs")
			require.EqualValues(t, 11, n)
		}}))
	require.Equal(t, []int{1, 3}, told)
	for _, rank := range []string{"1", "3"} { // by the whole mesh
		require.Equal(t, rank+" initializing rank.roll.attempt <nil>", hear(t, said))
		require.Equal(t, rank+" running rank.roll.success <nil>", hear(t, said))
		require.Equal(t, rank+" initializing rank.move.attempt <nil>", hear(t, actors))
		require.Equal(t, rank+" running rank.move.success <nil>", hear(t, actors))
	}
	after := c.pids(t, procs)
	for rank := range 4 {
		require.Equal(t, rank%2 == 0, before[rank] == after[rank], "rank %d", rank)
	}
	sum, err := cast.Reduce(t.Context(), counters, add, 0, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 42, sum)
	require.NoError(t, procs.Restart(t.Context(), mesh.RollingRestart{MaxUnavailable: 4}),
		"all at once, some for the second time")
	require.NoError(t, procs.Stop(t.Context()))
	require.NoError(t, procs.Restart(t.Context(), mesh.RollingRestart{}), "ended ranks are skipped")
}

func TestRestart_rollingRestartStopsAtTheFirstFailure_MESH18(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	exe := filepath.Join(t.TempDir(), "worker")
	require.NoError(t, os.Symlink(ownPath(t), exe))
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", 3), Command: mesh.Command{Path: exe},
	})
	require.NoError(t, err)
	require.NoError(t, os.Remove(exe))
	before := c.pids(t, procs)
	var failed *mesh.RestartError
	require.ErrorAs(t, procs.Slice("gpu", 1, 3).Restart(t.Context(), mesh.RollingRestart{}), &failed)
	require.Len(t, failed.Failed, 1)
	require.Equal(t, 1, failed.Failed[0].Rank)
	require.ErrorContains(t, failed, "1 of 2 ranks did not restart\n  rank 1 (host=0/1,gpu=1/3) on a-")
	require.Contains(t, failed.Failed[0].Status.String(), "failed: cannot restart it: ")
	require.Equal(t, 1, failed.NotTried)
	after := c.pids(t, procs)
	delete(before, 1)
	require.Equal(t, before, after, "the others are as they were")
}

func TestRestart_aRankThatThePolicyRestartsIsNoFailure_MESH18(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", 2),
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 300 * time.Millisecond},
	})
	require.NoError(t, err)
	said := steps(t, procs)
	before := c.pids(t, procs)
	require.NoError(t, syscall.Kill(before[0], syscall.SIGKILL))
	require.Contains(t, hear(t, said), "0 initializing rank.restart.attempt")
	var told []mesh.RankStatus
	require.NoError(t, procs.Restart(t.Context(), mesh.RollingRestart{
		OnRank: func(s mesh.RankStatus) { told = append(told, s) },
	}))
	require.Len(t, told, 2)
	after := c.pids(t, procs)
	for rank := range 2 {
		require.Equal(t, agent.Running, told[rank].Status.Phase)
		require.NotEqual(t, before[rank], after[rank])
	}
}

func TestRestart_withoutForceRefusesToLoseActors_MESH18(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", 2)})
	require.NoError(t, err)
	kept, err := mesh.SpawnActors(t.Context(), procs, counter, mesh.ActorSpawnSpec[int64]{
		Label: "kept", Params: 10,
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond},
	})
	require.NoError(t, err)
	dropped, err := mesh.SpawnActors(t.Context(), procs.Slice("gpu", 1, 2), counter, mesh.ActorSpawnSpec[int64]{
		Label: "dropped", RestartPolicy: mesh.RestartPolicy{Restart: mesh.Temporary},
	})
	require.NoError(t, err)
	free, err := mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "free", Uncontrolled: true})
	require.NoError(t, err)
	before := c.pids(t, procs)
	var lost *mesh.LostActorsError
	require.ErrorAs(t, procs.Restart(t.Context(), mesh.RollingRestart{}), &lost)
	const ownerless = "no owner restarts them"
	require.Equal(t, &mesh.LostActorsError{Verb: "restart", Mesh: procs.ID().String(), Lost: []mesh.LostActors{
		{Name: dropped.Name(), Region: "host=0,gpu=1", Reason: "their restart policy is temporary, not transient"},
		{Name: free.Name(), Region: "*", Reason: ownerless},
	}}, lost)
	require.Equal(t, before, c.pids(t, procs), "nothing was restarted")
	require.ErrorAs(t, procs.Slice("gpu", 0, 1).CheckRestart(t.Context()), &lost)
	require.Equal(t, []mesh.LostActors{{Name: free.Name(), Region: "host=0,gpu=0", Reason: ownerless}},
		lost.Lost, "of the region alone")

	require.NoError(t, procs.Restart(t.Context(), mesh.RollingRestart{Force: true}))
	sum, err := cast.Reduce(t.Context(), kept, add, 0, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 20, sum)
	require.NoError(t, procs.CheckRestart(t.Context()), "there is nothing left to lose")
	require.NoError(t, procs.Restart(t.Context(), mesh.RollingRestart{}))
}

func TestRestart_withoutForceRefusesASilentProc_MESH18(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	cfg := &config.Config{}
	require.NoError(t, config.ActorQueryTimeout.Set(cfg, 300*time.Millisecond))
	looked, err := c.Connect(t, configured(cfg)).Lookup(t.Context(), "workers")
	require.NoError(t, err)
	proctest.Suspend(t, c.pids(t, procs)[1])
	var lost *mesh.LostActorsError
	require.ErrorAs(t, looked.Slice("gpu", 1, 2).Restart(t.Context(), mesh.RollingRestart{}), &lost)
	require.Empty(t, lost.Lost)
	var silent *cast.CoverageError
	require.ErrorAs(t, lost, &silent)
	require.Len(t, silent.Coverage.Missing, 1)
	require.NoError(t, procs.Slice("gpu", 0, 1).Restart(t.Context(), mesh.RollingRestart{}),
		"it is not in the region")
	require.NoError(t, procs.Restart(t.Context(),
		mesh.RollingRestart{Force: true, Grace: 100 * time.Millisecond}))
}

func TestSpawnActors_uncontrolledActorsRefuseAPolicy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	_, err = mesh.SpawnActors(t.Context(), procs, counter, mesh.ActorSpawnSpec[int64]{
		Label: "free", Uncontrolled: true, RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient},
	})
	require.ErrorAs(t, err, new(*mesh.RefusedError))
	require.ErrorContains(t, err, "they have no owner")
}

func TestRestart_reportsInvalidArgumentsAtOnce_MESH18(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	require.ErrorContains(t, procs.Restart(t.Context(), mesh.RollingRestart{MaxUnavailable: 257}),
		"want 1 to 256")
	require.ErrorContains(t, procs.Slice("gpu", 5, 6).Restart(t.Context(), mesh.RollingRestart{}), "gpu")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, procs.Restart(gone, mesh.RollingRestart{}), context.Canceled)
}

func TestSpawnProcs_verifiesSpareHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	absent, err := subjects.NewHostID("absent")
	require.NoError(t, err)
	_, err = c.AllHosts(t, c.Net).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Unit(),
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Spares: []subjects.HostID{absent}},
	})
	require.ErrorAs(t, err, new(*mesh.RefusedError))
	var silent *mesh.HostsError
	require.ErrorAs(t, err, &silent)
	require.Equal(t, absent, silent.Failed[0].Host)
}
