package actortest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/subjects"
)

// both runs a test in a bubble and without one.
func both(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, test) })
	t.Run("clock", test)
}

// setUp is a till in a rig of its own, and the ledger it books in.
func setUp(t testing.TB) (*actortest.Rig, actor.Ref[*Till], *actortest.Recorder[int, int],
	*actortest.Recorder[int, actor.None]) {
	t.Helper()
	rig := actortest.New(t, tillDef())
	ledger := actortest.NewProbe[*Ledger](rig)
	booked, struck := actortest.On(ledger, book), actortest.On(ledger, strike)
	return rig, actortest.Spawn(rig, tills, ledger.Ref()), booked, struck
}

func TestRig_actorThatDoesNotStopFailsTheTest_KIT1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		failures := play(t.Context(), func(t testing.TB) {
			rig, ref, _, _ := setUp(t)
			require.NoError(t, do.Send(rig.Context(), ref, func(*actor.Context, *Till) error { <-gate; return nil }))
			rig.Settle()
		})
		require.NotEmpty(t, failures)
		require.Regexp(t, `^actortest: rig-\w+/0.0/till-\w+ did not stop: its handler of do has not returned$`,
			failures[0])
		close(gate)
		synctest.Wait()
	})
}

func TestRig_unexpectedFailureFailsTheTestWithAReport_KIT1(t *testing.T) {
	failures := play(t.Context(), func(t testing.TB) {
		rig := actortest.New(t, actortest.Actors()...)
		parent := actortest.Spawn(rig, actortest.TestActors, actor.None{})
		_, err := actortest.SpawnTest.Call(rig.Context(), parent, actor.None{})
		require.NoError(t, err)
		_, err = actortest.CauseFailure.Call(rig.Context(), parent,
			actortest.Failure{Kind: actortest.Panic, Children: true})
		require.NoError(t, err)
		require.True(t, rig.Terminal(parent).Failed())
	})
	require.Len(t, failures, 1)
	require.Regexp(t, `(?s)did not expect it \(Rig.ExpectFailure\):
actor rig-\w+/0.0/test-actor-\w+ \(type test-actor\) failed: its child test-actor-\w+ failed: .*
  caused by: actor rig-\w+/0.0/test-actor-\w+ \(type test-actor\) failed: cause-failure: panicked: for testing .*$`, failures[0])
}

func TestRig_expectedFailurePasses_KIT1(t *testing.T) {
	both(t, func(t *testing.T) {
		rig, ref, _, _ := setUp(t)
		require.NoError(t, do.Send(rig.Context(), ref,
			func(*actor.Context, *Till) error { return errors.New("as planned") }))
		e := rig.ExpectFailure(ref)
		require.Equal(t, "do: as planned", e.Reason)
		require.Equal(t, actor.CodeHandler, e.Code)
		require.Equal(t, []actor.Event{e}, rig.Events(ref)[1:], "after its present handler")
	})
}

func TestSpawn_constructorErrorEndsTheTest(t *testing.T) {
	failures := play(t.Context(), func(t testing.TB) {
		actortest.Spawn(actortest.New(t, tillDef()), tills, actor.Ref[*Ledger]{})
		t.Errorf("it goes on")
	})
	require.Len(t, failures, 1)
	require.Contains(t, failures[0], "no ledger")
}

func TestExpectFailure_refusesAStoppedActor(t *testing.T) {
	failures := play(t.Context(), func(t testing.TB) {
		rig, ref, _, _ := setUp(t)
		require.NoError(t, do.Send(rig.Context(), ref,
			func(ctx *actor.Context, _ *Till) error { ctx.Stop("enough"); return nil }))
		require.Equal(t, "enough", rig.Terminal(ref).Reason)
		rig.ExpectFailure(ref)
	})
	require.Len(t, failures, 1)
	require.Regexp(t, `want a failure, got: actor rig-\w+/0.0/till-\w+ \(type till\) stopped: enough$`,
		failures[0])
}

func TestWait_timesOutAndNamesWhatIsMissing_KIT1(t *testing.T) {
	for name, c := range map[string]struct {
		body func(t testing.TB)
		want string
	}{
		"a message": {func(t testing.TB) {
			_, _, booked, _ := setUp(t)
			booked.Next()
		}, `^actortest: want a message to book, got none within 20s$`},
		"an end": {func(t testing.TB) {
			rig, ref, _, _ := setUp(t)
			rig.Terminal(ref)
		}, `^actortest: rig-\w+/0.0/till-\w+ did not end within 20s: it is running, 0 messages wait$`},
		"a spawn": {func(t testing.TB) {
			p, _ := actortest.ReplaceType(actortest.New(t, tillDef()), ledgers)
			p.Ref()
		}, `^actortest: want a spawn of actor type ledger, got none within 20s$`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				failures := play(t.Context(), c.body)
				require.Len(t, failures, 1)
				require.Regexp(t, c.want, failures[0])
				require.Equal(t, actortest.Timeout, time.Since(start))
			})
		})
	}
}

func TestRig_refusesActorsOfOtherRigs(t *testing.T) {
	for name, c := range map[string]struct {
		body func(t testing.TB)
		want string
	}{
		"an actor of a peer": {func(t testing.TB) {
			rig := actortest.New(t, actortest.Actors()...)
			rig.Terminal(actortest.Spawn(rig.Peer(), actortest.TestActors, actor.None{}))
		}, "want an actor of this rig's proc"},
		"an actor that never was": {func(t testing.TB) {
			rig := actortest.New(t)
			rig.Terminal(actor.RefOf[*Till](rig.Proc().ID().Actor("nobody")))
		}, "which its proc does not know"},
		"a type twice": {func(t testing.TB) { actortest.New(t, tillDef(), tillDef()) }, "defined twice"},
		"a late probe": {func(t testing.TB) {
			rig, _, _, _ := setUp(t)
			actortest.NewProbe[*Till](rig)
		}, "want probes and their endpoints before the rig's proc starts"},
		"a late endpoint": {func(t testing.TB) {
			p := actortest.NewProbe[*Till](actortest.New(t))
			p.Ref()
			actortest.On(p, deposit)
		}, "want probes and their endpoints before the rig's proc starts"},
		"an endpoint twice": {func(t testing.TB) {
			p := actortest.NewProbe[*Till](actortest.New(t))
			actortest.On(p, deposit)
			actortest.On(p, deposit)
			p.Ref()
		}, `"deposit" is bound twice`},
	} {
		t.Run(name, func(t *testing.T) {
			failures := play(t.Context(), c.body)
			require.Len(t, failures, 1)
			require.Contains(t, failures[0], c.want)
		})
	}
}

func TestRig_spawnedListsChildrenOfTheActor_KIT4(t *testing.T) {
	both(t, func(t *testing.T) {
		rig := actortest.New(t, actortest.Actors()...)
		ref := actortest.Spawn(rig, actortest.Supervisors, actor.None{})
		require.Empty(t, rig.Spawned())
		var want []subjects.ActorID
		for range 3 {
			child, err := actortest.SpawnTest.Call(rig.Context(), ref, actor.None{})
			require.NoError(t, err)
			want = append(want, child.ID())
		}
		_, err := actortest.CauseFailure.Call(rig.Context(), ref,
			actortest.Failure{Kind: actortest.Panic, Children: true})
		require.NoError(t, err)
		var got []subjects.ActorID
		for _, c := range rig.Spawned() {
			require.Equal(t, "test-actor", c.Type)
			require.True(t, rig.Terminal(c).Failed())
			got = append(got, c.ID())
		}
		require.Equal(t, want, got)
		require.Len(t, rig.Children(ref), 3)
		require.Empty(t, rig.Children(rig.Children(ref)[0]))
	})
}
