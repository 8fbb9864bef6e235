package integration

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testpage"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// documented is the documented configuration of a server with permissions, with a store of the
// test.
func documented(t *testing.T) string {
	t.Helper()
	blocks := testpage.Read(t, "../docs/external-nats.md").Blocks
	at := slices.IndexFunc(blocks, func(b testpage.Block) bool { return strings.Contains(b.Text, "authorization {") })
	require.NotEqual(t, -1, at)
	conf := strings.NewReplacer("port: 4333", "port: -1", "/var/lib/nats", t.TempDir(),
		"$PROGRAM_PASSWORD", "program", "$CALLER_PASSWORD", "caller", "$HOSTD_PASSWORD", "hostd").Replace(blocks[at].Text)
	path := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(path, []byte(conf), 0o600))
	return path
}

func TestPermissions_documentedOnesSuffice(t *testing.T) {
	skipIfListened(t, "no user of that server may hear everything")
	t.Parallel()
	c := onServer(t, embed.Options{ConfigFile: documented(t)})
	c.user = "hostd"
	conn, err := mesh.Connect(t.Context(), mesh.Options{Bus: &bus.Options{
		URL: c.server.URL(), User: "program", Password: "program", ConnectTimeout: testkit.Patience,
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	a := c.startNode(t, "a")
	first := c.startNode(t, "s1", "--system")
	a.ready(t)
	first.ready(t)
	_, err = conn.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	env := slices.DeleteFunc(c.environment(t), func(e string) bool {
		return strings.HasPrefix(e, "NATS_USER=") || strings.HasPrefix(e, "NATS_PASSWORD=")
	})
	s := shell{T: t, env: append(env, "NATS_USER=program", "NATS_PASSWORD=program")}
	require.Eventually(t, func() bool {
		_, err := conn.Detached(t.Context())
		return err == nil
	}, testkit.Patience, poll, first.Said())
	second := c.startNode(t, "s2", "--system")
	world := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(world,
		[]byte("name: train\nshape: x=2\nper-host: 1\ncommand: builtin\n"), 0o600))
	client := program("castnet")
	s.run(client, "apply", "-f", world)
	s.run(client, "spawn", "demo", "--hosts", "a", "--detach")

	require.Equal(t, "1\n", s.run(client, "cast", "demo", "counter", "add", "1", "--reduce", "sum"))
	s.worksAsAProgram(t, client)
	ownsAMesh(t, conn)
	castsWith(t, bus.Options{URL: c.server.URL(), User: "caller", Password: "caller"}, subjects.Anon().String())

	first.kill(t)
	awaitNextOwner(t, conn, "the other hostd owns it")
	require.Contains(t, s.run(client, "worlds"), "train", "it was read again")
	require.Equal(t, "2\n", s.run(client, "cast", "demo", "counter", "add", "1", "--reduce", "sum"))
	s.run(client, "stop", "demo")
	s.run(client, "delete", "train")
	for _, n := range []*node{a, first, second} {
		require.NotContains(t, n.Said(), "permission denied")
	}
}

// worksAsAProgram runs commands beside the mesh demo. None may fail, or be denied a subject.
func (s shell) worksAsAProgram(t *testing.T, client string) {
	t.Helper()
	for _, args := range []string{
		"doctor", "hosts", "procs", "meshes", "actors demo", "mesh show demo", "explain demo", "events", "top",
		"logs demo", "worlds",
		"call demo[host=0] counter get", "cast demo counter get", "spawn more --hosts a --per-host 2 --detach",
		"mesh restart more --force", "stop more",
	} {
		out, errs, err := s.answered(client, strings.Fields(args)...)
		require.NoError(t, err, "client %s: %s%s", args, out, errs)
		require.NotRegexp(t, "permission denied|no permission|may not (publish|subscribe)", out+errs,
			"client %s", args)
	}
}

// ownsAMesh spawns, casts and stops, as a program does.
func ownsAMesh(t *testing.T, conn *mesh.Net) {
	t.Helper()
	hosts, err := conn.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	procs, err := hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "own", PerHost: shape.Of("gpu", 2), Command: mesh.Command{Path: agent.Builtin},
	})
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs,
		actor.NewType[*builtinCounter, int64]("counter"), "counter", 0)
	require.NoError(t, err)
	add := actor.NewEndpoint[*builtinCounter, int64, int64]("add")
	sum, err := cast.Reduce(t.Context(), counters, add, 2, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 2*procs.Extent().NumRanks(), sum)
	require.NoError(t, procs.Stop(t.Context()))
}
