package mesh_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// options describe hosts on the cluster's server.
func (c *cluster) options(t *testing.T) host.Options {
	t.Helper()
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)
	return host.Options{
		Label: "h", Bus: c.Bus(), Settings: c.Settings(), AllowUser: true, Log: log, RunDir: t.TempDir(),
	}
}

// here describes hosts in this process, with their procs.
func (c *cluster) here(t *testing.T) host.LocalHosts {
	t.Helper()
	o := c.options(t)
	registry, err := actor.NewRegistry(defs()...)
	require.NoError(t, err)
	o.Local = &host.Local{Registry: registry}
	return host.LocalHosts(o)
}

// flavours are the ways to get hosts.
func flavours(t *testing.T, c *cluster) map[string]func(t *testing.T) mesh.Allocator {
	return map[string]func(t *testing.T) mesh.Allocator{
		"in this process":          func(t *testing.T) mesh.Allocator { return c.here(t) },
		"here, procs as processes": func(t *testing.T) mesh.Allocator { return host.LocalHosts(c.options(t)) },
		"as processes":             func(t *testing.T) mesh.Allocator { return host.ProcessHosts(c.options(t)) },
		"in the procs of a mesh": func(t *testing.T) mesh.Allocator {
			below, err := c.Allocate(t.Context(), c.here(t), "below", shape.Of("host", 1))
			require.NoError(t, err)
			procs, err := below.Spawn(t.Context(), "carriers", shape.Of("slot", 2))
			require.NoError(t, err)
			return mesh.OnProcs(procs, host.HostActorType, host.HostActorParams{Label: "t", AllowUser: true},
				host.HostActorID)
		},
	}
}

// silence fails the test if anything more comes within a second.
func silence[T any](t *testing.T, port *actor.Port[T]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	v, err := port.Recv(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing more: %v", v)
}

// Meaning of test_proc_mesh_allocate, test_spawn_actor, test_failing_spawn_actor and test_allocate.
// The hosts come from each allocator. Meshes on them have the right shape, casts reach each actor
// once, and each actor reaches each. The error of a failed spawn names its actor.
func TestAllocate_everyAllocatorYieldsAWholeMesh(t *testing.T) {
	t.Parallel()
	for flavour := range flavours(t, nil) {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.Net = c.hasty(t)
			hosts, err := c.Allocate(t.Context(), flavours(t, c)[flavour](t), "hosts", shape.Of("replicas", 2))
			require.NoError(t, err)
			require.Equal(t, "replicas=2", hosts.Extent().String())
			one, err := hosts.Spawn(t.Context(), "test_1", shape.Unit())
			require.NoError(t, err)
			require.Equal(t, "replicas=2", one.Extent().String())
			two, err := hosts.Spawn(t.Context(), "test_2", shape.Of("gpus", 3).With("extra", 2))
			require.NoError(t, err)
			require.Equal(t, "replicas=2,gpus=3,extra=2", two.Extent().String())
			require.Equal(t, 12, two.Extent().NumRanks())

			var refs []actor.Ref[actortest.TestActor]
			var meshes []mesh.ActorMesh[actortest.TestActor]
			for _, procs := range []mesh.ProcMesh{one, two} {
				actors, err := mesh.Spawn(t.Context(), procs, actortest.TestActors, "test", actor.None{})
				require.NoError(t, err)
				n := procs.Extent().NumRanks()
				ids, err := cast.Gather(t.Context(), actors, actortest.GetActorID, actor.None{})
				require.NoError(t, err)
				for rank := range n {
					id, ok := ids.At(rank)
					require.True(t, ok)
					require.Equal(t, actors.Ref(rank).ID(), id)
					refs = append(refs, actors.Ref(rank))
				}
				half, err := cast.Gather(t.Context(), actors.Slice("replicas", 0, 1), actortest.GetActorID, actor.None{})
				require.NoError(t, err)
				require.Equal(t, ids.Values()[:n/2], half.Values())
				meshes = append(meshes, actors)
			}
			requireOnce(t, meshes)
			requireConnected(t, c.Net, refs)
			for _, procs := range []mesh.ProcMesh{one, two} {
				alive, err := procs.Ping(t.Context())
				require.NoError(t, err)
				require.NotContains(t, alive.Values(), false)
				_, err = mesh.Spawn(t.Context(), procs, actortest.FailingCreates, "failing", actor.None{})
				var failed *mesh.SpawnError
				require.ErrorAs(t, err, &failed)
				require.Len(t, failed.Failed, procs.Extent().NumRanks())
				require.Contains(t, failed.Failed[0].Status.Reason, "test failure")
			}
			states, err := two.States(t.Context())
			require.NoError(t, err)
			for _, s := range states.Values() {
				require.Equal(t, agent.Running, s.Status.Phase)
			}
			require.NoError(t, hosts.Shutdown(t.Context(), "done"))
			require.NoError(t, hosts.Shutdown(t.Context(), "again"), "a second shutdown succeeds")
			_, err = hosts.Describe(t.Context())
			var gone *mesh.HostsError
			require.ErrorAs(t, err, &gone)
			require.Len(t, gone.Failed, 2)
		})
	}
}

// requireOnce fails when an actor was asked by one of two casts, to all and to the first half, more
// than once, at once or within a second.
func requireOnce(t *testing.T, meshes []mesh.ActorMesh[actortest.TestActor]) {
	t.Helper()
	time.Sleep(time.Second) // what comes twice comes after what was waited for
	for _, actors := range meshes {
		states, err := actors.States(t.Context())
		require.NoError(t, err)
		for rank, s := range states.Values() {
			want := 1
			if rank < states.Len()/2 {
				want = 2
			}
			require.EqualValues(t, want, s.Actor.Handled, "rank %d", rank)
		}
	}
}

// requireConnected makes each actor send to each, and back to the test, by the requested kind of
// message.
func requireConnected(t *testing.T, conn *mesh.Net, refs []actor.Ref[actortest.TestActor]) {
	t.Helper()
	port := actor.OpenPort[actortest.Route](conn.Proc())
	defer port.Close()
	way := func(refs []actor.Ref[actortest.TestActor]) (text string) {
		for _, r := range refs {
			text += r.ID().String() + " "
		}
		return text
	}
	ways := map[string]bool{}
	for _, a := range refs {
		for _, b := range refs {
			if a.ID() != b.ID() {
				pair := []actor.Ref[actortest.TestActor]{a, b}
				require.NoError(t, actortest.Forward.Send(t.Context(), a,
					actortest.Route{ToVisit: pair, Home: port.Ref()}))
				ways[way(pair)] = true
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range len(refs) * (len(refs) - 1) {
		r, err := port.Recv(ctx)
		require.NoError(t, err)
		require.True(t, ways[way(r.Visited)], "each way once: %s", way(r.Visited))
		delete(ways, way(r.Visited))
	}
	require.Empty(t, ways)
	silence(t, port)
}

func TestAllocate_returnsUnsuitableHosts(t *testing.T) { // MESH-8
	t.Parallel()
	c := newCluster(t, "a")
	hosts := c.AllHosts(t, c.Net)
	_, err := c.Allocate(t.Context(), mesh.StaticHosts(hosts.Hosts()), "hosts", shape.Of("host", 2))
	require.ErrorContains(t, err, "1 hosts in the list: want 2 for host=2")
	_, err = c.Allocate(t.Context(), c.here(t), "hosts", shape.Of("host", 0))
	require.ErrorContains(t, err, "want at least 1")
	missing, err := subjects.NewHostID("nobody")
	require.NoError(t, err)
	_, err = c.Allocate(t.Context(), mesh.StaticHosts{hosts.Hosts()[0], missing}, "hosts", shape.Of("host", 2))
	require.ErrorContains(t, err, missing.String(), "the one that does not answer is named")
	listed, err := c.Allocate(t.Context(), mesh.StaticHosts(hosts.Hosts()), "hosts", shape.Of("host", 1))
	require.NoError(t, err)
	require.Equal(t, hosts.Hosts(), listed.Hosts())
}

func TestAllocate_failedHostLeavesNone(t *testing.T) { // MESH-8
	t.Parallel()
	c := newCluster(t, "h2") // whose label the third one is to have
	for name, a := range map[string]mesh.Allocator{"here": c.here(t),
		"processes": host.ProcessHosts(c.options(t))} {
		_, err := c.Allocate(t.Context(), a, "hosts", shape.Of("host", 3))
		require.ErrorContains(t, err, `"h2" is taken`, name)
		hosts, err := c.Hosts(t.Context())
		require.NoError(t, err)
		require.Len(t, hosts.Hosts(), 1, name)
	}
}

// stubborn is a list of hosts with a first Close that fails.
type stubborn struct {
	mesh.StaticHosts
	closed int
}

func (s *stubborn) Allocate(ctx context.Context, e shape.Extent) (mesh.Allocation, error) {
	return s, nil
}

func (s *stubborn) Close(context.Context) error {
	if s.closed++; s.closed == 1 {
		return errors.New("not now")
	}
	return nil
}

func TestShutdown_canBeRepeatedAfterAPartialOne_MESH5(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Net = c.Connect(t, operator)
	started, err := c.here(t).Allocate(t.Context(), shape.Of("host", 1))
	require.NoError(t, err)
	s := &stubborn{StaticHosts: started.Hosts()}
	hosts, err := c.Allocate(t.Context(), s, "hosts", shape.Of("host", 1))
	require.NoError(t, err)
	require.ErrorContains(t, hosts.Shutdown(t.Context(), "done"), "not now")
	require.NoError(t, hosts.Shutdown(t.Context(), "again"))
	require.Equal(t, 2, s.closed, "the failed close was repeated")
	require.NoError(t, hosts.Shutdown(t.Context(), "and again"))
	require.Equal(t, 2, s.closed)
	require.NoError(t, started.Close(t.Context()))
}

func TestAttach_namesHostsThatDoNotAnswer(t *testing.T) { // MESH-8
	t.Parallel()
	c := newCluster(t, "a", "b")
	ids := c.AllHosts(t, c.Net).Hosts()
	h, err := c.Attach(t.Context(), "pair", ids...)
	require.NoError(t, err)
	require.Equal(t, "a", h.Infos()[0].Label)
	require.NotZero(t, h.Infos()[0].PID)
	missing, err := subjects.NewHostID("nobody")
	require.NoError(t, err)
	_, err = c.Attach(t.Context(), "three", append(slices.Clone(ids), missing)...)
	var failed *mesh.HostsError
	require.ErrorAs(t, err, &failed)
	require.Len(t, failed.Failed, 1)
	require.Equal(t, missing, failed.Failed[0].Host)
	require.ErrorIs(t, err, actor.ErrNoProc)
	_, err = c.Attach(t.Context(), "twice", ids[0], ids[0])
	require.ErrorContains(t, err, "is listed twice")
	agents, err := c.FromAgents("agents", agent.Of(ids[0].Proc()), agent.Of(ids[1].Proc()))
	require.NoError(t, err)
	require.Equal(t, ids, agents.Hosts())
	_, err = c.FromAgents("agents", actor.RefOf[agent.Agent](ids[0].Proc().Actor("other")))
	require.ErrorContains(t, err, "want the agent of a host")
}

func TestTake_onlyTheOwnerShutsDownAHost(t *testing.T) { // HOST-9
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.Net = c.Connect(t, operator)
	other := c.Connect(t, operator)
	h := c.AllHosts(t, c.Net)
	require.NoError(t, h.Slice("host", 0, 1).Take(t.Context()))
	others, err := other.Attach(t.Context(), "hosts", h.Hosts()...)
	require.NoError(t, err)
	require.Equal(t, c.Proc().ID().Process().String(), others.Infos()[0].Owner)
	err = others.Take(t.Context())
	var refused *mesh.HostsError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Failed, 1, "the owned host is named")
	require.Equal(t, h.Hosts()[0], refused.Failed[0].Host)
	require.ErrorContains(t, err, "is owned by")
	infos, err := others.Describe(t.Context())
	require.NoError(t, err)
	require.Empty(t, infos[1].Owner, "the other one was let go")
	_, err = others.Drain(t.Context(), mesh.DrainOptions{Reason: "mine"})
	require.ErrorContains(t, err, "take it first")
	require.ErrorContains(t, others.Slice("host", 0, 1).Shutdown(t.Context(), "mine"), "take it first")
	_, err = h.Drain(t.Context(), mesh.DrainOptions{Reason: "repair"})
	require.NoError(t, err)
	require.NoError(t, others.TakeOver(t.Context()))
	_, err = others.Drain(t.Context(), mesh.DrainOptions{Reason: "mine"})
	require.NoError(t, err)
	require.ErrorContains(t, h.Release(t.Context()), "is owned by")
	require.NoError(t, others.Release(t.Context()))
	require.NoError(t, others.Take(t.Context()), "hosts without an owner")
	require.NoError(t, other.Close(t.Context()))
	require.NoError(t, h.Take(t.Context()), "the former owner has closed its Net")
}
