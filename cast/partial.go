package cast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// Partial is what a Reduce knows while answers still come.
type Partial[R any] struct {
	Value    R        // folded, in rank order, from those who have answered; the zero value when nobody has
	Coverage Coverage // who has not is missing, in the last one only when nobody waits for him any more
	Err      error    // why there is nothing more: the cast was not sent, its answers cannot be folded, or, in the last, a *CoverageError
}

// ReduceStream is Reduce that also yields what is folded so far, each time the answers of more hosts have
// come, at most once in every: a host sends the answers of its ranks together, and in a mesh of more than 16
// hosts those of others with them. The last one is what Reduce returns. Leaving the loop lets go of the
// rest. A throttled mesh is refused: Stream tells of its batches.
func ReduceStream[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M, by actor.Reducer[R], every time.Duration) iter.Seq[Partial[R]] {
	return func(yield func(Partial[R]) bool) {
		err := errors.Join(by.Err(), reducible(ep, by))
		if _, throttled := throttleOf(to); err == nil && throttled {
			err = invalid(ep.Name(), errors.New("ReduceStream of a throttled mesh: use Stream"))
		}
		if err != nil {
			yield(Partial[R]{Err: err})
			return
		}
		ctx, cancel := withDeadline(ctx)
		defer cancel()
		a, err := begin(ctx, to, ep, question{message: m, mode: modeFold, reducer: by.Name()})
		if err != nil {
			yield(Partial[R]{Err: err})
			return
		}
		defer a.close()
		for was := a.open; a.next(ctx); {
			a.pause(ctx, every)
			if a.open == 0 || a.open == was { // not every word settles somebody
				continue
			}
			if was = a.open; !yield(partial(a, by)) {
				return
			}
		}
		last := partial(a, by)
		if last.Err == nil {
			last.Err = a.err()
		}
		yield(last)
	}
}

// pause lets more answers come before what there is is looked at, unless there are all.
func (a *asking) pause(ctx context.Context, d time.Duration) {
	if a.open == 0 || d <= 0 {
		return
	}
	over := time.NewTimer(d)
	defer over.Stop()
	for a.open > 0 {
		select {
		case <-over.C:
			return
		case <-ctx.Done():
			return
		case <-a.news:
			a.read()
		}
	}
}

// partial folds what has come so far.
func partial[R any](a *asking, by actor.Reducer[R]) Partial[R] {
	v, err := foldAll(by, a.parts)
	if err != nil {
		err = fmt.Errorf("fold the answers of %s: %w", a.endpoint, err)
	}
	return Partial[R]{Value: v, Coverage: a.coverage(), Err: err}
}
