package cast

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh/shape"
)

// Reply is one rank's answer.
type Reply[R any] struct {
	Value R
	Err   error // why there is no value
}

// Post casts m and waits for no answer. nil says that the bus has it for every rank that is not
// known to be gone; a *CoverageError names those that are.
func Post[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M) error {
	a, err := begin(ctx, to, ep, question{message: m, mode: modePost})
	if err != nil {
		return err
	}
	defer a.close()
	for rank, f := range a.fates {
		if f == waiting {
			a.settle(rank, answered, nil)
		}
	}
	return a.err()
}

// Stream casts m and yields each rank's answer as it arrives, with the rank's point in the region,
// and the reason for each rank that has none. It ends when every rank is settled, at the latest
// at the deadline. What is wrong with the cast itself is yielded once, with the zero point. The
// cast is sent when the loop starts; leaving the loop lets go of the rest.
func Stream[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M) iter.Seq2[shape.Point, Reply[R]] {
	return func(yield func(shape.Point, Reply[R]) bool) {
		ctx, cancel := withDeadline(ctx)
		defer cancel()
		a, err := begin(ctx, to, ep, question{message: m, mode: modeEach})
		if err != nil {
			yield(shape.Point{}, Reply[R]{Err: err})
			return
		}
		defer a.close()
		for {
			for _, rank := range a.drain() {
				if !yield(a.failure(rank).Point, replyOf[R](a, rank)) {
					return
				}
			}
			if !a.next(ctx) {
				return
			}
		}
	}
}

func replyOf[R any](a *asking, rank int) (r Reply[R]) {
	if a.fates[rank] != answered {
		return Reply[R]{Err: a.errs[rank]}
	}
	r.Value, r.Err = actor.Open[R](a.values[rank])
	return r
}

// Gather casts m and returns every rank's answer by its rank in the region. When some have none,
// the error is a *CoverageError and their places hold zero values.
func Gather[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M) (shape.ValueMesh[R], error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	a, err := begin(ctx, to, ep, question{message: m, mode: modeCollect})
	if err != nil {
		return shape.ValueMesh[R]{}, err
	}
	defer a.close()
	for a.next(ctx) {
	}
	values := make([]R, len(a.fates))
	for _, p := range a.parts {
		spread(a.tally, p, values)
	}
	out, err := shape.NewValueMesh(a.region, values)
	if err != nil {
		return out, err
	}
	return out, a.err()
}

// spread puts the answers of one part where they belong. Ranks with equal answers share one value.
func spread[R any](t *tally, p part, values []R) {
	all, err := actor.Open[[]collected](p.value)
	var v R
	left := 0 // ranks that v is the answer of
	for _, s := range p.ranks {
		for rank := s.First; rank < s.end(); rank++ {
			if left == 0 && len(all) > 0 {
				v, err = actor.Open[R](actor.Encoded(all[0].Raw))
				left, all = max(all[0].Count, 1), all[1:]
			} else if left == 0 && err == nil {
				err = &actor.Error{Code: actor.CodeBadMessage, Text: "its host sent fewer answers than it has ranks"}
			}
			left = max(left-1, 0)
			if err != nil {
				t.fates[rank], t.errs[rank] = failed, err
			} else {
				values[rank] = v
			}
		}
	}
}

// Reduce casts m and returns the answers folded into one, in rank order. The reducer is built in,
// or declared by the endpoint. When some ranks have no answer, the value is folded from the others
// (the zero value when there are none) and the error is a *CoverageError.
func Reduce[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M, by actor.Reducer[R]) (R, error) {
	var acc R
	if err := by.Err(); err != nil {
		return acc, err
	}
	if _, builtin := builtins[by.Name()]; !builtin && !ep.Declares(by.Name()) {
		return acc, &actor.Error{Code: actor.CodeInvalid, Endpoint: ep.Name(), Text: fmt.Sprintf(
			"the endpoint does not declare the reducer %q, so procs cannot fold with it: name it in NewEndpoint", by.Name())}
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	a, err := begin(ctx, to, ep, question{message: m, mode: modeFold, reducer: by.Name()})
	if err != nil {
		return acc, err
	}
	defer a.close()
	for a.next(ctx) {
	}
	if acc, err = foldAll(by, a.parts); err != nil {
		return acc, fmt.Errorf("fold the answers of %s: %w", ep.Name(), err)
	}
	return acc, a.err()
}

// foldAll folds the hosts' answers at the caller.
func foldAll[R any](by actor.Reducer[R], parts []part) (R, error) {
	var acc, zero R
	for i, p := range parts {
		v, err := actor.Open[R](p.value)
		if err == nil && i > 0 {
			v, err = by.Fold(acc, v)
		}
		if err != nil {
			return zero, err
		}
		acc = v
	}
	return acc, nil
}

// Choose asks one rank, picked at random among those that are not known to be gone.
func Choose[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M) (R, error) {
	var zero R
	t, err := to.Target()
	if err != nil {
		return zero, err
	}
	if err := t.check(); err != nil {
		return zero, err
	}
	return ep.Call(ctx, to.Ref(choice(ctx, t)).Via(t.Via), m)
}

// choice picks a rank of the region: the first live one from a random place on.
func choice(ctx context.Context, t Target) int {
	n := t.Region.NumRanks()
	start := rand.IntN(n)
	p, _ := actor.Sender(ctx, t.Via)
	for i := range n {
		rank := (start + i) % n
		base, err := t.Region.BaseRank(rank)
		if err != nil || p == nil {
			break
		}
		if _, dead := p.Down(t.Placement.Proc(base)); !dead {
			return rank
		}
	}
	return start
}

// begin checks what can be checked here and sends.
func begin[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], q question) (*asking, error) {
	t, err := to.Target()
	if err != nil {
		return nil, err
	}
	if err := ep.Err(); err != nil {
		return nil, err
	}
	q.endpoint = ep.Name()
	return send(ctx, t, q)
}

// withDeadline gives a context without a deadline the default one.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, actor.DefaultDeadline)
}
