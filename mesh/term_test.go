package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/system"
)

// Detach and Adopt ask the system controller in this way.
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
