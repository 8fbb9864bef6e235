package gateway

import (
	"context"
	"time"

	"github.com/castnet-io/castnet/bus"
)

const (
	maxIdle     = 64               // workers that wait for a request
	idleTimeout = 10 * time.Second // and for how long
)

// dispatch gives a request to an idle worker, else to a new one; false: the gateway closes. Workers
// are kept for their stack, because a cast makes it large.
func (g *Gateway) dispatch(m bus.Msg) bool {
	if g.ctx.Err() != nil {
		return false
	}
	select {
	case g.handoff <- m:
		return true
	default:
		return g.spawn(func(ctx context.Context) { g.worker(ctx, m) })
	}
}

func (g *Gateway) worker(ctx context.Context, m bus.Msg) {
	patience := time.NewTimer(idleTimeout)
	defer patience.Stop()
	for {
		g.answer(ctx, m)
		g.releaseRequest(m)
		if g.idleWorkers.Add(1) > maxIdle {
			g.idleWorkers.Add(-1)
			return
		}
		patience.Reset(idleTimeout)
		select {
		case m = <-g.handoff:
			g.idleWorkers.Add(-1)
		case <-patience.C:
			g.idleWorkers.Add(-1)
			return
		case <-ctx.Done():
			return
		}
	}
}
