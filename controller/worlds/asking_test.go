package worlds

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Until a world is saved nobody is told that it has its name, so others must not get that.
func TestNames_areHeldUntilTheWorldsThatHaveThemAreSaved_WORLD17(t *testing.T) {
	mesh, err := subjects.ParseMeshID("words-0000000000000")
	require.NoError(t, err)
	c := &Controller{st: newState(limits{presence: true, names: true, eviction: time.Second, stopWithin: time.Second})}
	c.busy = true // another world is being saved
	d := Declaration{Spec: Spec{Name: "words", Shape: shape.Of("x", 1), PerHost: 1, Command: agent.Command{Path: agent.Builtin}}}
	var none *actor.Context // what waits for a save needs none
	c.hear(none, upsert{from: 1, Declaration: d, mesh: mesh})
	require.Equal(t, []any{askName{"words"}}, c.queue)
	c.queue = nil

	free := 0
	c.named(none, []string{"words"}, []error{nil}, freed{func() { free++ }})
	require.Zero(t, free, "the name is free before the world is saved")
	_, told := c.holders.Load("words")
	require.False(t, told)
	kinds := make([]string, len(c.queue))
	for i, e := range c.queue {
		kinds[i] = fmt.Sprintf("%T", e)
	}
	require.Equal(t, []string{"worlds.freed", "worlds.save", "worlds.answer", "worlds.told"}, kinds, "who is answered finds it free of us")
	c.doAll(none, c.queue[:1])
	require.Equal(t, 1, free)
}
