package ours_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/ours"
	"github.com/castnet-io/castnet/bench/remote"
	"github.com/castnet-io/castnet/bench/server"
)

// ends are a receiver with a server of its own, and its sender.
func ends(t *testing.T) (context.Context, remote.Sender) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	l := ours.Remote(server.Options{Token: "secret"})
	r, err := l.Receive(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close(ctx)) })
	s, err := l.Send(ctx, r.Address())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(ctx)) })
	return ctx, s
}

func TestRemote_answersRequests(t *testing.T) {
	ctx, s := ends(t)
	answer, err := s.Ask(ctx, []byte("what?"))
	require.NoError(t, err)
	require.Equal(t, "what?", string(answer))
}

// There are ten times as many messages as a mailbox holds.
func TestRemote_countsEveryMessageOfABurst(t *testing.T) {
	const burst = 10_000
	ctx, s := ends(t)
	for range burst {
		require.NoError(t, s.Tell(ctx, []byte("hello")))
	}
	require.NoError(t, s.Flush(ctx))
	n, err := s.Count(ctx)
	require.NoError(t, err)
	require.Equal(t, burst, n)
}

func TestRemote_refusesAnInvalidAddress(t *testing.T) {
	_, err := ours.Remote(server.Options{}).Send(t.Context(), "nats://127.0.0.1:1")
	require.ErrorContains(t, err, `address "nats://127.0.0.1:1": `)
}
