package main

import (
	"context"
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

// startServer starts a server that asks the service about every client but the service. The
// configuration is that of doc.go.
func startServer(t *testing.T, issuer string) *embed.Server {
	t.Helper()
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var conf strings.Builder
	for _, begin := range []string{"accounts {", "authorization {"} {
		_, rest, found := strings.Cut(string(source), "//\t"+begin)
		require.True(t, found, begin)
		line, _, _ := strings.Cut(rest, "\n")
		conf.WriteString(begin + line + "\n")
	}
	require.Contains(t, conf.String(), "issuer: A…")
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "port: -1\njetstream { store_dir: %q }\n%s", t.TempDir(),
		strings.Replace(conf.String(), "A…", issuer, 1)), 0o600))
	t.Setenv("AUTH_PASSWORD", "secret")
	server, err := embed.Start(testkit.Soon(t), embed.Options{ConfigFile: file})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	return server
}

// start runs the command with a file of users, until the test ends.
func start(t *testing.T, server *embed.Server, issuer nkeys.KeyPair, text string) {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users.txt")
	require.NoError(t, os.WriteFile(users, []byte(text), 0o600))
	seed, err := issuer.Seed()
	require.NoError(t, err)
	for name, value := range map[string]string{
		"NATS_URL": server.URL(), "NATS_USER": "auth", "NATS_PASSWORD": "secret", "HOME": t.TempDir(),
	} {
		t.Setenv(name, value)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, users, string(seed)) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, testkit.Next(t, ended))
	})
}

func TestCallout_grantsWhatPrincipalsMay(t *testing.T) {
	issuer, err := nkeys.CreateAccount()
	require.NoError(t, err)
	public, err := issuer.PublicKey()
	require.NoError(t, err)
	server := startServer(t, public)
	open := func(name, password string) (*bus.Bus, error) {
		b, err := bus.Open(testkit.Soon(t), bus.Options{URL: server.URL(), User: name, Password: password,
			InboxPrefix: "_INBOX." + name, ConnectTimeout: testkit.Patience})
		if err == nil {
			testkit.Close(t, b.Close)
		}
		return b, err
	}
	start(t, server, issuer, "u-alice wonder\n\nc-carol song\n")
	var alice *bus.Bus
	testkit.Until(t, "the service answers", func() bool {
		alice, err = open("u-alice", "wonder")
		return err == nil
	})
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
