package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// listenerVariable adds a listener to every cluster of the tests: wildcard or stream (make
// listened).
const listenerVariable = "CASTNET_INTEGRATION_LISTENER"

// The listeners: a wildcard subscriber, a stream of all subjects, and another account with an
// import of everything. The stream acknowledges requests.
const (
	wildcard = "wildcard"
	stream   = "stream"
	mirror   = "mirror"
)

// mirrored has two accounts: castnet's, with the anonymous user, and the mirror's.
const mirrored = `
no_auth_user: castnet
accounts {
  CASTNET { jetstream: enabled, users: [{user: castnet, password: castnet}], exports: [{stream: "castnet.v1.>"}] }
  MIRROR { users: [{user: mirror, password: mirror}], imports: [{stream: {account: CASTNET, subject: "castnet.v1.>"}}] }
}`

// addListener adds a listener to all subjects of a cluster's bus.
func (c *cluster) addListener(t *testing.T, by string) {
	t.Helper()
	if by == "" {
		return
	}
	o := bus.Options{URL: c.server.URL(), Token: c.server.Token(), ConnectTimeout: testkit.Patience}
	if by == mirror {
		o.User, o.Password = mirror, mirror
	}
	b, err := bus.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
	switch by {
	case wildcard, mirror:
		_, err = b.Data().Subscribe(">", func(bus.Msg) {})
	case stream:
		config := `{"name":"audit","subjects":["castnet.v1.>"],"storage":"memory","max_msgs":1000}`
		_, err = b.Control().Request(t.Context(),
			bus.Msg{Subject: "$JS.API.STREAM.CREATE.audit", Data: []byte(config)})
	default:
		err = fmt.Errorf("%s=%s: want %s or %s", listenerVariable, by, wildcard, stream)
	}
	require.NoError(t, err)
}

// skipIfRecorded skips a test of plain NATS clients on a bus with a stream of their requests. The
// stream acknowledges a request before castnet answers, and these clients take the first reply for
// the answer (castnet doctor says so).
func skipIfRecorded(t *testing.T) {
	t.Helper()
	if os.Getenv(listenerVariable) == stream {
		t.Skip(
			"a stream acknowledges recorded requests, and a plain NATS client takes that for the answer")
	}
}

// skipIfListened skips a test of the server's own "no responders" reports.
func skipIfListened(t *testing.T, why string) {
	t.Helper()
	if os.Getenv(listenerVariable) != "" {
		t.Skip(why)
	}
}

// A wildcard subscriber keeps the server from reporting "no responders", and a stream acknowledges
// requests. Every verb gives the same result as without them.
func TestWildcardListener_breaksNoCommand(t *testing.T) {
	t.Parallel()
	for _, by := range []string{wildcard, stream, mirror} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			o := embed.Options{Token: token, JetStream: true}
			if by == mirror {
				path := filepath.Join(t.TempDir(), "nats.conf")
				require.NoError(t, os.WriteFile(path, []byte(mirrored), 0o600))
				o = embed.Options{ConfigFile: path, JetStream: true}
			}
			c := newClusterOn(t, o)
			if by == mirror {
				c.user = "castnet"
			}
			c.addListener(t, by)
			conn := c.connect(t)
			a, b := c.startNode(t, "a", "--system"), c.startNode(t, "b")
			a.ready(t)
			b.ready(t)
			hosts, err := conn.AwaitHosts(t.Context(), 2)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				_, err := system.Find(t.Context(), conn.Proc())
				return err == nil
			}, testkit.Patience, poll)
			s := shell{T: t, env: c.environment(t)}
			commandsWork(s)
			namesWork(t, c, conn, hosts)
			procs := castsWork(t, hosts)

			ownerDies(t, c, conn)

			victim := testmesh.PIDs(t, conn, procs.ID().String())[1]
			require.NoError(t, syscall.Kill(victim, syscall.SIGKILL))
			for e, err := range procs.Watch(testkit.Soon(t)) {
				require.NoError(t, err)
				require.True(t, e.Failed())
				require.Equal(t, 1, e.Rank)
				break
			}
			b.kill(t)
			ended := map[int]bool{1: true}
			for e, err := range procs.Watch(testkit.Soon(t)) {
				require.NoError(t, err)
				if ended[e.Rank] = true; len(ended) == 3 {
					break
				}
			}
			require.True(t, ended[2] && ended[3], "the ranks of the dead host: %v", ended)
			// a program without any knowledge of the host
			stranger, err := c.connect(t).HostsOf("dead", hosts.Hosts()[1])
			require.NoError(t, err)
			began := time.Now()
			require.ErrorAs(t, stranger.Take(t.Context()), new(*mesh.HostsError))
			require.NoError(t, stranger.Shutdown(t.Context(), "it is dead already"))
			require.Less(t, time.Since(began), 30*time.Second, "faster than any deadline: Take has 1 min")
			require.NoError(t, procs.Slice("host", 0, 1).Stop(t.Context()))
			left, err := conn.Hosts(t.Context())
			require.NoError(t, err)
			require.Equal(t, hosts.Hosts()[:1], left.Hosts())
		})
	}
}

// ownerDies kills the program with the mesh, and waits until every watcher of the mesh has the
// event.
func ownerDies(t *testing.T, c *cluster, conn *mesh.Net) {
	t.Helper()
	owner := c.start(t, "castnet", "spawn", "owned", "--per-host", "1")
	var owned mesh.ProcMesh
	require.Eventually(t, func() (found bool) {
		var err error
		owned, err = conn.Lookup(t.Context(), "owned")
		return err == nil && strings.Contains(owner.Said(), "is up")
	}, testkit.Patience, poll, owner.Said)
	over := make(chan error, 1)
	ctx := testkit.Soon(t)
	go func() {
		for _, err := range owned.Watch(ctx) {
			if err != nil {
				over <- err
				return
			}
		}
		over <- ctx.Err()
	}()
	owner.Send(t, syscall.SIGKILL)
	killed := time.Now()
	require.ErrorAs(t, <-over, new(*mesh.ControllerError))
	require.Less(t, time.Since(killed), 30*time.Second,
		"docs/delivery.md says 20 s, for an idle machine")
}

// commandsWork runs the commands of the client.
func commandsWork(s shell) {
	s.Helper()
	client := program("castnet")
	require.Equal(s, 3, len(strings.Split(strings.TrimSpace(s.run(client, "hosts")), "\n")), "two hosts")
	s.run(client, "spawn", "words", "--per-host", "gpu=2", "--detach")
	require.Contains(s, s.run(client, "meshes"), "words-")
	require.Equal(s, "0\n", s.run(client, "call", "words[host=0,gpu=0]", "counter", "get"))
	require.Contains(s, s.run(client, "cast", "words", "counter", "get", "--reduce", "sum"), "0")
	require.Contains(s, s.run(client, "doctor"), "warn  listeners")
	s.run(client, "stop", "words")
	world := filepath.Join(s.TempDir(), "world.yaml")
	require.NoError(s, os.WriteFile(world,
		[]byte("name: train\nshape: x=2\nper-host: 1\ncommand: builtin\n"), 0o600))
	s.run(client, "plan", "-f", world, "--timeout", testkit.Patience.String())
	s.run(client, "apply", "-f", world, "--timeout", testkit.Patience.String())
	require.Contains(s, s.run(client, "worlds"), "train")
	s.run(client, "delete", "train")
}

// namesWork takes a name.
func namesWork(t *testing.T, c *cluster, conn *mesh.Net, hosts mesh.HostMesh) {
	t.Helper()
	release, err := conn.TakeName(t.Context(), "alone")
	require.NoError(t, err)
	other := c.connect(t)
	_, err = other.TakeName(t.Context(), "alone")
	require.ErrorAs(t, err, new(*mesh.NameTakenError))
	release()
	named, err := hosts.SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "alone", PerHost: shape.Unit(), TakeName: true})
	require.NoError(t, err)
	_, err = other.TakeName(t.Context(), "alone")
	require.ErrorAs(t, err, new(*mesh.NameTakenError))
	found, err := other.Lookup(t.Context(), "alone")
	require.NoError(t, err)
	require.Equal(t, named.ID(), found.ID())
	require.NoError(t, named.Stop(t.Context()))
}

// castsWork spawns procs and actors, and casts to all.
func castsWork(t *testing.T, hosts mesh.HostMesh) mesh.ProcMesh {
	t.Helper()
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("proc", 2))
	require.NoError(t, err)
	actors, err := mesh.Spawn(t.Context(), procs, actortest.TestActors, "actors", actor.None{})
	require.NoError(t, err)
	require.Len(t, answersFrom(t, actors), 4)
	return procs
}
