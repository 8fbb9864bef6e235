package actor_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// publishRunning publishes an event: count procs run, from one on.
func (f forger) publishRunning(t testing.TB, id subjects.ProcID, count int) {
	t.Helper()
	host := newHost(t, "n1")
	data, err := json.Marshal(actor.Event{
		Kind: actor.KindProc, Status: "running", Mesh: id.Mesh.String(), Rank: int(id.Rank),
		Gen: int(id.Gen), Count: count, Host: host.String(),
	})
	require.NoError(t, err)
	by := subjects.NewSender(subjects.Host.Principal("n1"), host.Proc().Process())
	require.NoError(t, f.Control().Publish(f.space.HostEvent(id, by), data))
}

func TestGenerations_highestGenerationHoldsTheRank_ACT11(t *testing.T) {
	srv := bustest.Server(t)
	a, f := start(t, srv, "watcher"), newForger(t, srv)
	id, err := subjects.NewMeshID("workers")
	require.NoError(t, err)
	proc := func(rank, gen uint32) subjects.ProcID { return subjects.ProcID{Mesh: id, Rank: rank, Gen: gen} }
	require.NoError(t, a.Members().FollowMesh(id, 6))
	was := a.Members().ChangeCount(id)

	f.publishEnd(t, proc(3, 0), "killed")
	testkit.Until(t, "its end is known", func() bool { return len(a.Members().DeadProcs(id)) == 1 })
	require.Equal(t, proc(3, 0), a.Members().LatestGeneration(proc(3, 0)), "its rank has no successor")
	require.NotEqual(t, was, a.Members().ChangeCount(id))
	was = a.Members().ChangeCount(id)

	f.publishRunning(t, proc(3, 1), 2)
	testkit.Until(t, "others are known", func() bool {
		return a.Members().LatestGeneration(proc(4, 0)) == proc(4, 1)
	})
	require.Equal(t, proc(3, 1), a.Members().LatestGeneration(proc(3, 0)))
	require.Equal(t, proc(3, 1), a.Members().LatestGeneration(proc(3, 1)))
	require.Equal(t, proc(5, 0), a.Members().LatestGeneration(proc(5, 0)), "the event was not about it")
	require.Empty(t, a.Members().DeadProcs(id), "the rank is not dead")
	_, dead := a.Members().Down(proc(3, 0))
	require.True(t, dead, "the former proc is dead")
	require.NotEqual(t, was, a.Members().ChangeCount(id))

	f.publishEnd(t, proc(3, 1), "killed again")
	testkit.Until(t, "its end is known", func() bool { return len(a.Members().DeadProcs(id)) == 1 })
	require.Equal(t, 1, a.Members().DeadProcs(id)[0].Gen)
	a.Members().NoteGeneration(actor.Event{Mesh: id.String(), Rank: 3, Gen: 1}) // an old word
	a.Members().NoteGeneration(actor.Event{Mesh: id.String(), Rank: 3, Gen: 0})
	require.Equal(t, proc(3, 1), a.Members().LatestGeneration(proc(3, 0)))
}
