package gateway

import (
	"context"
	"time"

	"github.com/castnet-io/castnet/bus"
)

const (
	maxIdle = 64               // workers that wait for a request
	idleFor = 10 * time.Second // and how long
)

// work has a request answered by a worker that waits, else by a new one; false: the gateway closes. A
// worker is worth keeping for its stack, which a cast makes large.
func (g *Gateway) work(m bus.Msg) bool {
	select {
	case g.next <- m:
		return true
	default:
		return g.spawn(func(ctx context.Context) { g.worker(ctx, m) })
	}
}

func (g *Gateway) worker(ctx context.Context, m bus.Msg) {
	patience := time.NewTimer(idleFor)
	defer patience.Stop()
	for {
		g.answer(ctx, m)
		g.done(m)
		if g.idle.Add(1) > maxIdle {
			g.idle.Add(-1)
			return
		}
		patience.Reset(idleFor)
		select {
		case m = <-g.next:
			g.idle.Add(-1)
		case <-patience.C:
			g.idle.Add(-1)
			return
		case <-ctx.Done():
			return
		}
	}
}
