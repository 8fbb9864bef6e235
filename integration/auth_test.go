package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// scoped is a cluster whose hosts and people have credentials of castnet auth.
type scoped struct {
	*cluster
	keys string
}

// auth runs a command of castnet auth.
func auth(t *testing.T, keys string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program("castnet"), append([]string{"auth"}, args...)...)
	cmd.Env = append(testkit.Environment(keys, keys, keys), "XDG_CONFIG_HOME="+keys)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	require.NoError(t, err, "castnet auth %s: %s", args, errors.String())
	return string(out)
}

// withKeys starts a server that trusts the authority in keys.
func withKeys(t *testing.T, conf string) *cluster {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	return onServer(t, embed.Options{ConfigFile: file})
}

// as returns the environment of a person's commands.
func (s *scoped) as(t *testing.T, name string) []string {
	t.Helper()
	return append(testkit.Environment(t.TempDir(), t.TempDir(), t.TempDir()), "NATS_URL="+s.server.URL(),
		"NATS_CREDS="+filepath.Join(s.keys, name+".creds"))
}

func TestAuth_scopedKeysSufficeForEachRole(t *testing.T) {
	skipIfListened(t, "no user of that server may hear everything")
	t.Parallel()
	keys := t.TempDir()
	file := func(name string) string { return filepath.Join(keys, name) }
	auth(t, keys, "init")
	for _, host := range []string{"a", "s1", "s2"} {
		args := []string{"host", "add", host, "--out", file(host + ".key")}
		if host != "a" {
			args = append(args, "--system")
		}
		auth(t, keys, args...)
	}
	for name, role := range map[string]string{"alice": "program", "bob": "operator", "carol": "caster", "dave": "observer"} {
		auth(t, keys, "mint", "--role", role, name, "--out", file(name+".creds"))
	}
	s := scoped{withKeys(t, auth(t, keys, "conf", "--listen", "127.0.0.1:-1", "--data", t.TempDir())), keys}
	start := func(label string, more ...string) *node {
		return s.startNode(t, label, append(more, "--auth-key", file(label+".key"))...)
	}
	conn, err := mesh.Connect(t.Context(), mesh.Options{Bus: &bus.Options{
		URL: s.server.URL(), Creds: file("alice.creds"), ConnectTimeout: testkit.Patience,
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	require.Equal(t, "u-alice", conn.Proc().Sender().Principal().String())
	a, first := start("a"), start("s1")
	a.ready(t)
	first.ready(t)
	_, err = conn.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	bob := shell{T: t, env: s.as(t, "bob")}
	require.Eventually(t, func() bool {
		_, err := conn.Detached(t.Context())
		return err == nil
	}, testkit.Patience, poll, first.Said())
	second := start("s2")
	world := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(world,
		[]byte("name: train\nshape: x=2\nper-host: 1\ncommand: builtin\n"), 0o600))
	client := program("castnet")
	bob.run(client, "apply", "-f", world)
	bob.run(client, "spawn", "demo", "--hosts", "a", "--detach")
	require.Equal(t, "1\n", bob.run(client, "cast", "demo", "counter", "add", "1", "--reduce", "sum"))
	bob.worksAsAProgram(t, client)
	bob.run(client, "hosts", "cordon", "a", "--reason", "test")
	bob.run(client, "hosts", "uncordon", "a")
	ownsAMesh(t, conn)
	castsWith(t, bus.Options{URL: s.server.URL(), Creds: file("carol.creds"), InboxPrefix: "_INBOX.c-carol"}, "c-carol.x")
	dave := shell{T: t, env: s.as(t, "dave")}
	for _, args := range []string{"hosts", "procs", "meshes", "explain demo", "logs demo"} {
		require.NotContains(t, dave.run(client, strings.Fields(args)...), "permission denied")
	}

	first.kill(t)
	awaitNextOwner(t, conn, "the other hostd owns it")
	require.Equal(t, "2\n", bob.run(client, "cast", "demo", "counter", "add", "1", "--reduce", "sum"))
	bob.run(client, "stop", "demo")
	bob.run(client, "delete", "train")
	for _, n := range []*node{a, first, second} {
		require.NotContains(t, n.Said(), "permission denied")
	}
}

// castsWith casts to the mesh demo through a gateway.
func castsWith(t *testing.T, o bus.Options, sender string) {
	t.Helper()
	from, err := subjects.ParseSender(sender)
	require.NoError(t, err)
	o.ConnectTimeout = testkit.Patience
	b, err := bus.Open(t.Context(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(context.Background())) }()
	m, err := b.Data().Request(t.Context(),
		bus.Msg{Subject: subjects.Space{}.Gateway("demo", "counter", "get", from)})
	require.NoError(t, err)
	require.Equal(t, "[1]", string(m.Data))
}
