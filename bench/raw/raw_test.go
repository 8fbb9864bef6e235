package raw_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/raw"
	"github.com/castnet-io/castnet/bench/server"
)

func TestRaw_countsMessagesAndAnswersRequests(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	l := raw.Library(server.Options{Token: "secret"})
	r, err := l.Receive(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close(ctx)) }()
	s, err := l.Send(ctx, r.Address())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close(ctx)) }()
	for range 3 {
		require.NoError(t, s.Tell(ctx, []byte("hello")))
	}
	require.NoError(t, s.Flush(ctx))
	require.Eventually(t, func() bool {
		n, err := s.Count(ctx)
		return err == nil && n == 3
	}, 10*time.Second, time.Millisecond)
	answer, err := s.Ask(ctx, []byte("what?"))
	require.NoError(t, err)
	require.Equal(t, "what?", string(answer))
}

func TestRaw_countEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := server.Open(ctx, server.Options{Token: "secret"})
	require.NoError(t, err)
	defer s.Close()
	lone, err := raw.Library(server.Options{URL: s.URL(), Token: "secret"}).Send(ctx, s.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, lone.Close(ctx)) }()
	short, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	_, err = lone.Count(short)
	require.Error(t, err)
	require.NoError(t, ctx.Err())
}
