package actor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// tie links two actors; the first does it.
func tie(t *testing.T, ref actor.Ref[*Box], to subjects.ActorID) {
	t.Helper()
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		for range 2 { // the second does nothing more
			if err := ctx.Link(to); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	require.NoError(t, err)
}

// linkHandler is two actors, in one proc or two, and their procs.
func linkHandler(t *testing.T, test func(t *testing.T, one, other actor.Ref[*Box], here, there *actor.Proc)) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], there *actor.Proc) {
		here := ref.Bound()
		one := spawn(t, here)
		tie(t, one, ref.ID())
		far := actor.RefOf[*Box](ref.ID()).Via(there)
		if here != there {
			testkit.Until(t, "both sides",
				func() bool { return here.Watched(one.ID().Name) == 2 && there.Watched(far.ID().Name) == 2 })
		}
		test(t, one, far, here, there)
	})
}

func TestLink_failurePropagatesWithItsCause(t *testing.T) {
	for _, first := range []bool{true, false} {
		linkHandler(t, func(t *testing.T, one, other actor.Ref[*Box], here, there *actor.Proc) {
			if !first {
				one, other, here, there = other, one, there, here
			}
			es, far := record(here), record(there)
			done := there.Done(other.ID().Name)
			failActor(t, here, one, "no more")
			testkit.Next(t, done)
			require.Equal(t, "failed", es.end(t, one.ID().Name).Status)
			require.Equal(t, "actor "+other.ID().String()+" (type box) failed: linked actor "+one.ID().String()+
				" is gone: the actor failed: fail: no more\n"+
				"  caused by: actor "+one.ID().String()+" (type box) failed: fail: no more",
				far.end(t, other.ID().Name).Report())
			require.Equal(t, actor.CodeCascade, far.end(t, other.ID().Name).Code)
		})
	}
}

func TestLink_orderlyStopReleasesThePeer(t *testing.T) {
	linkHandler(t, func(t *testing.T, one, other actor.Ref[*Box], here, there *actor.Proc) {
		testkit.Next(t, here.StopActor(one.ID().Name, "enough"))
		testkit.Until(t, "untied", func() bool { return there.Watched(other.ID().Name) == 0 })
		awaitIdle(t, other)
		requireNoWatches(t, here, there)
		again := spawn(t, here)
		tie(t, again, other.ID())
		if here != there {
			testkit.Until(t, "both sides", func() bool { return there.Watched(other.ID().Name) == 2 })
		}
		done := here.Done(again.ID().Name)
		testkit.Next(t, there.KillActor(other.ID().Name, "now"))
		testkit.Next(t, done)
	})
}

func TestLink_toAnEndedActorActsAtOnce(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], there *actor.Proc) {
		here := ref.Bound()
		stopped, failed, one := spawn(t, there), spawn(t, there), spawn(t, here)
		testkit.Next(t, there.StopActor(stopped.ID().Name, "enough"))
		testkit.Next(t, there.KillActor(failed.ID().Name, "now"))
		tie(t, one, stopped.ID())
		awaitIdle(t, one)
		for id, want := range map[subjects.ActorID]string{
			failed.ID():               "the actor failed: killed: now",
			there.ID().Actor("never"): "proc " + there.ID().String() + " has no such actor",
		} {
			es, one := record(here), spawn(t, here)
			tie(t, one, id)
			require.Equal(t, "linked actor "+id.String()+" is gone: "+want, es.end(t, one.ID().Name).Reason)
		}
		require.Zero(t, here.Stats().Bounced, "the runtime's own messages are no dead letters")
	})
}

func TestLink_toADeadProcActsAtOnce(t *testing.T) {
	a, b := two(t)
	one, other, es := spawn(t, a), spawn(t, b), record(a)
	tie(t, one, other.ID())
	a.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: b.ID().Mesh.String(),
		Reason: "killed by signal 9"})
	require.Equal(t, "linked actor "+other.ID().String()+" is gone: the proc is gone: killed by signal 9",
		es.end(t, one.ID().Name).Reason)
}

func TestLink_failurePropagatesThroughManyActors(t *testing.T) {
	a, b := two(t)
	refs, homes := []actor.Ref[*Box]{spawn(t, a)}, []*actor.Proc{a}
	for i := range 5 {
		home := []*actor.Proc{a, b}[i%2]
		refs, homes = append(refs, spawn(t, home)), append(homes, home)
		tie(t, refs[i], refs[i+1].ID())
		testkit.Until(t, "both sides", func() bool { return home.Watched(refs[i+1].ID().Name) == 2 })
	}
	tie(t, refs[5], refs[0].ID()) // a ring
	testkit.Until(t, "both sides", func() bool { return a.Watched(refs[0].ID().Name) == 4 })
	ea, eb := record(a), record(b)
	failActor(t, homes[3], refs[3], "no more")
	for i, ref := range refs {
		es := ea
		if homes[i] == b {
			es = eb
		}
		require.Equal(t, "fail: no more", es.end(t, ref.ID().Name).RootCause().Reason)
	}
}

func TestLink_toItselfIsRefused(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	_, err := do.Call(t.Context(), ref,
		func(ctx *actor.Context, _ *Box) (int64, error) { return 0, ctx.Link(ctx.Self()) })
	require.ErrorContains(t, err, "link an actor to itself: want another one")
	_, err = do.Call(t.Context(), ref,
		func(ctx *actor.Context, _ *Box) (int64, error) { return 0, ctx.Link(subjects.ActorID{}) })
	require.ErrorContains(t, err, "want the ID of an actor")
	awaitIdle(t, ref)
}
