package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testmesh"
)

// The commands of docs/security.md run them against a hostd.
func TestAuth_makesKeysForHostdsOwnServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	start := func(change func(*embed.Options)) *cluster {
		c := &cluster{Cluster: testmesh.Start(t, testmesh.Server(change))}
		c.env = append(baseEnv(dir), "NATS_URL="+c.Server.URL(), "NATS_TOKEN="+c.Server.Token())
		return c
	}
	token := ticket.NewToken()
	c := start(func(o *embed.Options) { o.Tickets, o.Token = true, token })
	file := filepath.Join(dir, "bob.key")
	r := c.client(t, "auth", "mint", "--role", "observer", "bob", "--for", "1h", "--out", file)
	require.Equal(t, cli.ExitOK, r.code, r.err)
	require.Regexp(t, `^key [A-Z2-7]{26} of w-bob, until 20.*: use it with --token-file\n$`, r.err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	given, err := ticket.NewMaster(token).Verify(strings.TrimSpace(string(text)), time.Now())
	require.NoError(t, err)
	require.Equal(t, "w-bob", given.User.String())
	require.WithinDuration(t, time.Now().Add(time.Hour), given.Expires, time.Minute)
	for role, args := range map[string][]string{"h-b": {"host", "add", "b"}, "s-b": {"host", "add", "b", "--system"}} {
		r = c.client(t, append([]string{"auth"}, args...)...)
		require.Equal(t, cli.ExitOK, r.code, r.err)
		given, err = ticket.NewMaster(token).Verify(strings.TrimSpace(r.out), time.Now())
		require.NoError(t, err)
		require.Equal(t, role, given.User.String())
		require.Zero(t, given.Expires)
	}

	plain := start(func(*embed.Options) {})
	for want, r := range map[string]result{
		"want 1 to 32 characters":          c.client(t, "auth", "mint", "--role", "program", "a.b"),
		"for hosts, castnet auth host add": c.client(t, "auth", "mint", "--role", "host", "b"),
		"a key makes no other keys":        c.client(t, "--token-file", file, "auth", "host", "add", "b"),
		"want the file of a key":           c.client(t, "auth", "revoke", "lost.key"),
		"there is no authority":            c.client(t, "auth", "ls"),
		"is no hostd's own server":         plain.client(t, "auth", "mint", "--role", "observer", "bob"),
		"and no hostd's own server: bus: ": c.client(t, "-s", "nats://127.0.0.1:1", "auth", "host", "add", "b"),
	} {
		require.NotEqual(t, cli.ExitOK, r.code)
		require.Contains(t, r.err, want)
		require.NotContains(t, r.err+r.out, token)
	}
}
