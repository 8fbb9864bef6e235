package auth_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is an authority with a server that trusts it.
type site struct {
	t      testing.TB
	dir    string
	server *embed.Server
}

// newSite makes an authority. The server starts with those that change makes.
func newSite(t testing.TB, change func(*auth.Authority)) *site {
	t.Helper()
	s := &site{t: t, dir: filepath.Join(t.TempDir(), "auth")}
	require.NoError(t, auth.Init(s.dir, subjects.Space{}))
	s.update(change)
	a, err := auth.Read(s.dir)
	require.NoError(t, err)
	text, err := a.Conf(auth.Server{Listen: "127.0.0.1:-1", Data: t.TempDir()})
	require.NoError(t, err)
	s.server = serve(t, text)
	return s
}

// serve starts a server with a configuration.
func serve(t testing.TB, conf string) *embed.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	server, err := embed.Start(testkit.Soon(t), embed.Options{ConfigFile: file})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	return server
}

// update changes the authority.
func (s *site) update(change func(*auth.Authority)) {
	s.t.Helper()
	require.NoError(s.t, auth.Update(s.dir, func(a *auth.Authority) error {
		change(a)
		return nil
	}))
}

// push changes the authority, and reports it to the server.
func (s *site) push(change func(*auth.Authority)) {
	s.t.Helper()
	s.update(change)
	a, err := auth.Read(s.dir)
	require.NoError(s.t, err)
	require.NoError(s.t, auth.Push(testkit.Soon(s.t), a, bus.Options{URL: s.server.URL(),
		ConnectTimeout: testkit.Patience}))
}

// open connects to the server.
func (s *site) open(o bus.Options) *bus.Bus {
	s.t.Helper()
	b, err := s.tryOpen(o)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = b.Close(testkit.Soon(s.t)) })
	return b
}

func (s *site) tryOpen(o bus.Options) (*bus.Bus, error) {
	o.URL, o.ConnectTimeout = s.server.URL(), testkit.Patience
	return bus.Open(testkit.Soon(s.t), o)
}

// mint makes a credentials file for a person.
func (s *site) mint(role subjects.Role, label string, life time.Duration) (path string) {
	s.t.Helper()
	s.update(func(a *auth.Authority) {
		creds, _, err := a.Mint(role, label, life)
		require.NoError(s.t, err)
		path = s.write(label+".creds", creds)
	})
	return path
}

// write writes a private file.
func (s *site) write(name string, data []byte) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), name)
	require.NoError(s.t, auth.WritePrivate(path, data))
	return path
}
