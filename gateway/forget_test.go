package gateway

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

var get = actor.NewEndpoint[*probe, actor.None, int]("get")

// machine is a server, a host with procs of its own, its gateway, an owner of meshes, and a plain
// client, all in one bubble.
type machine struct {
	*testing.T
	*testmesh.Cluster
	host    *host.Host
	hosts   mesh.HostMesh
	gateway *Gateway
	client  *bus.Bus
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{T: t, Cluster: testmesh.Start(t, testmesh.InMemory())}
	registry, err := actor.NewRegistry(probeDef())
	require.NoError(t, err)
	m.host, _ = m.Host(t, "a", func(o *host.Options) {
		o.Local = &host.Local{Registry: registry, Open: func(ctx context.Context, name string) (*bus.Bus, error) {
			o := m.BusOptions(t)
			o.Name = name
			return bus.Open(ctx, o)
		}}
		o.Config = &config.Config{}
		// Each keeps some output.
		require.NoError(t, config.HostEndedHistory.Override(o.Config, 16))
	})
	o := m.BusOptions(t)
	m.gateway, err = Start(t.Context(), Options{Label: "a", Bus: &o})
	require.NoError(t, err)
	testkit.Close(t, m.gateway.Close)
	m.host.SetGateway(m.gateway.Announced)
	m.client = m.Open(t)
	m.hosts, err = m.Attach(t.Context(), "hosts", m.host.ID())
	require.NoError(t, err)
	return m
}

// spawn starts a mesh of two probes.
func (m *machine) spawn(name string) (mesh.ProcMesh, mesh.ActorMesh[*probe]) {
	m.Helper()
	procs, err := m.hosts.Spawn(m.T.Context(), name, shape.Of("gpu", 2))
	require.NoError(m, err)
	probes, err := mesh.Spawn(m.T.Context(), procs, probeType, "probe", actor.None{})
	require.NoError(m, err)
	return procs, probes
}

// workers bounds the idle goroutines that come and go in the procs of a machine.
const workers = 8

// usage is what remains when nothing happens.
type usage struct {
	subscriptions, peers, goroutines int
	heap                             int64
}

// settled waits for all that is forgotten after a time, and measures.
func (m *machine) settled(nets ...*mesh.Net) (u usage) {
	m.Helper()
	time.Sleep(2 * time.Minute)
	u.subscriptions, u.goroutines = int(m.Server.NumSubs()), runtime.NumGoroutine()
	procs := []*actor.Proc{m.host.Proc(), m.Proc()}
	for _, n := range nets {
		procs = append(procs, n.Proc())
	}
	for _, p := range procs {
		u.peers += len(p.Info().Peers)
	}
	runtime.GC()
	runtime.GC() // what the first one has finalized
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	u.heap = int64(s.HeapAlloc)
	return u
}

// inVirtualTime runs a test alone. Its gateway drains, so nats.go has timers of the bubble in a
// pool, and a goroutine outside of the bubble may not use them. Two collections empty the pool.
func inVirtualTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
	runtime.GC()
	runtime.GC()
}

// The owner, another client, the host and the gateway are measured together.
func TestMeshes_thatComeAndGoLeaveNothing(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		other := m.Connect(t)
		checks, most := []int{70, 140}, int64(8<<10) // some are remembered for longer than 140 meshes
		if testkit.Long() {
			checks, most = []int{100, 500, 1000}, 4<<10
		}
		var all []usage
		meshes := 0
		for _, check := range checks {
			for ; meshes < check; meshes++ {
				name := fmt.Sprint("mesh", meshes)
				procs, probes := m.spawn(name)
				found, err := other.Lookup(t.Context(), procs.ID().String())
				require.NoError(t, err)
				for _, to := range []mesh.ActorMesh[*probe]{probes, mesh.ActorsOn[*probe](found, probes.Name())} {
					_, err = cast.Gather(t.Context(), to, get, actor.None{})
					require.NoError(t, err)
				}
				reply, err := m.client.Data().Request(t.Context(),
					bus.Msg{Subject: subjects.Space{}.Gateway(name, "probe", "get", subjects.Anon())})
				require.NoError(t, err)
				require.Equal(t, "[0,1]", string(reply.Data))
				require.NoError(t, procs.Stop(t.Context()))
			}
			u := m.settled(other)
			t.Logf("%d meshes: %+v", meshes, u)
			all = append(all, u)
		}
		before, after := all[len(all)-2], all[len(all)-1]
		grown := checks[len(all)-1] - checks[len(all)-2]
		require.Equal(t, before.subscriptions, after.subscriptions)
		require.LessOrEqual(t, after.peers, before.peers)
		require.InDelta(t, before.goroutines, after.goroutines, workers)
		require.Less(t, (after.heap-before.heap)/int64(grown), most, "bytes for each mesh")
	})
}

func TestClients_thatLeaveAreForgottenAfterAMinute(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		clients := 100
		if testkit.Long() {
			clients = 1000
		}
		_, probes := m.spawn("demo")
		come := func(n int) usage {
			for range n {
				o := m.BusOptions(t)
				conn, err := mesh.Connect(t.Context(), mesh.Options{Bus: &o})
				require.NoError(t, err)
				found, err := conn.Lookup(t.Context(), "demo")
				require.NoError(t, err)
				_, err = cast.Gather(t.Context(), mesh.ActorsOn[*probe](found, probes.Name()), get, actor.None{})
				require.NoError(t, err)
				require.NoError(t, conn.Close(t.Context()))
			}
			return m.settled()
		}
		before, after := come(10), come(clients)
		t.Logf("%d clients: %+v, then %+v", clients, before, after)
		require.Equal(t, before.subscriptions, after.subscriptions)
		require.Equal(t, before.peers, after.peers)
		require.InDelta(t, before.goroutines, after.goroutines, workers)
		require.Less(t, after.heap-before.heap, int64(1<<20))
	})
}

func TestDirectory_meshWithRestartedRanksIsCachedAgain_GW5(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		procs, err := m.hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{
			Name: "demo", PerHost: shape.Of("gpu", 1), RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient},
		})
		require.NoError(t, err)
		cached := func() (e *entry) {
			for range 2 {
				e, err = m.gateway.directory.find(t.Context(), "demo", time.Time{})
				require.NoError(t, err)
			}
			return e
		}
		require.Same(t, cached(), cached())
		require.NoError(t, procs.Restart(t.Context(), mesh.RollingRestart{}))
		time.Sleep(2 * entryMaxAge)
		require.Same(t, cached(), cached())
		require.NoError(t, procs.Stop(t.Context()))
		time.Sleep(minAge)
		_, err = m.gateway.directory.find(t.Context(), "demo", time.Time{})
		require.Error(t, err)
	})
}
