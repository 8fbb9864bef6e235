package mesh_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// usage is the memory of a process for others, and of a server for it.
type usage struct {
	subscriptions, peers int
}

// inMemory is a cluster for a bubble, with one host that runs procs itself.
func inMemory(t *testing.T) (c *testmesh.Cluster, h *host.Host, stop func()) {
	t.Helper()
	c = testmesh.Start(t, testmesh.InMemory())
	registry, err := actor.NewRegistry(actors())
	require.NoError(t, err)
	h, stop = c.Host(t, "a", func(o *host.Options) {
		o.Local = &host.Local{Registry: registry, Open: func(ctx context.Context, name string) (*bus.Bus, error) {
			o := c.BusOptions(t)
			o.Name = name
			return bus.Open(ctx, o)
		}}
	})
	return c, h, stop
}

func TestMeshes_thatComeAndGoLeaveNothing_MESH5(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c, h, _ := inMemory(t)
		other := c.Connect(t)
		hosts, err := c.Attach(t.Context(), "hosts", h.ID())
		require.NoError(t, err)
		var first mesh.ActorMesh[*Counter]
		measure := func(meshes int) (u usage) {
			for i := range meshes {
				procs, err := hosts.Spawn(t.Context(), fmt.Sprint("mesh", i), shape.Of("gpu", 2))
				require.NoError(t, err)
				counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", 1)
				require.NoError(t, err)
				found, err := other.Lookup(t.Context(), procs.ID().String())
				require.NoError(t, err)
				for _, m := range []mesh.ActorMesh[*Counter]{counters, mesh.ActorsOn[*Counter](found, counters.Name())} {
					_, err = cast.Gather(t.Context(), m, add, 1)
					require.NoError(t, err)
				}
				require.NoError(t, procs.Stop(t.Context()))
				if first.Err() != nil {
					first = counters
				}
			}
			time.Sleep(2 * time.Minute)
			u.subscriptions = c.Server.NumSubs()
			for _, p := range []*actor.Proc{c.Proc(), other.Proc(), h.Proc()} {
				u.peers += len(p.Info().Peers)
			}
			t.Logf("%d meshes: %+v", meshes, u)
			return u
		}
		few, more := 70, 70
		if testkit.Long() {
			more = 1000
		}
		before := measure(few) // more than are remembered
		after := measure(more)
		require.Equal(t, before.subscriptions, after.subscriptions)
		require.LessOrEqual(t, after.peers, before.peers)
		began := time.Now()
		require.NoError(t, first.Stop(t.Context()), "its controller has ended, too")
		require.NoError(t, first.Procs().Stop(t.Context()))
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

// The host says goodbye when it ends.
func TestShutdown_secondOneReturnsAtOnce_MESH5(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c, h, stop := inMemory(t)
		c.Net = c.Connect(t, operator)
		hosts, err := c.Attach(t.Context(), "hosts", h.ID())
		require.NoError(t, err)
		require.NoError(t, hosts.Shutdown(t.Context(), "done"))
		<-h.StopAllDone()
		stop()
		began := time.Now()
		require.NoError(t, hosts.Shutdown(t.Context(), "done"))
		require.Less(t, time.Since(began), time.Second, "delivery.reconnect-timeout is 5 s")
	})
}
