package integration

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/mesh"
)

// documented is the configuration of a server with permissions that the documentation has, with a store of the test.
func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/external-nats.md")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(text), "## 4. Permissions")
	_, after, _ = strings.Cut(after, "```\n")
	conf, _, found := strings.Cut(after, "```\n")
	require.True(t, found)
	conf = strings.NewReplacer("port: 4333", "port: -1", "/var/lib/nats", t.TempDir()).Replace(conf)
	path := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(path, []byte(conf), 0o600))
	return path
}

func TestPermissions_thoseOfTheDocumentationAreEnoughForAllThatASystemControllerDoes(t *testing.T) {
	t.Setenv("PROGRAM_PASSWORD", "program")
	t.Setenv("HOSTD_PASSWORD", "hostd")
	noneLeft(t)
	server, err := embed.Start(t.Context(), embed.Options{ConfigFile: documented(t)})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	c := &cluster{server: server, user: "hostd"}
	net, err := mesh.Connect(t.Context(), mesh.Options{Bus: &bus.Options{URL: server.URL(), User: "program", Password: "program"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, net.Close(context.Background())) })
	a := c.startNode(t, "a")
	first := c.startNode(t, "s1", "--system")
	_, err = net.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	env := slices.DeleteFunc(c.environment(t), func(e string) bool {
		return strings.HasPrefix(e, "NATS_USER=") || strings.HasPrefix(e, "NATS_PASSWORD=")
	})
	s := shell{T: t, env: append(env, "NATS_USER=program", "NATS_PASSWORD=program")}
	require.Eventually(t, func() bool {
		_, err := net.Detached(t.Context())
		return err == nil
	}, patience, poll, first.said)
	second := c.startNode(t, "s2", "--system")
	world := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(world, []byte("name: train\nshape: x=2\nper-host: 1\ncommand: builtin\n"), 0o600))
	client := program("client")
	s.run(client, "apply", "-f", world)
	s.run(client, "spawn", "demo", "--hosts", "a", "--detach")

	first.kill(t)
	require.Eventually(t, func() bool {
		d, ok := detached(t, net)
		return ok && d.Claim.Epoch == 3
	}, patience, poll, second.said)
	require.Contains(t, s.run(client, "worlds"), "train", "it was read again")
	require.Equal(t, "1\n", s.run(client, "cast", "demo", "counter", "add", "1", "--reduce", "sum"))
	s.run(client, "stop", "demo")
	s.run(client, "delete", "train")
	for _, n := range []*node{a, first, second} {
		require.NotContains(t, n.said.String(), "permission denied")
	}
}
