package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// startServer starts a server that asks the service about every client but the service.
func startServer(t *testing.T, issuer string) *embed.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `port: -1
accounts { AUTH: { users: [{ user: auth, password: secret }] }, CASTNET: { } }
authorization { auth_callout { issuer: %s, account: AUTH, auth_users: [auth] } }
`, issuer), 0o600))
	server, err := embed.Start(testkit.Soon(t), embed.Options{ConfigFile: file})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	return server
}

func TestCallout_grantsWhatPrincipalsMay(t *testing.T) {
	s := &service{}
	var err error
	s.issuer, err = nkeys.CreateAccount()
	require.NoError(t, err)
	public, err := s.issuer.PublicKey()
	require.NoError(t, err)
	s.users, err = readUsers(strings.NewReader("u-alice wonder\n\nc-carol song\n"))
	require.NoError(t, err)
	server := startServer(t, public)
	open := func(name, password string) (*bus.Bus, error) {
		b, err := bus.Open(testkit.Soon(t), bus.Options{URL: server.URL(), User: name, Password: password,
			InboxPrefix: "_INBOX." + name})
		if err == nil {
			testkit.Close(t, b.Close)
		}
		return b, err
	}
	of, err := open("auth", "secret")
	require.NoError(t, err)
	require.NoError(t, s.serve(of.Data()))

	alice, err := open("u-alice", "wonder")
	require.NoError(t, err)
	for filter, allowed := range map[string]bool{
		"castnet.v1.default.ev.>": true, "_INBOX.u-alice.x": true, "_INBOX.c-carol.x": false, ">": false, "$SYS.>": false,
	} {
		_, err := alice.Data().Subscribe(filter, func(bus.Msg) {})
		require.Equal(t, allowed, err == nil, "%s: %v", filter, err)
	}
	carol, err := open("c-carol", "song")
	require.NoError(t, err)
	denied := make(chan error, 1)
	defer carol.Watch(func(st bus.State) {
		if st.Kind == bus.Denied {
			denied <- st.Err
		}
	})()
	from, err := subjects.ParseSender("u-alice.x")
	require.NoError(t, err)
	require.NoError(t, carol.Data().Publish(subjects.Space{}.Gateway("m", "a", "e", from), nil))
	require.ErrorContains(t, testkit.Next(t, denied), "no permission to publish")
	for name, password := range map[string]string{
		"u-alice": "wrong", "u-mallory": "wonder", "*": "", "u->": "x", "alice": "wonder", "": "",
	} {
		_, err := open(name, password)
		require.Error(t, err, name)
	}
}

func TestReadUsers_namesTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"u-a x\nu-b\n": "line 2: want a principal and a password", "* x": `line 1: principal "*": want`,
	} {
		_, err := readUsers(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
}
