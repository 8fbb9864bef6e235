package mesh_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func TestShutdown_retriesProcsThatAFormerOneLeft_MESH5(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.Net = c.Connect(t, operator)
	procs, counters := c.workers(t, 2, 0)
	// its proc is killed after its grace, or ends then
	c.keepBusy(t, counters.Ref(1), 10*time.Second)
	hosts := c.AllHosts(t, c.Net)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	require.ErrorAs(t, hosts.Shutdown(ctx, "done"), new(*mesh.HostsError))
	pids := c.pids(t, procs)
	require.NoError(t, hosts.Shutdown(t.Context(), "again"))
	for _, pid := range pids {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
}

func TestAllocate_belongsToItsNetAndEndsWithIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	other := c.Connect(t)
	mine, err := other.Allocate(t.Context(), host.LocalHosts(c.options(t)), "mine", shape.Of("host", 1))
	require.NoError(t, err)
	_, err = c.Attach(t.Context(), "seen", mine.Hosts()...)
	require.NoError(t, err)
	require.NoError(t, other.Close(t.Context()))
	_, err = c.Attach(t.Context(), "seen", mine.Hosts()...)
	require.ErrorAs(t, err, new(*mesh.HostsError))
}

func TestAllocate_returnsSilentHosts(t *testing.T) { // MESH-8
	t.Parallel()
	c := newCluster(t)
	started, err := c.here(t).Allocate(t.Context(), shape.Of("host", 1))
	require.NoError(t, err)
	require.NoError(t, started.Close(t.Context()))
	s := &stubborn{StaticHosts: started.Hosts()}
	_, err = c.Allocate(t.Context(), s, "gone", shape.Of("host", 1))
	require.ErrorAs(t, err, new(*mesh.HostsError))
	require.Equal(t, 1, s.closed)
}

func TestOnProcs_requiresAProcForEachRank(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, _ := c.workers(t, 2, 0)
	_, err := c.Allocate(t.Context(), mesh.OnProcs(procs, host.HostActorType, host.HostActorParams{Label: "t"},
		host.HostActorID), "three", shape.Of("host", 3))
	require.ErrorContains(t, err, "2 procs: want 3 for host=3")
}

func TestStates_ofASilentHostAreTimeouts(t *testing.T) { // MESH-9
	t.Parallel()
	c := newCluster(t, "a")
	hosts, err := c.Attach(t.Context(), "one", c.AllHosts(t, c.Net).Hosts()...)
	require.NoError(t, err)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	expired, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	states, err := procs.States(expired)
	require.NoError(t, err)
	require.Equal(t, []agent.Phase{agent.Timeout, agent.Timeout}, phases(states))
	require.Contains(t, states.Values()[1].Status.Reason, hosts.Hosts()[0].String())
}

func TestSpawnProcs_allowPartialKeepsStartedRanks(t *testing.T) {
	t.Parallel()
	c, hosts := hurt(t, nil)
	some, err := hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "some", PerHost: shape.Unit(), AllowPartial: true,
		Command: mesh.Command{Path: "/bin/sh",
			Args: []string{"-c", "mkdir " + t.TempDir() + "/first 2>/dev/null && exit 3; exec " + ownPath(t)}},
	})
	var failed *mesh.SpawnError
	require.ErrorAs(t, err, &failed)
	require.Len(t, failed.Failed, 1)
	other := 1 - failed.Failed[0].Rank
	require.NoError(t, some.Err())
	alive, err := some.Slice("host", other, other+1).Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true}, alive.Values())
	require.NoError(t, some.Stop(t.Context()))
	all, err := c.MeshesOn(t.Context(), hosts.Hosts())
	require.NoError(t, err)
	require.False(t, all[0].Alive())
}
