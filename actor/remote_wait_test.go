package actor_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestSendWait_losesNothingToASlowRemoteActor(t *testing.T) {
	t.Parallel()
	const n = 100_000
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	for i := range n {
		require.NoError(t, enter.SendWait(t.Context(), ref, entry{By: "me", N: i}))
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	testkit.Until(t, "all are handled", func() bool { return book.count() == n })
	book.inOrder(t)
	require.Zero(t, a.Stats().Bounced)
}

// held is a pair that has credit for 64 KiB of messages that wait.
func held(t *testing.T) (a, b *actor.Proc) {
	t.Helper()
	a, b = pair(t)
	a.LimitWaits(64 << 10)
	return a, b
}

// padded is a message too large for the room that another padded one leaves.
func padded(n int) entry { return entry{By: "me", N: n, Pad: make([]byte, 100)} }

// filled sends to a shut Ledger until there is no room, and counts the waiting messages. The first
// one is handled alone: the Ledger would take up all that came before it.
func filled(t *testing.T, ref actor.Ref[*Ledger], book *pages) (n int) {
	t.Helper()
	for ; ; n++ {
		if n == 1 {
			testkit.Until(t, "it handles the first one", book.isHeld)
		}
		// A deadline would bound the delivery, too.
		ctx, cancel := context.WithCancel(t.Context())
		full := time.AfterFunc(200*time.Millisecond, cancel)
		err := enter.SendWait(ctx, ref, padded(n))
		full.Stop()
		cancel()
		if err != nil {
			require.ErrorIs(t, err, actor.ErrBacklog)
			require.True(t, asError(t, err).Undeliverable())
			return n
		}
		require.Less(t, n, 1_000, "its sender is held back")
	}
}

func TestSendWait_blocksOnlyItsSender(t *testing.T) { // DEL-6
	t.Parallel()
	a, b := held(t)
	ref, book := newLedger(t, b, a)
	open := book.shut()
	defer open()
	n := filled(t, ref, book)
	require.Greater(t, n, 100)
	// one is at its handler
	testkit.Until(t, "all have come", func() bool { return queued(b, ref.ID().Name) == n-1 })
	other := spawn(t, b).Via(a)
	for range 100 {
		_, err := add.Call(testkit.Soon(t), other, 1)
		require.NoError(t, err)
		require.NoError(t, add.Send(testkit.Soon(t), other, 1))
	}
	waited := make(chan error, 1)
	go func() { waited <- enter.SendWait(testkit.Soon(t), ref, padded(n)) }()
	open()
	require.NoError(t, testkit.Next(t, waited))
	_, err := enter.Call(testkit.Soon(t), ref, entry{By: "me", N: n + 1})
	require.NoError(t, err)
	book.inOrder(t)
	require.Equal(t, n+2, book.count())
}

func TestSendWait_entersAFullMailbox(t *testing.T) {
	t.Parallel()
	a, b := held(t)
	ref, book := newLedger(t, b, a, actor.Mailbox(2))
	open := book.shut()
	defer open()
	require.NoError(t, enter.SendWait(testkit.Soon(t), ref, padded(0)))
	// and takes no more
	testkit.Until(t, "it is at its first",
		func() bool { i, _ := b.Actor(ref.ID().Name); return i.Current != "" })
	n := filled(t, ref, book)
	require.Greater(t, n, 10)
	require.Zero(t, a.Stats().Bounced)
	for i := range 3 {
		require.NoError(t, enter.Send(t.Context(), ref, entry{By: "me", N: n + i}))
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.EqualValues(t, 1, a.Stats().Bounced, "Send does not wait: two have room, and one finds it full")
	require.ErrorIs(t, a.DeadLetters()[0].Reason, actor.ErrMailboxFull)
}

func TestSendWait_leavesRoomForOthers_DEL6(t *testing.T) {
	t.Parallel()
	a, b := held(t)
	ref, book := newLedger(t, b, a, actor.Mailbox(2))
	open := book.shut()
	defer open()
	n := filled(t, ref, book)
	testkit.Until(t, "all have come", func() bool { return queued(b, ref.ID().Name) == n-1 })
	called := make(chan error, 1)
	go func() {
		_, err := enter.Call(testkit.Soon(t), ref, entry{By: "other"})
		called <- err
	}()
	testkit.Until(t, "the call waits", func() bool { return queued(b, ref.ID().Name) == n })
	open()
	require.NoError(t, testkit.Next(t, called))
	book.inOrder(t)
}

func TestSendWait_endsWithItsContextAndNamesTheReceiver(t *testing.T) {
	t.Parallel()
	a, b := held(t)
	ref, book := newLedger(t, b, a)
	open := book.shut()
	n := filled(t, ref, book)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- enter.SendWait(ctx, ref, padded(-1)) }()
	cancel()
	require.ErrorIs(t, testkit.Next(t, waited), actor.ErrBacklog)
	open()
	require.NoError(t, a.Flush(testkit.Soon(t)))
	testkit.Until(t, "all are handled", func() bool { return book.count() == n })
	book.inOrder(t)
}

func TestSendWait_endsWhenTheProcDiesOrCloses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(t *testing.T, a, b *actor.Proc)
		want error
	}{
		"the receiver's dies": {func(_ *testing.T, a, b *actor.Proc) {
			a.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: b.ID().Mesh.String(),
				Reason: "struck"})
		}, actor.ErrProcDead},
		"the sender's closes": {func(t *testing.T, a, _ *actor.Proc) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			require.NoError(t, a.Close(ctx))
		}, actor.ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := held(t)
			ref, book := newLedger(t, b, a)
			defer book.shut()()
			n := filled(t, ref, book)
			waited := make(chan error, 10)
			for range cap(waited) {
				go func() { waited <- enter.SendWait(testkit.Soon(t), ref, padded(n)) }()
			}
			c.end(t, a, b)
			for range cap(waited) {
				require.ErrorIs(t, testkit.Next(t, waited), c.want)
			}
		})
	}
}

func TestSendWait_oneRequestEndsTheWaitOfAllIfTheProcIsGone(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	a, right := start(t, srv, "left", ledgers(), mailers()), bustest.Open(t, srv)
	a.LimitWaits(64 << 10)
	ref, book := newLedger(t, startOn(t, right, newHost(t, "right").Proc(), link.Config{}, ledgers()), a)
	defer book.shut()()
	large := entry{By: "me", Pad: make([]byte, 40<<10)} // more than half of the credit
	require.NoError(t, enter.SendWait(t.Context(), ref, large))
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.NoError(t, right.Close(t.Context()))
	require.NoError(t, enter.SendWait(t.Context(), ref, large), "it requests credit")
	waited := make(chan error, 10)
	for range cap(waited) {
		go func() { waited <- enter.SendWait(testkit.Soon(t), ref, large) }()
	}
	for range cap(waited) {
		err := testkit.Next(t, waited)
		require.ErrorIs(t, err, actor.ErrNoProc)
		require.ErrorContains(t, err, ref.ID().String()+": enter: no responders")
		require.True(t, asError(t, err).Undeliverable())
	}
	requests := a.Stats().Links.Undeliverable
	require.Less(t, requests, uint64(5), "no request of each sender")
	require.ErrorIs(t, enter.SendWait(testkit.Soon(t), ref, large), actor.ErrNoProc)
	require.Greater(t, a.Stats().Links.Undeliverable, requests, "a later sender makes a new request")
}

func TestSendWait_returnedMessagesFreeRoom(t *testing.T) {
	t.Parallel()
	a, b := held(t)
	ref, book := newLedger(t, b, a)
	defer book.shut()()
	n := filled(t, ref, book)
	second := newPages()
	other, err := actor.Spawn(t.Context(), b, ledger, "second", second)
	require.NoError(t, err)
	other = actor.RefOf[*Ledger](other.ID()).Via(a)
	for i := range 1_000 { // each time enough to use the credit up several times
		require.NoError(t, enter.SendWait(testkit.Soon(t), other, padded(i)), "the credit is the mailbox's")
	}
	b.KillActor(ref.ID().Name, "enough")
	for i := range 1_000 { // what is refused at once gives it back, too
		require.NoError(t, enter.SendWait(testkit.Soon(t), ref, padded(i)))
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	testkit.Until(t, "all came back", func() bool { return a.Stats().Bounced == uint64(n-1+1_000) })
	testkit.Until(t, "the others are handled", func() bool { return second.count() == 1_000 })
	second.inOrder(t)
}

func TestSendWait_creditHoldsOverSeveralLinks_DEL6(t *testing.T) {
	t.Parallel()
	a, b := held(t)
	ref, book := newLedger(t, b, a)
	open := book.shut()
	defer open()
	n := filled(t, ref, book)
	for range 5 {
		a.LinkOver(b.ID().Process(), math.MaxUint64) // the request for credit is lost, and repeated
		require.Zero(t, filled(t, ref, book))
	}
	waited := make(chan error, 1)
	go func() { waited <- enter.SendWait(testkit.Soon(t), ref, padded(n)) }()
	open()
	require.NoError(t, testkit.Next(t, waited))
	testkit.Until(t, "all are handled", func() bool { return book.count() == n+1 })
	book.inOrder(t)
}

func TestSendWait_endsWhenRequestsForCreditAreLostTwice(t *testing.T) {
	t.Parallel()
	a, b := held(t)
	ref, book := newLedger(t, b, a)
	defer book.shut()()
	n := filled(t, ref, book)
	waited := make(chan error, 1)
	go func() { waited <- enter.SendWait(testkit.Soon(t), ref, padded(n)) }()
	testkit.Until(t, "it ends", func() bool {
		a.LinkOver(b.ID().Process(), math.MaxUint64)
		return len(waited) > 0
	})
	require.ErrorIs(t, <-waited, actor.ErrLinkBroken)
	require.Zero(t, filled(t, ref, book), "the credit is still in use")
}

func TestSendWait_forgottenTargetsBeginWithARequest_DEL6(t *testing.T) {
	t.Parallel()
	a, b := held(t)
	ref, book := newLedger(t, b, a)
	defer book.shut()()
	for n := 0; ; n++ {
		require.Less(t, n, 1_000, "its sender is held back")
		a.ForgetTargets()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := enter.SendWait(ctx, ref, padded(n))
		cancel()
		if err != nil {
			require.ErrorIs(t, err, actor.ErrBacklog)
			return
		}
	}
}
