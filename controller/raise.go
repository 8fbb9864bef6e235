package controller

import (
	"time"

	"github.com/castnet-io/castnet/actor"
)

// dealWithin is how long a program has, after a rank has failed, to begin to watch its mesh.
const dealWithin = time.Second

// raise fails the controller, and so whoever made the mesh, for a failed rank that its program does not deal with
// (CTL-19). A spawn that fails says so itself.
func (c *controller) raise(ctx *actor.Context, failures []actor.Event) {
	if len(failures) == 0 || c.spec.Failed == nil || !c.up {
		return
	}
	ctx.After(dealWithin, func(ctx *actor.Context) {
		for _, e := range failures {
			if c.stopping || c.leaving || c.fenced != nil {
				return
			}
			if !c.spec.Failed(e) {
				ctx.Fail("nobody in its program deals with the failure of a rank: "+e.Reason, &e)
				return
			}
		}
	})
}
