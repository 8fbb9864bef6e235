package agent

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// CallWithFallback calls an urgent endpoint. If half of the time passes without a reply, or too
// much data queues, it repeats the request on the control connection (actor.Endpoint.CallUrgent).
func CallWithFallback[A, M, R any](ctx context.Context, e actor.Endpoint[A, M, R], to actor.Ref[A],
	m M) (R, error) {
	first, cancel := FirstHalf(ctx)
	defer cancel()
	r, err := e.Call(first, to, m)
	if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, actor.ErrBacklog)) {
		return e.CallUrgent(ctx, to, m)
	}
	return r, err
}

// FirstHalf returns a context that ends after half of the parent's remaining time.
func FirstHalf(ctx context.Context) (context.Context, context.CancelFunc) {
	within := actor.DefaultDeadline
	if d, ok := ctx.Deadline(); ok {
		within = time.Until(d)
	}
	return context.WithTimeout(ctx, within/2)
}
