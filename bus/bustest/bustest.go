package bustest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
)

// patience bounds the start and the end of a test's Bus. The server is in the same process, so only a
// busy machine delays them.
const patience = 30 * time.Second

// Server starts a server that does not listen. It shuts down with the test.
func Server(t testing.TB, change ...func(*embed.Options)) *embed.Server {
	t.Helper()
	o := embed.Options{DontListen: true}
	for _, f := range change {
		f(&o)
	}
	srv, err := embed.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	return srv
}

// Open connects a Bus to srv and closes it when the test ends.
func Open(t testing.TB, srv *embed.Server, change ...func(*bus.Options)) *bus.Bus {
	t.Helper()
	o := bus.Options{Server: srv, Name: t.Name()}
	for _, f := range change {
		f(&o)
	}
	b, err := bus.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		// The test's own context is done by now.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, b.Close(ctx))
	})
	return b
}
