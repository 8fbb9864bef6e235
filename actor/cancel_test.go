package actor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"

	"github.com/castnet-io/castnet/internal/testkit"
)

// context2 is a bounded context of the test, with its cancel.
func context2(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(testkit.Soon(t))
	t.Cleanup(cancel)
	return ctx, cancel
}

func TestCancel_callersContextEndsRemoteHandlers(t *testing.T) {
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	for i := range 3 {
		ctx, cancel := context2(t)
		asked := make(chan error, 1)
		go func() { asked <- second(linger.Call(ctx, ref, i)) }()
		require.Equal(t, i, testkit.Next(t, book.began))
		cancel()
		err := testkit.Next(t, asked)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, asError(t, err).Indeterminate())
		require.ErrorIs(t, testkit.Next(t, book.ended), context.Canceled)
	}
	require.NoError(t, second(enter.Call(testkit.Soon(t), ref, entry{By: "me"})), "the actor lives")
}

func TestCancel_deadlineEndsCallerAndHandler(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	defer book.shut()() // its answer comes too late
	var err error
	// On a busy machine the message may expire before its turn, and this may become known too late.
	for limit := 100 * time.Millisecond; len(book.began) == 0; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err = linger.Call(ctx, ref, 1)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.ErrorIs(t, err, actor.ErrDeadline)
	require.Error(t, testkit.Next(t, book.ended))
}

func TestCancel_queuedCallIsNotHandled(t *testing.T) {
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	open := book.shut()
	defer open()
	require.NoError(t, enter.Send(t.Context(), ref, entry{By: "me"}))
	ctx, cancel := context2(t)
	asked := make(chan error, 3)
	for range cap(asked) {
		go func() { asked <- second(enter.Call(ctx, ref, entry{By: "nobody"})) }()
	}
	testkit.Until(t, "all wait", func() bool { return queued(b, ref.ID().Name) == cap(asked) })
	require.NoError(t, enter.Send(t.Context(), ref, entry{By: "me", N: 1}))
	cancel()
	for range cap(asked) {
		require.ErrorIs(t, testkit.Next(t, asked), context.Canceled)
	}
	fateFunc(t, a, b)
	open()
	require.NoError(t, second(enter.Call(testkit.Soon(t), ref, entry{By: "me", N: 2})))
	book.inOrder(t)
	require.Equal(t, 3, book.count(), "and those that follow are")
}

// fateFunc waits until b has taken the messages of a so far, those on the control connection too.
func fateFunc(t *testing.T, a, b *actor.Proc) {
	t.Helper()
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.NoError(t, a.Bus().Control().Flush(testkit.Soon(t)))
	done := make(chan struct{})
	b.Bus().Control().AfterReceived(func() { close(done) })
	testkit.Next(t, done)
}

func TestCancel_deferredHandlerLearnsOfTheCancel(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	for _, end := range []func(context.CancelFunc){
		func(cancel context.CancelFunc) { cancel() },
		func(context.CancelFunc) {
			b.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: a.ID().Mesh.String()})
		},
	} {
		ctx, cancel := context2(t)
		asked := make(chan error, 1)
		go func() { asked <- second(later.Call(ctx, ref, 1)) }()
		testkit.Next(t, book.began)
		end(cancel)
		_ = testkit.Next(t, book.ended)
		cancel()
		requireGivenUp(t, testkit.Next(t, asked))
	}
}

// requireGivenUp requires the error of a cancelled call, or of one whose receiver had refused the
// next packet of a process that it takes for dead.
func requireGivenUp(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		require.ErrorContains(t, err, "known to be dead here")
	}
}

func TestCancel_deadCallerProcEndsItsCalls(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	ctx, cancel := context2(t)
	const waiting = 20
	asked := make(chan error, 1+waiting)
	go func() { asked <- second(linger.Call(ctx, ref, 1)) }()
	testkit.Next(t, book.began)
	for range waiting {
		go func() { asked <- second(enter.Call(ctx, ref, entry{By: "nobody"})) }()
	}
	testkit.Until(t, "they wait", func() bool { return queued(b, ref.ID().Name) == waiting })
	b.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: a.ID().Mesh.String()})
	require.ErrorIs(t, testkit.Next(t, book.ended), context.Canceled)
	require.NoError(t, second(enter.Call(testkit.Soon(t), ref.Via(b), entry{By: "me"})))
	require.Equal(t, 1, book.count(), "no waiting message was handled")
	cancel()
	for range cap(asked) {
		requireGivenUp(t, testkit.Next(t, asked))
	}
}
