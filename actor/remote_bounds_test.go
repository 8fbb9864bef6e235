package actor_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestMailbox_fullRemoteMailboxReturnsMessages_DEL6(t *testing.T) {
	const rounds, each = 10, 500 // an actor is told of as many as a mailbox holds
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	book.gaps = true
	open := book.shut()
	defer open()
	var back, wrong atomic.Int64
	from, err := actor.Spawn(t.Context(), a, mailer, "mailer", func(_ *actor.Context, r actor.DeadLetter) error {
		back.Add(1)
		if !errors.Is(r.Reason, actor.ErrMailboxFull) || !r.Reason.Undeliverable() || r.Reason.Indeterminate() ||
			r.Type != "actor_test.entry" || r.Reason.Actor != ref.ID().String() || r.Reason.Endpoint != "enter" {
			wrong.Add(1)
		}
		return nil
	})
	require.NoError(t, err)
	for round := range rounds {
		_, err = mail.Call(t.Context(), from, func(ctx *actor.Context) error {
			for i := range each {
				if err := enter.Send(ctx, ref, entry{By: "mailer", N: round*each + i}); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, a.Flush(testkit.Soon(t)))
		testkit.Until(t, "the sender is told", func() bool { return back.Load() == int64(a.Stats().Bounced) })
	}
	waits := queued(b, ref.ID().Name)
	require.GreaterOrEqual(t, waits, 1024)
	require.LessOrEqual(t, waits, 2*1024, "and those it has taken up")
	bounced := back.Load()
	open()
	testkit.Until(t, "those are handled", func() bool { return book.count() == rounds*each-int(bounced) })
	require.NoError(t, second(enter.Call(testkit.Soon(t), ref, entry{By: "me"})))
	book.inOrder(t)
	require.Zero(t, wrong.Load())
	require.EqualValues(t, bounced, a.Stats().Bounced, "once each")
	require.EqualValues(t, bounced, b.Stats().Undeliverable)
	require.Equal(t, rounds*each+1, book.count()+int(bounced))
}

func TestErrTooLarge_appliesAbove64MiB(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	ref, _ := newLedger(t, b, a)
	err := enter.Send(t.Context(), ref, entry{Pad: make([]byte, 64<<20)})
	require.ErrorIs(t, err, actor.ErrTooLarge)
	require.True(t, asError(t, err).Undeliverable())
	require.ErrorContains(t, err, "want at most 67108864")
}

func TestErrTooLarge_appliesToEveryVerb(t *testing.T) {
	const most = 1 << 20
	a, b := limited(t, most)
	ref, book := newLedger(t, b, a)
	for _, err := range []error{
		enter.Send(t.Context(), ref, entry{Pad: make([]byte, most)}),
		enter.SendWait(t.Context(), ref, entry{Pad: make([]byte, most)}),
		second(enter.Call(t.Context(), ref, entry{Pad: make([]byte, most)})),
	} {
		require.ErrorIs(t, err, actor.ErrTooLarge)
	}
	require.NoError(t, enter.Send(t.Context(), ref, entry{By: "me", Pad: make([]byte, most-100)}))
	require.NoError(t, enter.SendWait(t.Context(), ref, entry{By: "me", N: 1, Pad: make([]byte, most-100)}))
	require.NoError(t, second(enter.Call(testkit.Soon(t), ref,
		entry{By: "me", N: 2, Pad: make([]byte, most-100)})))
	require.Equal(t, 3, book.count())
	book.inOrder(t)
	_, err := big.Call(testkit.Soon(t), spawn(t, b).Via(a), most)
	require.ErrorIs(t, err, actor.ErrTooLarge, "an answer, too")
	require.True(t, asError(t, err).Ran)
	require.False(t, asError(t, err).Undeliverable())
}

func TestErrBacklog_reportsAProcThatDoesNotRead(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	hear := deafen(t, b, a)
	const size = 100_000
	n, err := 0, error(nil)
	for ; err == nil; n++ {
		require.Less(t, n, 300, "there is a bound")
		err = enter.Send(t.Context(), ref, entry{By: "me", N: n, Pad: make([]byte, size)})
	}
	n-- // the last did not go
	require.ErrorIs(t, err, actor.ErrBacklog)
	require.True(t, asError(t, err).Undeliverable())
	require.Greater(t, n, 8<<20/size-1)
	asked := make(chan error, 1)
	go func() {
		asked <- second(enter.Call(testkit.Soon(t), ref, entry{By: "me", N: n, Pad: make([]byte, size)}))
	}()
	testkit.Until(t, "it waits", func() bool { return calls(a) == 1 })
	require.Empty(t, asked)
	hear()
	require.NoError(t, testkit.Next(t, asked), "Call waits for room")
	require.Equal(t, n+1, book.count())
	book.inOrder(t)
	require.Zero(t, a.Stats().Bounced)
}

// calls counts the waiting calls of a proc.
func calls(p *actor.Proc) int {
	_, n := p.Waiting()
	return n
}
