package actortest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

func TestRecorder_holdsEachMessageOnceInOrder_KIT3(t *testing.T) {
	both(t, func(t *testing.T) {
		rig, ref, booked, struck := setUp(t)
		for n := range 100 {
			require.NoError(t, tell.Send(rig.Context(), ref, n))
		}
		for n := range 50 {
			got := struck.Next()
			require.Equal(t, n, got.Value)
			require.Equal(t, ref.ID(), got.From)
			require.False(t, got.IsCall)
		}
		rest := struck.All()
		require.Len(t, rest, 50)
		require.Equal(t, 99, rest[49].Value)
		struck.None()
		booked.None()
	})
}

func TestReply_answersTheCall(t *testing.T) {
	both(t, func(t *testing.T) {
		rig, ref, booked, _ := setUp(t)
		_, err := deposit.Call(rig.Context(), ref, 1)
		require.ErrorContains(t, err, "no answer is set for book")
		booked.Reply(func(n int) (int, error) { return 10 * n, nil })
		n, err := deposit.Call(rig.Context(), ref, 2)
		require.NoError(t, err)
		require.Equal(t, 20, n)
		booked.Reply(func(int) (int, error) { return 0, errors.New("closed") })
		_, err = deposit.Call(rig.Context(), ref, 3)
		require.ErrorContains(t, err, "closed")
		for n := range 3 {
			got := booked.Next()
			require.Equal(t, n+1, got.Value)
			require.True(t, got.IsCall)
		}
	})
}

func TestHold_leavesTheReplyToTheTest(t *testing.T) {
	both(t, func(t *testing.T) {
		rig, ref, booked, struck := setUp(t)
		booked.Hold()
		answer := make(chan int, 1)
		go func() {
			n, _ := deposit.Call(rig.Context(), ref, 1)
			answer <- n
		}()
		got := booked.Next()
		require.NoError(t, tell.Send(rig.Context(), ref, 7))
		struck.None() // the till waits for its ledger
		require.Empty(t, answer)
		got.Answer(42, nil)
		got.Answer(43, nil)
		require.Equal(t, 42, testkit.Next(t, answer))
		require.Equal(t, 7, struck.Next().Value)
	})
}

func TestHold_endsWithTheTest(t *testing.T) {
	var after []error
	require.Empty(t, play(t.Context(), func(t testing.TB) {
		rig, ref, booked, _ := setUp(t)
		booked.Hold()
		require.NoError(t, do.Send(rig.Context(), ref, func(ctx *actor.Context, t *Till) error {
			for range 2 {
				_, err := book.Call(ctx, t.ledger, 1)
				after = append(after, err)
			}
			return nil
		}))
		booked.Next()
	}))
	require.Len(t, after, 2)
	for _, err := range after {
		require.ErrorContains(t, err, "the test ended and a held message has no answer")
	}
}

func TestRig_actorsEndBeforeTheirProbes_KIT1(t *testing.T) {
	both(t, func(t *testing.T) {
		gate := make(chan struct{})
		n := make(chan int, 1)
		require.Empty(t, play(t.Context(), func(t testing.TB) {
			rig, ref, booked, _ := setUp(t)
			booked.Reply(func(int) (int, error) { return 42, nil })
			require.NoError(t, do.Send(rig.Context(), ref, func(*actor.Context, *Till) error { <-gate; return nil }))
			require.NoError(t, do.Send(rig.Context(), ref, func(ctx *actor.Context, t *Till) error {
				got, err := book.Call(ctx, t.ledger, 1)
				n <- got
				return err
			}))
			t.Cleanup(func() { close(gate) })
		}))
		require.Equal(t, 42, testkit.Next(t, n))
	})
}

func TestNone_isExactInASynctestBubble_KIT4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig, ref, _, struck := setUp(t)
		require.NoError(t, later.Send(rig.Context(), ref, time.Hour))
		struck.None()
		<-time.After(time.Hour - time.Nanosecond) // virtual
		struck.None()
		<-time.After(time.Nanosecond)
		require.Len(t, struck.All(), 1)
	})
}

func TestNone_waitsForLocalMessages_KIT4(t *testing.T) {
	both(t, func(t *testing.T) {
		failures := play(t.Context(), func(t testing.TB) {
			rig, ref, _, struck := setUp(t)
			for n := range 1000 {
				require.NoError(t, tell.Send(rig.Context(), ref, n))
			}
			struck.None()
		})
		require.Len(t, failures, 1)
		require.Regexp(t, `want no more messages to strike, got 1000; the first from rig-\w+/0.0/till-\w+: 0$`,
			failures[0])
	})
}

func TestNone_waitsForMessagesOnTheBus_KIT4(t *testing.T) {
	both(t, func(t *testing.T) {
		rig := actortest.New(t, tillDef())
		ledger := actortest.NewProbe[*Ledger](rig.Peer())
		struck := actortest.On(ledger, strike)
		ref := actortest.Spawn(rig, tills, ledger.Ref())
		for n := range 1000 {
			require.NoError(t, tell.Send(rig.Context(), ref, n))
		}
		all := struck.All()
		require.Len(t, all, 1000)
		require.Equal(t, 999, all[999].Value)
		require.Equal(t, ref.ID(), all[999].From)
	})
}

func TestProbe_receivesTheMessageByReference_KIT3(t *testing.T) {
	both(t, func(t *testing.T) {
		rig := actortest.New(t)
		here, there := actortest.NewProbe[*Till](rig), actortest.NewProbe[*Till](rig.Peer())
		done := actortest.On(here, do)
		actortest.On(there, do)
		var ran bool
		require.NoError(t, do.Send(rig.Context(), here.Ref(),
			func(*actor.Context, *Till) error { ran = true; return nil }))
		require.NoError(t, done.Next().Value(nil, nil))
		require.True(t, ran)
		err := do.Send(rig.Context(), there.Ref().Via(rig.Proc()), func(*actor.Context, *Till) error { return nil })
		require.ErrorIs(t, err, actor.ErrInvalid, "a function does not cross the bus")
	})
}

func TestInPlaceOf_isSpawnedByTheActorUnderTest(t *testing.T) {
	both(t, func(t *testing.T) {
		rig := actortest.New(t, tillDef())
		child, born := actortest.ReplaceType(rig, ledgers)
		struck := actortest.On(child, strike)
		ref := actortest.Spawn(rig, tills, actor.RefOf[*Ledger](rig.Proc().ID().Actor("unused")))
		_, err := open.Call(rig.Context(), ref, "second")
		require.NoError(t, err)
		made, got := born.Next(), struck.Next()
		require.Equal(t, "second", made.Value)
		require.Equal(t, 6, got.Value)
		require.Equal(t, child.Ref().ID(), made.To)
		require.Equal(t, made.To, got.To)
		spawned := rig.Spawned()
		require.Len(t, spawned, 1)
		require.Equal(t, "ledger", spawned[0].Type)

		born.Reply(func(string) (actor.None, error) { return actor.None{}, errors.New("no room") })
		_, err = open.Call(rig.Context(), ref, "third")
		require.ErrorContains(t, err, "no room")
	})
}

func TestProbe_implementsAnInterface(t *testing.T) {
	rig := actortest.New(t)
	p := actortest.NewProbe[actortest.TestActor](rig)
	asked := actortest.On(p, actortest.GetActorID)
	asked.Reply(func(actor.None) (subjects.ActorID, error) { return p.Ref().ID(), nil })
	id, err := actortest.GetActorID.Call(rig.Context(), p.Ref(), actor.None{})
	require.NoError(t, err)
	require.Equal(t, p.Ref().ID(), id)
	require.Equal(t, "client", asked.Next().From.Name)
}

func TestRecorder_isBounded(t *testing.T) {
	failures := play(t.Context(), func(t testing.TB) {
		rig, ref, _, struck := setUp(t)
		_, err := do.Call(rig.Context(), ref, func(ctx *actor.Context, t *Till) error {
			to := t.ledger
			for range 70_000 {
				for errors.Is(strike.Send(ctx, to, 1), actor.ErrMailboxFull) {
				}
			}
			return nil
		})
		require.NoError(t, err)
		require.Len(t, struck.All(), 1<<16)
	})
	require.Equal(t, []string{"actortest: 65536 messages to strike wait in the recorder: the rest is dropped"},
		failures)
}
