package bus_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen starts a server on a loopback port and stops it with the test.
func listen(t testing.TB, o embed.Options) *embed.Server {
	t.Helper()
	srv, err := embed.Start(testkit.Soon(t), o)
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	return srv
}

// listenAt starts a server behind an address.
func listenAt(t testing.TB, at *bustest.Address, o embed.Options) *embed.Server {
	t.Helper()
	srv := listen(t, o)
	at.Serve(srv)
	return srv
}

// open connects and closes with the test.
func open(t testing.TB, o bus.Options) *bus.Bus {
	t.Helper()
	b, err := bus.Open(testkit.Soon(t), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		require.NoError(t, b.Close(ctx))
	})
	return b
}

// states returns an OnState and its received states.
func states() (func(bus.State), <-chan bus.State) {
	ch := make(chan bus.State, 1024)
	return func(s bus.State) { ch <- s }, ch
}

// awaitState returns the next state of the given connection and kind.
func awaitState(t testing.TB, ch <-chan bus.State, name bus.ConnName, kind bus.StateKind) bus.State {
	t.Helper()
	for {
		if s := testkit.Next(t, ch); s.Conn == name && s.Kind == kind {
			return s
		}
	}
}

// config writes a configuration file of nats-server.
func config(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// restricted limits alice to subjects below "open", and an inbox.
const restricted = `authorization { users = [{
  user: alice, password: secret
  permissions { publish: ["open.>"], subscribe: ["open.>", "_INBOX.>"] }
}] }`
