package agent

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// Insist is Call, and asks by the control lane, too (actor.Endpoint.Urge), when half of the time that there is has
// brought no answer, or too much waits already: something holds up the data. The endpoint is urgent.
func Insist[A, M, R any](ctx context.Context, e actor.Endpoint[A, M, R], to actor.Ref[A], m M) (R, error) {
	first, cancel := FirstHalf(ctx)
	defer cancel()
	r, err := e.Call(first, to, m)
	if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, actor.ErrBacklog)) {
		return e.Urge(ctx, to, m)
	}
	return r, err
}

// FirstHalf is a context that ends when half of the time of another is over.
func FirstHalf(ctx context.Context) (context.Context, context.CancelFunc) {
	within := actor.DefaultDeadline
	if d, ok := ctx.Deadline(); ok {
		within = time.Until(d)
	}
	return context.WithTimeout(ctx, within/2)
}
