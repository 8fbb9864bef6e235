package mesh_test

import (
	"context"
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
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// options describe hosts on the cluster's server.
func (c *cluster) options(t *testing.T) host.Options {
	t.Helper()
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)
	return host.Options{
		Label: "h", Bus: c.Bus(), Settings: agent.BusSettings{URL: c.server.URL(), Token: "secret"}, AllowUser: true, Log: log, Dir: t.TempDir(),
	}
}

// here describes hosts in this process whose procs are here, too.
func (c *cluster) here(t *testing.T) host.Here {
	t.Helper()
	o := c.options(t)
	registry, err := actor.NewRegistry(defs()...)
	require.NoError(t, err)
	o.Local = &host.Local{Registry: registry}
	return host.Here(o)
}

// flavours are the ways to get hosts.
func flavours(t *testing.T, c *cluster) map[string]func(t *testing.T) mesh.Allocator {
	return map[string]func(t *testing.T) mesh.Allocator{
		"in this process":          func(t *testing.T) mesh.Allocator { return c.here(t) },
		"here, procs as processes": func(t *testing.T) mesh.Allocator { return host.Here(c.options(t)) },
		"as processes":             func(t *testing.T) mesh.Allocator { return host.Processes(c.options(t)) },
		"in the procs of a mesh": func(t *testing.T) mesh.Allocator {
			below, err := c.Allocate(t.Context(), c.here(t), "below", shape.Of("host", 1))
			require.NoError(t, err)
			procs, err := below.Spawn(t.Context(), "carriers", shape.Of("slot", 4))
			require.NoError(t, err)
			return mesh.OnProcs(procs, host.InProcType, host.InProc{Label: "t", AllowUser: true}, host.InProcID)
		},
	}
}

// silence fails the test when something more comes within a second.
func silence[T any](t *testing.T, port *actor.Port[T]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	v, err := port.Recv(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing more: %v", v)
}

// Meaning of test_allocate: whichever way the hosts come, meshes on them have the right shape, casts reach
// each actor once, and each actor reaches each.
func TestAllocate_meshesOnHostsOfEveryFlavourAreWhole(t *testing.T) {
	for flavour := range flavours(t, nil) {
		t.Run(flavour, func(t *testing.T) {
			c := newCluster(t)
			hosts, err := c.Allocate(t.Context(), flavours(t, c)[flavour](t), "hosts", shape.Of("replicas", 4))
			require.NoError(t, err)
			require.Equal(t, "replicas=4", hosts.Extent().String())
			one, err := hosts.Spawn(t.Context(), "test_1", shape.Unit())
			require.NoError(t, err)
			require.Equal(t, "replicas=4", one.Extent().String())
			two, err := hosts.Spawn(t.Context(), "test_2", shape.Of("gpus", 3).With("extra", 2))
			require.NoError(t, err)
			require.Equal(t, "replicas=4,gpus=3,extra=2", two.Extent().String())
			require.Equal(t, 24, two.Extent().NumRanks())

			var refs []actor.Ref[actortest.TestActor]
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
				half, err := cast.Gather(t.Context(), actors.Slice("replicas", 0, 2), actortest.GetActorID, actor.None{})
				require.NoError(t, err)
				require.Equal(t, ids.Values()[:n/2], half.Values())
			}
			requireConnected(t, c.Net, refs)
			states, err := two.States(t.Context())
			require.NoError(t, err)
			for _, s := range states.Values() {
				require.Equal(t, agent.Running, s.Status.Phase)
			}
			require.NoError(t, hosts.Shutdown(t.Context(), "done"))
			require.NoError(t, hosts.Shutdown(t.Context(), "again"), "what is gone is gone")
			_, err = hosts.Describe(t.Context())
			var gone *mesh.AttachError
			require.ErrorAs(t, err, &gone)
			require.Len(t, gone.Failed, 4)
		})
	}
}

// requireConnected has each actor send to each, and back to the test: the way taken is the way asked for.
func requireConnected(t *testing.T, net *mesh.Net, refs []actor.Ref[actortest.TestActor]) {
	t.Helper()
	port := actor.OpenPort[actortest.Route](net.Proc())
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
				require.NoError(t, actortest.Forward.Post(t.Context(), a, actortest.Route{ToVisit: pair, Home: port.Ref()}))
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

func TestAllocate_givesBackWhatItGotWhenItIsNotWhatWasAsked(t *testing.T) {
	c := newCluster(t, "a")
	hosts := c.hosts(t, c.Net)
	_, err := c.Allocate(t.Context(), mesh.List(hosts.Hosts()), "hosts", shape.Of("host", 2))
	require.ErrorContains(t, err, "1 hosts in the list are too few for host=2")
	_, err = c.Allocate(t.Context(), c.here(t), "hosts", shape.Of("host", 0))
	require.ErrorContains(t, err, "want at least 1")
	missing, err := subjects.NewHostID("nobody")
	require.NoError(t, err)
	_, err = c.Allocate(t.Context(), mesh.List{hosts.Hosts()[0], missing}, "hosts", shape.Of("host", 2))
	require.ErrorContains(t, err, missing.String(), "the one that does not answer is named")
	listed, err := c.Allocate(t.Context(), mesh.List(hosts.Hosts()), "hosts", shape.Of("host", 1))
	require.NoError(t, err)
	require.Equal(t, hosts.Hosts(), listed.Hosts())
}

func TestAttach_failsClosedAndNamesWhoDoesNotAnswer(t *testing.T) {
	c := newCluster(t, "a", "b")
	ids := c.hosts(t, c.Net).Hosts()
	h, err := c.Attach(t.Context(), "pair", ids...)
	require.NoError(t, err)
	require.Equal(t, "a", h.Infos()[0].Label)
	require.NotZero(t, h.Infos()[0].PID)
	missing, err := subjects.NewHostID("nobody")
	require.NoError(t, err)
	_, err = c.Attach(t.Context(), "three", append(slices.Clone(ids), missing)...)
	var failed *mesh.AttachError
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

func TestTaking_onlyTheOwnerOfAHostEndsAllOfIt(t *testing.T) {
	c := newCluster(t, "a")
	other := c.connect(t)
	h := c.hosts(t, c.Net)
	_, err := agent.Take.Call(t.Context(), agent.Of(h.Hosts()[0].Proc()).Via(c.Proc()), agent.Taking{})
	require.NoError(t, err)
	others, err := other.Attach(t.Context(), "hosts", h.Hosts()...)
	require.NoError(t, err)
	require.Equal(t, c.Proc().ID().Process().String(), others.Infos()[0].Owner)
	_, err = agent.Take.Call(t.Context(), agent.Of(h.Hosts()[0].Proc()).Via(other.Proc()), agent.Taking{})
	require.ErrorContains(t, err, "is owned by")
	_, err = others.Drain(t.Context(), "mine", 0)
	require.ErrorContains(t, err, "take it first")
	require.ErrorContains(t, others.Shutdown(t.Context(), "mine"), "take it first")
	_, err = h.Drain(t.Context(), "repair", 0)
	require.NoError(t, err)
	_, err = agent.Take.Call(t.Context(), agent.Of(h.Hosts()[0].Proc()).Via(other.Proc()), agent.Taking{Force: true})
	require.NoError(t, err)
	_, err = others.Drain(t.Context(), "mine", 0)
	require.NoError(t, err)
}
