package agent

import (
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
)

// stop is Stop. One that was urged may have overtaken the Create of what it is to stop: it ends what there is, and says
// nothing of what is not there or has ended, for it comes again behind that (AGT-11).
func stop(a Agent, ctx *actor.Context, s Stopping) (Overlay, error) {
	if ctx.Urged() {
		states, err := a.Get(ctx, Query{ID: s.ID})
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(states, func(st State) bool { return !st.Status.Phase.Terminal() }) {
			return nil, fmt.Errorf("nothing of %s is alive here", s.ID)
		}
	}
	return a.Stop(ctx, s)
}
