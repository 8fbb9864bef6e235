package actor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
)

func TestError_everyCodeStatesItsFate(t *testing.T) {
	const ran, never, unknown = "a handler ran it", "no handler ran it", "nobody knows"
	for code, want := range map[actor.Code]string{
		actor.CodeHandler: ran, actor.CodePanic: ran,
		actor.CodeNoActor: never, actor.CodeNoEndpoint: never, actor.CodeBadMessage: never,
		actor.CodeMailboxFull: never,
		actor.CodeStopped:     never, actor.CodeFailed: never, actor.CodeNoProc: never, actor.CodeTooLarge: never,
		actor.CodeUnavailable: never, actor.CodeInvalid: never, actor.CodePortGone: never, actor.CodeExpired: never,
		actor.CodeBacklog: never, actor.CodeTooMany: never,
		actor.CodeProcDead: unknown, actor.CodeLinkBroken: unknown, actor.CodeDeadline: unknown,
		actor.CodeCanceled: unknown,
		actor.CodeKilled:   unknown, actor.CodeCascade: unknown, 99: unknown,
	} {
		is := func(e *actor.Error) string {
			require.False(t, e.Undeliverable() && e.Indeterminate())
			switch {
			case e.Undeliverable():
				return never
			case e.Indeterminate():
				return unknown
			}
			return ran
		}
		e := &actor.Error{Code: code}
		require.Equal(t, want, is(e), "code %d", code)
		e.Ran = true
		require.False(t, e.Undeliverable(), "code %d", code)
		require.False(t, actor.FromWire(actor.EncodeError(e)).Undeliverable(), "code %d, from the bus", code)
		require.Equal(t, code == actor.CodeDeadline || code == actor.CodeExpired,
			errors.Is(e, context.DeadlineExceeded), "code %d", code)
		require.Equal(t, code == actor.CodeCanceled, errors.Is(e, context.Canceled), "code %d", code)
	}
}

// expiring makes a mailer send to a silent stranger, and returns the dead letter and the time until
// then.
func expiring(t *testing.T, answers func(*stranger, *actor.Proc)) (actor.DeadLetter, time.Duration) {
	t.Helper()
	srv := bustest.Server(t)
	a, s := start(t, srv, "left", mailers()), newStranger(t, srv)
	from, back := newMailer(t, a)
	if answers != nil {
		go answers(s, a)
	}
	began := time.Now()
	_, err := mail.Call(t.Context(), from, func(ctx *actor.Context) error {
		within, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return add.Send(within, s.ref(a), 1)
	})
	require.NoError(t, err)
	r := <-back
	after := time.Since(began)
	time.Sleep(2 * time.Minute) // virtual
	require.Len(t, requireDeadLetters(t, 0, from, back), 0, "once")
	require.Equal(t, "int64", r.Type)
	require.ErrorIs(t, r.Reason, actor.ErrExpired)
	require.ErrorIs(t, r.Reason, context.DeadlineExceeded)
	require.Equal(t, []string{s.id.Actor("x").String(), "add"}, []string{r.Reason.Actor, r.Reason.Endpoint})
	return r, after
}

func TestSend_silentReceiverMakesFateUnknown_DEL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, after := expiring(t, nil)
		require.True(t, r.Reason.Indeterminate())
		require.False(t, r.Reason.Undeliverable())
		require.GreaterOrEqual(t, after, time.Second)
		require.Less(t, after, 3*time.Second)
	})
}

func TestSend_unseenMessageIsUndeliverable_DEL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, after := expiring(t, func(s *stranger, a *actor.Proc) {
			s.sendControl(t, a, wire.FateReply, s.awaitControl(t, wire.FateQuery))
		})
		require.True(t, r.Reason.Undeliverable())
		require.False(t, r.Reason.Indeterminate())
		require.Less(t, after, 1100*time.Millisecond)
	})
}

func TestSend_unsentMessageIsUndeliverableAtItsDeadline_DEL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, s := start(t, srv, "left"), newStranger(t, srv)
		// all the credit there is
		require.NoError(t, echo.Send(t.Context(), s.ref(a), string(make([]byte, 200_000))))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 10 {
			require.NoError(t, add.Send(ctx, s.ref(a), 1))
		}
		time.Sleep(1100 * time.Millisecond) // virtual
		synctest.Wait()
		dead := a.DeadLetters()
		require.Len(t, dead, 10)
		for _, r := range dead {
			require.ErrorIs(t, r.Reason, actor.ErrExpired)
			require.True(t, r.Reason.Undeliverable())
			require.Equal(t, "int64", r.Type)
		}
	})
}

func TestCall_unansweredEndsAtItsDeadline_DEL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, s := start(t, srv, "left"), newStranger(t, srv)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := add.Call(ctx, s.ref(a), 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, asError(t, err).Indeterminate())
		require.Equal(t, time.Second, time.Since(began))
		time.Sleep(time.Minute)
		require.Zero(t, a.Stats().Bounced, "the caller has the error")
	})
}

func TestSend_inFlightToADyingProcHasUnknownFate_DEL1(t *testing.T) {
	srv := bustest.Server(t)
	a, s := start(t, srv, "left", mailers()), newStranger(t, srv)
	from, back := newMailer(t, a)
	require.Zero(t, sendMany(t, from, 100, s.ref(a), nil))
	s.packet(t)
	a.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: s.id.Mesh.String(),
		Reason: "struck by lightning"})
	known := 0
	for _, r := range requireDeadLetters(t, 100, from, back) {
		require.ErrorIs(t, r.Reason, actor.ErrProcDead)
		require.ErrorContains(t, r.Reason, "struck by lightning")
		require.NotNil(t, r.Reason.Event)
		if r.Reason.Undeliverable() {
			known++
		}
	}
	require.Less(t, known, 100, "sent messages may have arrived")
}

func TestDeadProcs_deathAppliesAfterEarlierMessages_DEL5(t *testing.T) {
	const n = 300
	srv := bustest.Server(t)
	a, b, s := start(t, srv, "left"), start(t, srv, "right"), newStranger(t, srv)
	ref := spawn(t, a)
	require.NoError(t, a.Members().FollowMesh(s.id.Mesh, 1))
	hear := deafen(t, a, b)
	for i := range uint64(n) {
		s.send(t, ref.ID().Port("add"), senderOf(s.id), message(i+1, i, 1))
	}
	require.NoError(t, s.Data().Flush(testkit.Soon(t)))
	s.publishEnd(t, s.id, "killed by signal 9")
	require.NoError(t, s.Control().Flush(testkit.Soon(t)))
	done := make(chan struct{})
	a.Bus().Control().AfterReceived(func() { close(done) })
	testkit.Next(t, done) // the event is here
	_, dead := a.Members().Down(s.id)
	require.False(t, dead)
	hear()
	testkit.Until(t, "it is known", func() bool { _, dead := a.Members().Down(s.id); return dead })
	got, err := add.Call(testkit.Soon(t), ref, 0)
	require.NoError(t, err)
	require.EqualValues(t, n, got)
	require.Zero(t, a.Stats().Fenced)
	s.send(t, ref.ID().Port("add"), senderOf(s.id), message(n+1, n, 1))
	testkit.Until(t, "what comes after is not", func() bool { return a.Stats().Fenced == 1 })
}

func TestSend_missingActorsReturnEachMessageInOrder(t *testing.T) {
	a, b := mailerProcs(t)
	from, back := newMailer(t, a)
	_, err := mail.Call(t.Context(), from, func(ctx *actor.Context) error {
		for i := range 300 {
			if err := add.Send(ctx, actor.RefOf[*Box](b.ID().Actor(fmt.Sprint("x", i))), 1); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	for i, r := range requireDeadLetters(t, 300, from, back) {
		require.ErrorIs(t, r.Reason, actor.ErrNoActor)
		require.Equal(t, b.ID().Actor(fmt.Sprint("x", i)).String(), r.Reason.Actor, "in the order they were sent")
	}
}
