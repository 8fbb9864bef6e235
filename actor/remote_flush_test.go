package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestFlush_returnsWhenMailboxesHoldAllMessages(t *testing.T) {
	const n = 500
	srv := bustest.Server(t)
	a, b, c := start(t, srv, "left"), start(t, srv, "right"), start(t, srv, "third")
	refs := map[*actor.Proc]actor.Ref[*Box]{b: spawn(t, b), c: spawn(t, c)}
	for _, ref := range refs {
		defer blocked(t, ref)()
		for range n {
			require.NoError(t, add.Send(t.Context(), ref.Via(a), 1))
		}
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	for p, ref := range refs {
		require.Equal(t, n, queued(p, ref.ID().Name))
	}
}

func TestFlush_returnsAfterDeadLettersArrive(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	nobody := newHost(t, "nobody").Proc()
	for range 100 {
		require.NoError(t, add.Send(t.Context(), actor.RefOf[*Box](b.ID().Actor("nobody")).Via(a), 1))
		require.NoError(t, add.Send(t.Context(), actor.RefOf[*Box](nobody.Actor("x")).Via(a), 1))
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.EqualValues(t, 200, a.Stats().Bounced)
}

func TestFlush_waitsForTheReceiver(t *testing.T) {
	a, b := two(t)
	ref := spawn(t, b)
	hear := deafen(t, b, a)
	require.NoError(t, add.Send(t.Context(), ref.Via(a), 1))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Flush(ctx), context.DeadlineExceeded)
	flushed := make(chan error, 1)
	go func() { flushed <- a.Flush(testkit.Soon(t)) }()
	require.Empty(t, flushed)
	hear()
	require.NoError(t, testkit.Next(t, flushed))
	n, err := add.Call(t.Context(), ref, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

func TestFlush_ignoresMessagesOfOtherSenders(t *testing.T) {
	srv := bustest.Server(t)
	a, b, c := start(t, srv, "left"), start(t, srv, "right"), start(t, srv, "third")
	rb, rc := spawn(t, b), spawn(t, c)
	deafen(t, b, c) // what c sent to b is c's to wait for
	require.NoError(t, add.Send(t.Context(), rb.Via(c), 1))
	require.NoError(t, add.Send(t.Context(), rc.Via(a), 1))
	require.NoError(t, a.Flush(testkit.Soon(t)))
}

func TestFlush_endsWhenItsProcCloses(t *testing.T) {
	srv := bustest.Server(t)
	a, b := start(t, srv, "left"), start(t, srv, "right")
	ref := spawn(t, b)
	deafen(t, b, a)
	require.NoError(t, add.Send(t.Context(), ref.Via(a), 1))
	flushed := make(chan error, 1)
	go func() { flushed <- a.Flush(testkit.Soon(t)) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.NoError(t, a.Close(ctx))
	_ = testkit.Next(t, flushed) // its message has the fate that it cannot be known
	require.EqualValues(t, 1, a.Stats().Bounced-1, "the message, and the blocker of b")
}
