package actor_test

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// deaths is the message of an event: consecutive ranks of a mesh have failed.
func deaths(t *testing.T, p *actor.Proc, first subjects.ProcID, count int) bus.Msg {
	t.Helper()
	data, err := json.Marshal(actor.Event{
		Kind: actor.KindProc, Status: "failed", Mesh: first.Mesh.String(), Rank: int(first.Rank),
		Gen: int(first.Gen), Count: count,
	})
	require.NoError(t, err)
	return bus.Msg{Subject: p.Space().Event(actor.KindProc, first.Scope(), teller()), Data: data}
}

// awaitEvents waits until a proc has applied its received events.
func awaitEvents(t *testing.T, p *actor.Proc) {
	t.Helper()
	done := make(chan struct{})
	p.Bus().Data().AfterReceived(func() { close(done) })
	testkit.Next(t, done)
}

func TestDeadProcs_eventCannotNameRanksBeyondTheMesh_DEL5(t *testing.T) {
	const ranks, eventOf = 4, 3
	p := alone(t)
	mesh, err := subjects.NewMeshID("workers")
	require.NoError(t, err)
	told := 0
	defer p.Members().OnUnreachable(func(subjects.ProcID, error) { told++ })()
	var heard []actor.Event
	cancel, err := p.Members().ListenProcs(mesh, ranks, func(e actor.Event) { heard = append(heard, e) })
	require.NoError(t, err)
	real := subjects.ProcID{Mesh: mesh, Rank: 2}
	p.Receive(eventOf, deaths(t, p, real, 0))
	beyond := deaths(t, p, subjects.ProcID{Mesh: mesh, Rank: 1000}, 65_536)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 80
	for range n {
		p.Receive(eventOf, beyond)
	}
	awaitEvents(t, p)
	runtime.ReadMemStats(&after)
	require.Less(t, after.Mallocs-before.Mallocs, uint64(n*1000), "named ranks cost nothing")
	require.Equal(t, 1, told)
	require.Len(t, heard, 1)
	p.Receive(eventOf, deaths(t, p, subjects.ProcID{Mesh: mesh, Rank: 3}, 65_536))
	awaitEvents(t, p)
	require.Len(t, heard, 2)
	require.Equal(t, []int{3, 1}, []int{heard[1].Rank, heard[1].Count}, "existing ranks are marked")
	require.Len(t, p.Members().DeadProcs(mesh), 2)
	_, known := p.Members().Down(real)
	require.True(t, known)
	cancel()
	p.Receive(eventOf, deaths(t, p, subjects.ProcID{Mesh: mesh, Rank: 1}, 0))
	awaitEvents(t, p)
	require.Len(t, heard, 2, "a removed listener gets nothing")
}

func TestDeadProcs_senderHearsOfLaterDeaths_DEL5(t *testing.T) {
	srv := bustest.Server(t)
	a, f := start(t, srv, "left"), newForger(t, srv)
	mesh, err := subjects.NewMeshID("workers")
	require.NoError(t, err)
	id := subjects.ProcID{Mesh: mesh, Rank: 70_000}
	require.NoError(t, a.Members().FollowMesh(mesh, 1))
	require.NoError(t, add.Send(t.Context(), actor.RefOf[*Box](id.Actor("x")).Via(a), 1))
	f.publishEnd(t, id, "killed")
	testkit.Until(t, "its end is known", func() bool { _, dead := a.Members().Down(id); return dead })
}

func TestDeadProcs_storeRangesOfRanksAsOneEntry_DEL5(t *testing.T) {
	p := alone(t)
	mesh, err := subjects.NewMeshID("many")
	require.NoError(t, err)
	down := func(first, count, perProcess int) {
		p.Members().MarkDown(actor.Event{
			Kind: actor.KindProc, Status: "failed", Mesh: mesh.String(), Rank: first, Count: count,
			PerProcess: perProcess,
		})
	}
	var told []uint32
	defer p.Members().OnUnreachable(func(id subjects.ProcID, _ error) { told = append(told, id.Rank) })()
	down(10, 5, 1) // 10 to 14
	down(20, 0, 1) // 20
	require.Equal(t, 2, p.Ends())
	down(8, 16, 1) // 8 to 23: what was not known
	require.Equal(t, 5, p.Ends())
	require.Equal(t, []uint32{10, 11, 12, 13, 14, 20, 8, 9, 15, 16, 17, 18, 19, 21, 22, 23}, told)
	down(8, 16, 1)
	down(9, 0, 1)
	require.Len(t, told, 16, "a second word changes nothing")
	for rank := range uint32(30) {
		e, dead := p.Members().Down(subjects.ProcID{Mesh: mesh, Rank: rank})
		require.Equal(t, rank >= 8 && rank < 24, dead, "rank %d", rank)
		if dead {
			require.Equal(t, []int{int(rank), 0}, []int{e.Rank, e.Count})
		}
		_, dead = p.Members().Down(subjects.ProcID{Mesh: mesh, Rank: rank, Gen: 1})
		require.False(t, dead)
	}
	require.Len(t, p.Members().DeadProcs(mesh), 16)
	down(40, 4, 2)
	e, dead := p.Members().Down(subjects.ProcID{Mesh: mesh, Rank: 43, Index: 1})
	require.True(t, dead)
	require.Equal(t, 1, e.ProcIndex)
}

func TestDeadProcs_surviveForgedGenerations_DEL5(t *testing.T) {
	t.Parallel()
	const ranks = 4
	p := alone(t)
	mesh, err := subjects.NewMeshID("workers")
	require.NoError(t, err)
	ends := func(status actor.Status, rank, gen int) {
		e := actor.Event{Kind: actor.KindProc, Status: string(status), Mesh: mesh.String(), Rank: rank, Gen: gen}
		if p.Members().NoteGeneration(e); e.Terminal() {
			p.Members().MarkDown(e)
		}
	}
	ends(actor.Failed, 0, 0)
	ends(actor.Failed, 1, 0) // which is started anew, and ends again
	ends(actor.Running, 1, 1)
	ends(actor.Failed, 1, 1)
	for gen := range actor.MaxDown + 1000 {
		p.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: mesh.String(),
			Rank: gen % ranks, Gen: 2 + gen})
	}
	require.LessOrEqual(t, p.Ends(), 64, "they are bounded by the ranks of the mesh")
	for rank, gen := range []uint32{0, 1} {
		_, dead := p.Members().Down(subjects.ProcID{Mesh: mesh, Rank: uint32(rank), Gen: gen})
		require.True(t, dead, "rank %d", rank)
	}
}

func TestDeadProcs_knownEndStaysKnown_DEL5(t *testing.T) {
	p := alone(t)
	mesh, err := subjects.NewMeshID("workers")
	require.NoError(t, err)
	for rank := range 64 {
		e := actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: mesh.String(), Rank: rank}
		p.Members().NoteEnd(e)
		for down := false; !down; _, down = p.Members().Down(e.Proc()) {
			require.True(t, p.Members().IsEnded(e.Proc()), "rank %d", rank)
		}
	}
}

func TestDeadProcs_procIgnoresEventsOfItsOwnDeath_DEL5(t *testing.T) {
	p := alone(t)
	p.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed",
		Mesh: p.ID().Mesh.String(), Count: 3})
	_, dead := p.Members().Down(p.ID())
	require.False(t, dead)
	require.Len(t, p.Members().DeadProcs(p.ID().Mesh), 2)
}
