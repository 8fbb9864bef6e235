package controller

import (
	"time"

	"github.com/castnet-io/castnet/actor"
)

// watchGrace is the time for a program to begin to watch its mesh after a rank has failed.
const watchGrace = time.Second

// escalate fails the controller, and so the maker of the mesh, for a failed rank without a handler
// in its program (CTL-19). A failed spawn reports itself.
func (c *controller) escalate(ctx *actor.Context, failures []actor.Event) {
	if len(failures) == 0 || c.spec.OnRankFailed == nil || !c.everRan {
		return
	}
	ctx.After(watchGrace, func(ctx *actor.Context) {
		for _, e := range failures {
			if c.stopping || c.shuttingDown || c.fenced != nil {
				return
			}
			if !c.spec.OnRankFailed(ctx.Parent(), e) {
				ctx.Fail("the program did not handle the failure of a rank: "+e.Reason, &e)
				return
			}
		}
	})
}
