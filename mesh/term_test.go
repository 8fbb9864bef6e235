package mesh_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// Detach and Adopt call the system controller in this way.
func TestAskSystem_asksTheNextTerm_MESH14(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c := testmesh.Start(t, testmesh.InMemory())
		s := c.System(t, "s")
		var asked []actor.Ref[*system.Controller]
		err := c.Net.AskSystem(testkit.Soon(t), func(ctl actor.Ref[*system.Controller]) error {
			asked = append(asked, ctl)
			if len(asked) == 1 {
				require.NoError(t, s.Close(testkit.Soon(t)))
				next, err := system.Start(t.Context(), system.Options{Bus: c.Open(t), Label: "next"})
				require.NoError(t, err)
				testkit.Close(t, next.Close)
			}
			_, err := system.GetSnapshot.Call(t.Context(), ctl, system.Filter{})
			return err
		})
		require.NoError(t, err)
		require.Len(t, asked, 2)
		require.NotEqual(t, asked[0].ID(), asked[1].ID())
	})
}

// A suspended proc takes a while to end.
func TestStop_waitsForAWorldThatIsStopping_MESH5(t *testing.T) {
	t.Parallel()
	for name, sameTerm := range map[string]bool{"in the same term": true, "in the next term": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newStored(t) // the next term reads that the world is stopping
			c.Net = c.Connect(t, operator)
			s := c.System(t, "s")
			c.HostInWorld(t, "a", "train", 0)
			c.declare(t, "train", shape.Of("x", 1), 1)
			procs := c.running(t, c.Net, "train", 1)
			for _, pid := range c.pids(t, procs) {
				proctest.Suspend(t, pid)
			}
			ctl, err := system.Find(t.Context(), c.Proc())
			require.NoError(t, err)
			first := system.StopRequest{Worlds: []string{"train"}, Timeout: 6 * time.Second}
			got, err := system.Stop.Call(t.Context(), ctl, first)
			require.NoError(t, err)
			require.Equal(t, []string{"train"}, got.Worlds)
			if !sameTerm {
				require.NoError(t, s.Close(testkit.Soon(t)))
				c.System(t, "next")
			}

			require.NoError(t, procs.Stop(testkit.Soon(t)))
			require.Empty(t, c.pids(t, procs))
			require.NoError(t, procs.Stop(testkit.Soon(t)), "a second stop")
			_, err = c.Lookup(t.Context(), "train")
			require.ErrorAs(t, err, new(*mesh.NotFoundError))
		})
	}
}
