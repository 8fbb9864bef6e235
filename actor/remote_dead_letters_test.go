package actor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"

	"github.com/castnet-io/castnet/internal/testkit"
)

func TestKill_returnsMailToRemoteSenders_DEL5(t *testing.T) {
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	open := book.shut()
	defer open()
	from, back := newMailer(t, a)
	_, err := mail.Call(t.Context(), from, func(ctx *actor.Context) error {
		for i := range 100 {
			verb := enter.Send
			if i%2 == 1 {
				verb = enter.SendWait
			}
			if err := verb(ctx, ref, entry{By: "mailer", N: i}); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, a.Flush(testkit.Soon(t)))
	testkit.Until(t, "one is at its handler", func() bool { return queued(b, ref.ID().Name) == 99 })
	require.Zero(t, a.Stats().Bounced, "they were delivered")
	b.KillActor(ref.ID().Name, "now")
	for _, r := range requireDeadLetters(t, 99, from, back) {
		require.Equal(t, "actor_test.entry", r.Type)
		require.Equal(t, from.ID(), r.From)
		require.Nil(t, r.Message, "it left the process")
		require.EqualError(t, r.Reason, ref.ID().String()+": enter: the actor failed: killed: now")
		require.ErrorIs(t, r.Reason, actor.ErrFailed)
		require.True(t, r.Reason.Undeliverable())
	}
	require.EqualValues(t, 99, a.Stats().Bounced)
	require.EqualValues(t, 99, b.Stats().Undeliverable)
	open()
	testkit.Until(t, "the first was handled", func() bool { return book.count() == 1 })
}

func TestStop_handlesAcceptedRemoteMessages_DEL5(t *testing.T) {
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	open := book.shut()
	defer open()
	for i := range 100 {
		require.NoError(t, enter.Send(t.Context(), ref, entry{By: "me", N: i}))
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	ended := b.StopActor(ref.ID().Name, "enough")
	require.NoError(t, enter.Send(t.Context(), ref, entry{By: "me", N: 100}))
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.EqualValues(t, 1, a.Stats().Bounced)
	require.ErrorIs(t, a.DeadLetters()[0].Reason, actor.ErrStopped)
	open()
	testkit.Next(t, ended)
	require.Equal(t, 100, book.count())
	book.inOrder(t)
}

func TestClose_handlesOrReturnsAcceptedRemoteMessages_DEL5(t *testing.T) {
	t.Parallel()
	const n = 500
	a, b := pair(t)
	ref, book := newLedger(t, b, a)
	for i := range n {
		require.NoError(t, enter.SendWait(t.Context(), ref, entry{By: "me", N: i}))
	}
	require.NoError(t, b.Close(testkit.Soon(t)))
	require.NoError(t, a.Flush(testkit.Soon(t)))
	testkit.Until(t, "each is accounted for", func() bool { return book.count()+int(a.Stats().Bounced) == n })
	book.inOrder(t)
	_, err := enter.Call(testkit.Soon(t), ref, entry{By: "me", N: n})
	require.ErrorIs(t, err, actor.ErrNoProc)
}
