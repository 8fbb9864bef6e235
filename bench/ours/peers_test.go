package ours_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/ours"
	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/bus/ticket"
)

func TestPeers_takeTurnsWithAndWithoutPermissions(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	token := ticket.NewToken()
	srv, err := embed.Start(ctx, embed.Options{Token: token, Tickets: true, Log: server.Log()})
	require.NoError(t, err)
	defer srv.Shutdown()
	for _, users := range []ours.Users{ours.Permitted, ours.Unbounded} {
		l := ours.Peers(server.Options{URL: srv.URL(), Token: token}, 3, users)
		r, err := l.Receive(ctx)
		require.NoError(t, err)
		s, err := l.Send(ctx, r.Address())
		require.NoError(t, err)
		const told = 30
		for range told {
			require.NoError(t, s.Tell(ctx, []byte("hello")))
			answer, err := s.Ask(ctx, []byte("what?"))
			require.NoError(t, err)
			require.Equal(t, "what?", string(answer))
		}
		require.NoError(t, s.Flush(ctx))
		n, err := s.Count(ctx)
		require.NoError(t, err)
		require.Equal(t, told, n)
		require.NoError(t, s.Close(ctx))
		require.NoError(t, r.Close(ctx))
	}
}

func TestPeers_refuseAnInvalidAddress(t *testing.T) {
	for _, address := range []string{"", "nats://127.0.0.1:1"} {
		_, err := ours.Peers(server.Options{}, 1, ours.Unbounded).Send(t.Context(), address)
		require.ErrorContains(t, err, "want a URL and IDs of actors")
	}
}
