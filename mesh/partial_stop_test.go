package mesh_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func TestStop_procSliceStopsOnlyItsRanks_MESH5(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	procs, counters := c.workers(t, 3, 0)
	part := procs.Slice("gpu", 1, 3)
	require.NoError(t, part.Stop(t.Context()))
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	const r, s = agent.Running, agent.Stopped
	require.Equal(t, []agent.Phase{r, s, s, r, s, s}, phases(states))
	all, err := cast.Gather(t.Context(), counters.Slice("gpu", 0, 1), add, 1)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1}, all.Values())
	require.NoError(t, part.Stop(t.Context()), "the second time at once")
	var ended []int
	for e, err := range procs.Watch(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, "stopped by its user", e.Reason)
		if ended = append(ended, e.Rank); len(ended) == 4 {
			break
		}
	}
	require.ElementsMatch(t, []int{1, 2, 4, 5}, ended)

	found, err := c.Connect(t).Lookup(t.Context(), "workers")
	require.NoError(t, err)
	require.NoError(t, found.Slice("host", 1, 2).Stop(t.Context()), "some of it has ended before")
	states, err = procs.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, []agent.Phase{r, s, s, s, s, s}, phases(states))
	require.NoError(t, procs.Stop(t.Context()))
	require.Empty(t, c.pids(t, procs))
}

func TestStop_actorSliceStopsOnlyItsRanks_MESH5(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, _ := c.workers(t, 4, 0)
	counters, err := mesh.Spawn(t.Context(), procs.Slice("gpu", 1, 4), counter, "some", 0)
	require.NoError(t, err)
	require.NoError(t, counters.Slice("gpu", 1, 2).Stop(t.Context()))
	states, err := counters.States(t.Context())
	require.NoError(t, err)
	const r, s = agent.Running, agent.Stopped
	require.Equal(t, []agent.Phase{r, s, r}, phases(states))
	e, err := firstOf(t, counters)
	require.NoError(t, err)
	require.Equal(t, 2, e.Rank, "by rank of the procs")
	require.NoError(t, counters.Stop(t.Context()))
	states, err = counters.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, []agent.Phase{s, s, s}, phases(states))
	require.NoError(t, counters.Slice("gpu", 0, 2).Stop(t.Context()))
}

// Ranks of later generations end with the slice and stay ended; the others still restart.
func TestStop_sliceOfARestartingMeshStaysStopped_MESH5(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	quick := mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond,
		MaxBackoff: 10 * time.Millisecond}
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", 2), RestartPolicy: quick})
	require.NoError(t, err)
	said := steps(t, procs)
	restarts := func(rank int) {
		t.Helper()
		require.NoError(t, syscall.Kill(c.pids(t, procs)[rank], syscall.SIGKILL))
		require.Equal(t, fmt.Sprintf("%d initializing rank.restart.attempt <nil>", rank), hear(t, said))
		require.Equal(t, fmt.Sprintf("%d running rank.restart.success <nil>", rank), hear(t, said))
	}
	restarts(1)
	restarts(2)
	require.NoError(t, procs.Slice("gpu", 1, 2).Stop(t.Context()))
	ended := []string{hear(t, said), hear(t, said)}
	slices.Sort(ended)
	require.Regexp(t, "^1 stopped .*3 stopped ", strings.Join(ended, ", "))
	restarts(0)
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	const r, s = agent.Running, agent.Stopped
	require.Equal(t, []agent.Phase{r, s, r, s}, phases(states))
}

// A mesh without an owner has no renewals, but its ranks can be stopped until the leases run out.
func TestStop_hostsStopASliceWithoutAnOwner_MESH5(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	owner, leave := c.Client(t)
	procs, err := c.AllHosts(t, owner).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	found, err := c.hasty(t).Lookup(t.Context(), "workers")
	require.NoError(t, err)
	require.Equal(t, procs.ID(), found.ID())
	require.NoError(t, owner.Bus().Close(t.Context())) // as when its process is killed: nobody is told anything
	defer leave()

	require.NoError(t, found.Slice("gpu", 1, 2).Stop(t.Context()))
	states, err := found.States(t.Context())
	require.NoError(t, err)
	const r, s = agent.Running, agent.Stopped
	require.Equal(t, []agent.Phase{r, s, r, s}, phases(states))
	require.NoError(t, found.Stop(t.Context()))
}

func TestStop_colocatedProcsStopTogether(t *testing.T) {
	t.Parallel()
	hosts, _ := locally(t, "")
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 3))
	require.NoError(t, err)
	err = procs.Slice("host", 1, 3).Slice("gpu", 1, 3).Stop(t.Context())
	var shared *agent.SharedProcessError
	require.ErrorAs(t, err, &shared)
	require.Equal(t, 3, shared.First)
	require.ErrorContains(t, err, "ranks 3 to 5 share a process and end together")
	require.NoError(t, procs.Slice("host", 1, 3).Stop(t.Context()))
	alive, err := procs.Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true, false, false, false, false, false, false, true, true, true},
		alive.Values())
	require.NoError(t, procs.Stop(t.Context()))
}

func TestStop_confirmsTheEndOfActorsOnADeadProc(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	said := &words{}
	conn := c.handling(t, zerolog.New(said), func(actor.Event) {})
	procs, err := c.AllHosts(t, conn).Spawn(t.Context(), "workers", shape.Of("gpu", 3))
	require.NoError(t, err)
	owned, err := mesh.Spawn(t.Context(), procs, counter, "owned", 0)
	require.NoError(t, err)
	free, err := mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "free", Uncontrolled: true})
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(c.pids(t, procs)[1], syscall.SIGKILL))
	_, err = add.Call(t.Context(), owned.Ref(1), 1)
	require.ErrorIs(t, err, actor.ErrProcDead)
	require.NoError(t, free.Stop(t.Context()))
	require.NoError(t, owned.Stop(t.Context()))
	require.NoError(t, procs.Stop(t.Context()))
	require.NotContains(t, said.String(), "cannot confirm")
}
