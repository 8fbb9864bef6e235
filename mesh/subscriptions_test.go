package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

const (
	// ownSubscriptions bounds the subscriptions of a proc, besides 2ᵈ for casts in d dimensions.
	ownSubscriptions = 4
	// few bounds what a caller subscribes to.
	few = 10
)

// A server keeps each subscription, and tells other servers of it.
func TestSubscriptions_ofAProcDependOnDimensionsOnly(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c, h, _ := inMemory(t)
		hosts, err := c.Attach(t.Context(), "hosts", h.ID())
		require.NoError(t, err)
		subscriptions := func() int {
			time.Sleep(time.Minute) // what a spawn alone needs has ended
			return c.Server.NumSubs()
		}
		spawn := func(s shape.Extent) (mesh.ProcMesh, int) {
			before := subscriptions()
			procs, err := hosts.Spawn(t.Context(), "mesh", s)
			require.NoError(t, err)
			return procs, subscriptions() - before
		}
		spawn(shape.Of("gpu", 1)) // the client and the host subscribe once
		_, two := spawn(shape.Of("gpu", 2))
		procs, ten := spawn(shape.Of("gpu", 10))
		_, square := spawn(shape.Of("x", 2).With("y", 2))
		_, larger := spawn(shape.Of("x", 4).With("y", 5))
		require.LessOrEqual(t, ten-two, 8*(ownSubscriptions+2))
		require.LessOrEqual(t, larger-square, 16*(ownSubscriptions+4))

		before := subscriptions()
		var all []mesh.ActorMesh[*Counter]
		const meshes = 20
		for i := range meshes {
			counters, err := mesh.Spawn(t.Context(), procs, counter, fmt.Sprint("counters", i), 1)
			require.NoError(t, err)
			_, err = cast.Gather(t.Context(), counters, add, 1)
			require.NoError(t, err)
			all = append(all, counters)
		}
		require.LessOrEqual(t, subscriptions()-before, meshes, "their controllers subscribe, the ranks do not")

		other := c.Connect(t)
		callAll := func() int {
			for _, from := range []*actor.Proc{c.Proc(), other.Proc()} {
				for rank := range 10 {
					_, err := add.Call(t.Context(), all[0].At("host", 0, "gpu", rank).Via(from), 1)
					require.NoError(t, err)
				}
			}
			return subscriptions()
		}
		first := callAll() // a caller hears of the ends of the mesh's procs
		require.LessOrEqual(t, first-before, meshes+few)
		require.Equal(t, first, callAll())
	})
}
