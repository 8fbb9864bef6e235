package agent

import (
	"fmt"

	"github.com/castnet-io/castnet/actor"
)

// stop implements Stop. An urgent Stop may arrive before the Create of its resource. It then ends
// live ranks and omits the others, because a second copy follows in order (AGT-11).
func stop(a Agent, ctx *actor.Context, s StopRequest) (Overlay, error) {
	if ctx.OnControl() {
		states, err := a.Get(ctx, GetRequest{ID: s.ID})
		if err != nil {
			return nil, err
		}
		if len(Alive(states)) == 0 {
			return nil, fmt.Errorf("no rank of %s is alive here", s.ID)
		}
	}
	return a.Stop(ctx, s)
}
