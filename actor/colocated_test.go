package actor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// row starts a proc beside another one, the seat-th after it.
func row(t *testing.T, first *actor.Proc, seat uint32, defs ...actor.Def) *actor.Proc {
	t.Helper()
	id := first.ID()
	id.Rank, id.Index = id.Rank+seat, seat
	registry, err := actor.NewRegistry(append(defs, boxes())...)
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(), actor.Options{ID: id, Lead: first, Registry: registry,
		Coordinator: func(actor.Event) {}})
	require.NoError(t, err)
	return p
}

func TestColocated_acceptCallsFromEverywhere(t *testing.T) {
	srv := bustest.Server(t)
	a, b := start(t, srv, "left"), start(t, srv, "right")
	b2, b3 := row(t, b, 2), row(t, b, 3)
	require.Equal(t, b.ID().Process(), b2.ID().Process())
	at := map[*actor.Proc]actor.Ref[*Box]{b: spawn(t, b), b2: spawn(t, b2), b3: spawn(t, b3)}
	for _, from := range []*actor.Proc{a, b, b2, b3} {
		for p, ref := range at {
			want := int64(p.ID().Index + 1)
			before, err := add.Call(testkit.Soon(t), ref.Via(from), 0)
			require.NoError(t, err)
			got, err := add.Call(testkit.Soon(t), ref.Via(from), want)
			require.NoError(t, err)
			require.Equal(t, before+want, got, "from %s to %s", from.ID(), p.ID())
			for range 10 {
				require.NoError(t, add.Send(testkit.Soon(t), ref.Via(from), 0))
			}
			all, err := history.Call(testkit.Soon(t), ref.Via(from), actor.None{})
			require.NoError(t, err)
			require.Zero(t, len(all)%12, "ten posts and two calls, each once")
		}
	}
}

func TestColocated_returnDeadLettersToTheSender(t *testing.T) {
	srv := bustest.Server(t)
	a, b := start(t, srv, "left"), start(t, srv, "right")
	a2, b2 := row(t, a, 1), row(t, b, 1)
	nobody := actor.RefOf[*Box](b2.ID().Actor("nobody-0m75tr2qfjesm"))
	_, err := add.Call(testkit.Soon(t), nobody.Via(a2), 1)
	require.ErrorIs(t, err, actor.ErrNoActor)
	require.ErrorContains(t, err, b2.ID().String())
	require.NoError(t, add.Send(testkit.Soon(t), nobody.Via(a2), 1))
	testkit.Until(t, "it came back", func() bool { return len(a2.DeadLetters()) == 1 })
	require.Empty(t, a.DeadLetters())

	missing := b.ID()
	missing.Rank, missing.Index = 7, 7
	_, err = add.Call(testkit.Soon(t), actor.RefOf[*Box](missing.Actor("counter-0m75tr2qfjesm")).Via(a), 1)
	require.ErrorIs(t, err, actor.ErrNoProc)
	_, err = add.Call(testkit.Soon(t), actor.RefOf[*Box](missing.Actor("counter-0m75tr2qfjesm")).Via(b2), 1)
	require.ErrorIs(t, err, actor.ErrNoProc)
}

func TestColocated_surviveTheDeathOfOne(t *testing.T) {
	srv := bustest.Server(t)
	a, b := start(t, srv, "left"), start(t, srv, "right")
	b2, b3 := row(t, b, 1), row(t, b, 2)
	two, three := spawn(t, b2), spawn(t, b3)
	_, err := add.Call(testkit.Soon(t), two.Via(a), 1)
	require.NoError(t, err)
	require.NoError(t, b2.Close(testkit.Soon(t)))
	down := actor.Event{Kind: actor.KindProc, Status: string(actor.Stopped), Mesh: b2.ID().Mesh.String(),
		Rank: int(b2.ID().Rank), ProcIndex: int(b2.ID().Index), At: time.Now()}
	a.Members().MarkDown(down)
	_, err = add.Call(testkit.Soon(t), two.Via(a), 1)
	require.ErrorIs(t, err, actor.ErrProcDead)
	_, err = add.Call(testkit.Soon(t), three.Via(a), 1)
	require.NoError(t, err)
	down.Rank, down.ProcIndex = int(b.ID().Rank), 0
	a.Members().MarkDown(down)
	_, err = add.Call(testkit.Soon(t), three.Via(a), 1)
	require.ErrorIs(t, err, actor.ErrProcDead, "with the first proc its process is gone")
}

func TestColocated_closeWithTheirLead(t *testing.T) {
	srv := bustest.Server(t)
	b := start(t, srv, "right")
	b2 := row(t, b, 1)
	ref := spawn(t, b2)
	require.NoError(t, b.Close(testkit.Soon(t)))
	_, err := add.Call(testkit.Soon(t), ref.Via(b2), 1)
	require.ErrorIs(t, err, actor.ErrStopped)
}

func TestNewProc_indexRequiresALead(t *testing.T) {
	srv := bustest.Server(t)
	b := start(t, srv, "right")
	id := subjects.ProcID{Mesh: b.ID().Mesh, Rank: 1, Index: 1}
	_, err := actor.NewProc(t.Context(), actor.Options{ID: id, Bus: b.Bus()})
	require.ErrorContains(t, err, "want the lead proc of its process, "+b.ID().String())
	_, err = actor.NewProc(t.Context(), actor.Options{ID: start(t, srv, "other").ID(), Lead: b})
	require.ErrorContains(t, err, "want an ID with an index in the process of "+b.ID().String())
}
