package actor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// places runs a test against an actor of the caller's own proc and one of another.
func places(t *testing.T, test func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc)) {
	t.Run("same proc", func(t *testing.T) {
		p := alone(t)
		test(t, spawn(t, p), p)
	})
	t.Run("other proc", func(t *testing.T) {
		a, b := two(t)
		test(t, spawn(t, b).Via(a), b)
	})
}

func TestCall_returnsTheHandlersValue(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], _ *actor.Proc) {
		for n := range int64(5) {
			got, err := add.Call(t.Context(), ref, 2)
			require.NoError(t, err)
			require.Equal(t, 2*n+2, got)
		}
		s, err := echo.Call(t.Context(), ref, "grüße")
		require.NoError(t, err)
		require.Equal(t, "grüße", s)
	})
}

func TestCall_actorCanCallItsOwnType(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		other := spawn(t, home)
		n, err := relay.Call(t.Context(), ref, other)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	})
}

func TestCall_namesTheCallingActorAcrossProcs(t *testing.T) {
	a, b := two(t)
	from, to := spawn(t, a), spawn(t, b)
	n, err := relay.Call(t.Context(), from, to)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	sender := make(chan subjects.ActorID, 2)
	note := func(ctx *actor.Context, _ *Box) (int64, error) {
		sender <- ctx.Sender()
		return 0, nil
	}
	near := spawn(t, a)
	_, err = do.Call(t.Context(), from, func(ctx *actor.Context, _ *Box) (int64, error) {
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		return do.Call(derived, near, note)
	})
	require.NoError(t, err)
	require.Equal(t, from.ID(), testkit.Next(t, sender))
	_, err = do.Call(t.Context(), near, note)
	require.NoError(t, err)
	require.Equal(t, "client", testkit.Next(t, sender).Name)
}

func TestSend_keepsMessageOrder(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], _ *actor.Proc) {
		for n := range int64(500) {
			require.NoError(t, add.Send(t.Context(), ref, n))
		}
		got, err := history.Call(t.Context(), ref, actor.None{})
		require.NoError(t, err)
		require.Len(t, got, 500)
		for i, n := range got {
			require.EqualValues(t, i, n)
		}
	})
}

func TestCall_returnsHandlerErrorAndActorLives_ACT4(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		_, err := fail.Call(t.Context(), ref, "not today")
		require.EqualError(t, err, "not today")
		e := asError(t, err)
		require.Equal(t, actor.CodeHandler, e.Code)
		require.False(t, e.Undeliverable())
		_, err = add.Call(t.Context(), ref, 1)
		require.NoError(t, err)
		info, ok := home.Actor(ref.ID().Name)
		require.True(t, ok)
		require.Equal(t, actor.Running, info.Status)
	})
}

func TestSend_handlerErrorFailsTheActor_ACT4(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		es := record(home)
		require.NoError(t, fail.Send(t.Context(), ref, "not today"))
		testkit.Until(t, "failed", func() bool { return len(es.of(ref.ID().Name)) == 1 })
		require.Equal(t, []string{"failed"}, es.of(ref.ID().Name))
		info, _ := home.Actor(ref.ID().Name)
		require.Equal(t, actor.Failed, info.Status)
		require.Equal(t, "fail: not today", info.Reason)
		_, err := add.Call(t.Context(), ref, 1)
		require.ErrorIs(t, err, actor.ErrFailed)
		require.True(t, asError(t, err).Undeliverable())
		require.ErrorContains(t, err, "the actor failed: fail: not today")
	})
}

func TestActor_survivesAMessageThatDoesNotDecode_ACT4(t *testing.T) {
	wrong := actor.NewEndpoint[*Box, []string, int64]("add")
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		_, err := wrong.Call(t.Context(), ref, []string{"x"})
		require.ErrorIs(t, err, actor.ErrBadMessage)
		require.ErrorContains(t, err, "takes int64")
		require.True(t, asError(t, err).Undeliverable())
		require.NoError(t, wrong.Send(t.Context(), ref, []string{"y"}))
		_, err = add.Call(t.Context(), ref, 1)
		require.NoError(t, err)
		require.EqualValues(t, 2, home.Stats().Undeliverable)
	})
}

func TestCall_handlerErrorIsNeverUndeliverable_DEL2(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		gone := actor.RefOf[*Box](home.ID().Actor("nobody"))
		_, err := relay.Call(t.Context(), ref, gone)
		require.ErrorIs(t, err, actor.ErrNoActor, "the code is that of the handler's own call")
		require.False(t, asError(t, err).Undeliverable(), "but this message was handled")
		require.ErrorContains(t, err, "nobody")
	})
	a, b := two(t)
	ref := spawn(t, b).Via(a)
	_, err := big.Call(t.Context(), ref, 65<<20)
	require.ErrorIs(t, err, actor.ErrTooLarge, "the answer is")
	require.ErrorContains(t, err, "the answer: ")
	require.False(t, asError(t, err).Undeliverable())
	wrong := actor.NewEndpoint[*Box, string, int64]("echo")
	_, err = wrong.Call(t.Context(), ref, "x")
	require.ErrorIs(t, err, actor.ErrBadMessage, "the answer does not decode")
	require.False(t, asError(t, err).Undeliverable())
	_, err = wrong.Call(t.Context(), spawn(t, a), "x")
	require.ErrorContains(t, err, "the answer is string, want int64")
	require.False(t, asError(t, err).Undeliverable())
}

func TestCall_reportsUndelivered_DEL2(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		for _, c := range []struct {
			err  error
			want error
			text string
		}{
			{second(absent.Call(t.Context(), ref, 1)), actor.ErrNoEndpoint, "it has add, big, boom, do,"},
			{second(add.Call(t.Context(), actor.RefOf[*Box](home.ID().Actor("nobody")).Via(home), 1)),
				actor.ErrNoActor, "has no such actor"},
			{second(add.Call(t.Context(), actor.Ref[*Box]{}, 1)), actor.ErrInvalid, "got the zero Ref"},
			{second(add.Call(t.Context(), actor.RefOf[*Box](ref.ID()), 1)), actor.ErrInvalid, "no sender"},
			{second(add.Call(t.Context(), actor.RefOf[*Box](subjects.ActorID{}), 1)), nil, "want a valid actor ID"},
			{second(actor.NewEndpoint[*Box, int64, int64]("no dots.").Call(t.Context(), ref, 1)), actor.ErrInvalid,
				`"no dots."`},
			{actor.PortRef[int]{}.Via(home).Send(t.Context(), 1), actor.ErrInvalid, "want the port"},
		} {
			require.ErrorContains(t, c.err, c.text)
			if c.want != nil {
				require.ErrorIs(t, c.err, c.want)
				require.True(t, asError(t, c.err).Undeliverable(), c.text)
			}
		}
	})
	a, b := limited(t, 1<<20)
	ref := spawn(t, b).Via(a)
	_, err := echo.Call(t.Context(), ref, strings.Repeat("x", 2<<20))
	require.ErrorIs(t, err, actor.ErrTooLarge)
	require.True(t, asError(t, err).Undeliverable())
	_, err = do.Call(t.Context(), ref, func(*actor.Context, *Box) (int64, error) { return 0, nil })
	require.ErrorIs(t, err, actor.ErrInvalid, "a function cannot travel")
	_, err = echo.Call(t.Context(), ref, "after a message too large the link is whole")
	require.NoError(t, err)
}

func second[T any](_ T, err error) error { return err }

func TestCall_endsWithItsContext(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		local := actor.RefOf[*Box](ref.ID()).Via(home)
		defer blocked(t, local)()
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() { answered <- second(add.Call(ctx, ref, 1)) }()
		testkit.Until(t, "queued", func() bool { info, _ := home.Actor(ref.ID().Name); return info.Queued == 1 })
		cancel()
		err := testkit.Next(t, answered)
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, asError(t, err).Undeliverable())
		_, err = add.Call(ctx, ref, 1)
		require.ErrorIs(t, err, context.Canceled, "nothing is sent for a caller who has given up")
		info, _ := home.Actor(ref.ID().Name)
		require.Equal(t, 1, info.Queued)
	})
}

func TestCall_waits30sWithoutADeadlineOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := []actor.Ref[*Box]{}
		srv := bustest.Server(t)
		a, b := start(t, srv, "left"), start(t, srv, "right")
		places = append(places, spawn(t, a), spawn(t, b))
		for _, ref := range places {
			release := blocked(t, ref)
			began := time.Now()
			_, err := add.Call(t.Context(), ref.Via(a), 1)
			require.ErrorIs(t, err, actor.ErrDeadline)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 30*time.Second, time.Since(began))
			release()
		}
	})
}

func TestCall_passesItsDeadlineOn(t *testing.T) {
	left := make(chan time.Duration, 1)
	deadline := actor.NewEndpoint[*Box, actor.None, actor.None]("deadline")
	typ := actor.NewType[*Box, int64]("timed")
	def := typ.Define(newBox, deadline.Handle(
		func(_ *Box, ctx *actor.Context, _ actor.None) (actor.None, error) {
			d, ok := ctx.Deadline()
			require.True(t, ok)
			left <- time.Until(d)
			return actor.None{}, nil
		}))
	srv := bustest.Server(t)
	a, b := start(t, srv, "left"), start(t, srv, "right", def)
	ref, err := actor.Spawn(t.Context(), b, typ, "timed", 0)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, via := range []*actor.Proc{a, b} {
		_, err = deadline.Call(ctx, ref.Via(via), actor.None{})
		require.NoError(t, err)
		d := testkit.Next(t, left)
		require.Greater(t, d, 59*time.Minute)
		require.LessOrEqual(t, d, time.Hour)
	}
}

func TestCall_leavesNoState(t *testing.T) {
	a, b := limited(t, 1<<20)
	ref := spawn(t, b).Via(a)
	calls := []func() error{
		func() error { return second(add.Call(t.Context(), ref, 1)) },
		func() error { return second(fail.Call(t.Context(), ref, "x")) },
		func() error { return second(echo.Call(t.Context(), ref, strings.Repeat("x", 2<<20))) },
		func() error { return second(absent.Call(t.Context(), ref, 1)) },
		func() error {
			release := blocked(t, actor.RefOf[*Box](ref.ID()).Via(b))
			defer release()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer := make(chan error, 1)
			go func() { answer <- second(add.Call(ctx, ref, 1)) }()
			testkit.Until(t, "the question waits", func() bool {
				info, _ := b.Actor(ref.ID().Name)
				return info.Queued == 1
			})
			cancel()
			err := testkit.Next(t, answer)
			testkit.Until(t, "it is given up there, too", func() bool { return b.GivenUp(ref.ID().Name) == 1 })
			return err
		},
	}
	for i, call := range calls {
		err := call()
		require.Equal(t, i == 0, err == nil, "%v", err)
		ports, waiting := a.Waiting()
		require.Zero(t, ports, "call %d", i)
		require.Zero(t, waiting, "call %d", i)
	}
	got, err := history.Call(t.Context(), ref, actor.None{})
	require.NoError(t, err)
	require.Equal(t, []int64{1}, got, "an abandoned message is not handled")
}

func TestRef_encodesAsItsID(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	text, err := ref.MarshalText()
	require.NoError(t, err)
	require.Equal(t, ref.ID().String(), string(text))
	require.Equal(t, ref.String(), string(text))
	var back actor.Ref[*Box]
	require.NoError(t, back.UnmarshalText(text))
	require.Equal(t, ref.ID(), back.ID())
	require.Error(t, back.UnmarshalText([]byte("not an id")))
	bad := actor.ErrRef[*Box](fmt.Errorf("no such rank"))
	_, err = bad.MarshalText()
	require.EqualError(t, err, "no such rank")
	require.EqualError(t, bad.Err(), "no such rank")
	require.Equal(t, "bad ref: no such rank", bad.String())
	require.EqualError(t, add.Send(t.Context(), bad, 1), "no such rank")
}

func TestCall_ofAnActorToItselfIsRefusedAtOnceExceptInGo(t *testing.T) {
	ref := spawn(t, alone(t))
	n, err := do.Call(t.Context(), ref, func(ctx *actor.Context, b *Box) (int64, error) {
		derived, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		for _, self := range []actor.Ref[*Box]{actor.Self[*Box](ctx), actor.RefOf[*Box](ctx.Self())} {
			for _, ctx := range []context.Context{ctx, derived, actor.WithTrace(ctx, actor.Trace{})} {
				_, err := add.Call(ctx, self, 1)
				require.ErrorIs(t, err, actor.ErrInvalid)
				require.ErrorContains(t, err, "would wait for itself")
			}
		}
		require.NoError(t, add.Send(ctx, actor.Self[*Box](ctx), 1))
		answer, self := actor.Defer[int64](ctx), actor.Self[*Box](ctx)
		ctx.Go(func(work context.Context) func(*actor.Context) {
			answer.Reply(add.Call(work, self, 1))
			return nil
		})
		return 0, nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
}

func TestSendWait_ofAnActorToItselfDoesNotWaitForRoom(t *testing.T) {
	ref, err := actor.Spawn(t.Context(), alone(t), box, "box", 0, actor.Mailbox(1))
	require.NoError(t, err)
	_, err = do.Call(t.Context(), ref, func(ctx *actor.Context, b *Box) (int64, error) {
		derived, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		require.NoError(t, add.Send(ctx, actor.Self[*Box](ctx), 1))
		require.ErrorIs(t, add.SendWait(derived, actor.Self[*Box](ctx), 1), actor.ErrMailboxFull)
		return 0, nil
	})
	require.NoError(t, err)
}
