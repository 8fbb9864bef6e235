package mesh_test

import (
	"encoding/json"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// Forged events name ranks outside the mesh, impossible ranks, or generations of no proc. Casts go
// on beside them, and a real death is noticed.
func TestCast_ignoresForgedEvents(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, counters := c.workers(t, 4, 0)
	said := make(chan actor.Event, 64)
	go func() {
		for e, err := range procs.Changes(t.Context()) {
			if err == nil && e.Terminal() {
				said <- e
			}
		}
	}()
	stranger := c.Open(t).Control()
	invented := 1
	tell := func() {
		for _, e := range []actor.Event{
			{Rank: 1000, Count: 65_536}, {Rank: 1, Gen: invented}, {Rank: 0, Gen: invented, Count: 65_536},
			{Rank: 3, Gen: 1 << 31, Count: 2},
		} {
			e.Kind, e.Mesh, e.Status = actor.KindProc, procs.ID().String(), string(actor.Failed)
			data, err := json.Marshal(e)
			require.NoError(t, err)
			at := subjects.ProcID{Mesh: procs.ID(), Rank: uint32(e.Rank), Gen: uint32(e.Gen)}.Scope()
			require.NoError(t, stranger.Publish(subjects.Space{}.Event(actor.KindProc, at, subjects.Anon()), data))
		}
		invented++
	}
	for round := 1; round <= 50; round++ {
		tell()
		values, err := cast.Gather(t.Context(), counters, add, 1)
		require.NoError(t, err)
		require.Equal(t, int64(round), values.Values()[3])
	}
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	for _, s := range states.Values() {
		require.Equal(t, agent.Running, s.Status.Phase)
	}
	require.Empty(t, said)
	require.NoError(t, syscall.Kill(c.pids(t, procs)[2], syscall.SIGKILL))
	e := testkit.Next(t, said)
	require.Equal(t, []int{2, 0}, []int{e.Rank, e.Gen})
	_, err = cast.Gather(t.Context(), counters, add, 1)
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, "host=0,gpu=2", partial.Coverage.FailedRegion())
}

// The agent of a host answers the search, if the host is one. The error does not claim that no host
// answers.
func TestAllHosts_namesTheHostThatHasNoAgent(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	stranger := c.Open(t).Control()
	_, err := stranger.Subscribe(subjects.Space{}.HostReads(subjects.Any, ""), func(m bus.Msg) {
		_ = stranger.Publish(m.Reply, []byte(`{"id":"fake-0000000000001","label":"fake","mode":"open"}`))
	})
	require.NoError(t, err)
	_, err = c.Net.AllHosts(t.Context())
	var closed *mesh.UnschedulableError
	require.ErrorAs(t, err, &closed)
	require.ErrorContains(t, err, "fake is unconfirmed (")
}

func TestHosts_namesTheKnownHostThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	here, lost := c.AllHosts(t, c.Net).Hosts()[0], testproc.HostID(t, "lost")
	stranger := c.Open(t).Control()
	_, err := stranger.Subscribe(subjects.Space{}.Heartbeats(agent.KindHostList), func(m bus.Msg) {
		list, err := wire.Marshal(agent.HostList{Complete: true, Hosts: []agent.KnownHost{
			{ID: here, State: agent.HostAlive}, {ID: lost, State: agent.HostSuspect}}})
		assert.NoError(t, err)
		_ = stranger.Publish(m.Reply, list)
	})
	require.NoError(t, err)
	all, err := c.Net.AllHosts(t.Context())
	require.NoError(t, err)
	open, closed := all.Schedulable()
	require.Equal(t, 1, open.Extent().NumRanks())
	require.Len(t, closed, 1)
	require.Equal(t, []any{lost, agent.ModeUnconfirmed}, []any{closed[0].ID, closed[0].Mode})
}
