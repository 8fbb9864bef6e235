package cast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh/shape"
)

// Reply is one rank's answer.
type Reply[R any] struct {
	Value R
	Err   error // why there is no value
}

// Post casts m and waits for no answer. nil says that the bus has it for every rank that is not
// known to be gone; a *CoverageError names those that are, and those of the caller's own process that do not
// take it. What does not arrive elsewhere comes back to the actor that cast, once for each rank.
func Post[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M) error {
	if _, ok := throttleOf(to); ok {
		return invalid(ep.Name(), errors.New("Post waits for no answers, so it cannot be throttled: use Gather"))
	}
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
		if t, ok := throttleOf(to); ok {
			streamThrottled(ctx, t, to, ep, m, yield)
			return
		}
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
	if t, ok := throttleOf(to); ok {
		return gatherThrottled(ctx, t, to, ep, m)
	}
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
	all, err := openRow(p.value)
	rest := all.data
	var v R
	left := uint32(0) // ranks that v is the answer of
	for _, s := range p.ranks {
		for rank := s.First; rank < s.end(); rank++ {
			if left == 0 && err == nil {
				v, left, rest, err = nextOf[R](rest)
			}
			left = max(left, 1) - 1
			if err != nil {
				t.fates[rank], t.errs[rank] = failed, err
			} else {
				values[rank] = v
			}
		}
	}
}

// nextOf takes the next answer of a row, and says of how many ranks it is.
func nextOf[R any](row []byte) (v R, count uint32, rest []byte, err error) {
	if len(row) == 0 {
		return v, 0, nil, &actor.Error{Code: actor.CodeBadMessage, Text: "its host sent fewer answers than it has ranks"}
	}
	count, raw, rest, err := entryOf(row)
	if err == nil {
		v, err = actor.Open[R](actor.Encoded(raw))
	}
	return v, count, rest, err
}

// Reduce casts m and returns the answers folded into one, in rank order. The reducer is built in,
// or declared by the endpoint. When some ranks have no answer, the value is folded from the others
// (the zero value when there are none) and the error is a *CoverageError.
func Reduce[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M, by actor.Reducer[R]) (R, error) {
	var acc R
	if err := by.Err(); err != nil {
		return acc, err
	}
	if err := reducible(ep, by); err != nil {
		return acc, err
	}
	if t, ok := throttleOf(to); ok {
		return reduceThrottled(ctx, t, to, ep, m, by)
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

// reducible refuses what procs cannot fold with: a reducer they do not know, or one that does not fold
// such answers.
func reducible[A, M, R any](ep actor.Endpoint[A, M, R], by actor.Reducer[R]) error {
	if ep.Declares(by.Name()) {
		return nil
	}
	p, known := plainOf(by.Name(), openAs[R], 0)
	if !known {
		return &actor.Error{Code: actor.CodeInvalid, Endpoint: ep.Name(), Text: fmt.Sprintf(
			"the endpoint does not declare the reducer %q, so procs cannot fold with it: name it in NewEndpoint", by.Name())}
	}
	return invalid(ep.Name(), p.takes(reflect.TypeFor[R]()))
}

// invalid is what is wrong with the call itself; nil when nothing is.
func invalid(endpoint string, err error) error {
	if err == nil {
		return nil
	}
	return &actor.Error{Code: actor.CodeInvalid, Endpoint: endpoint, Text: err.Error()}
}

// Aggregate casts m and returns what the aggregator makes of the answers, which may be of another type than
// these, such as a list of the three largest. They are folded as those of Reduce are. When some ranks have no
// answer, the value is that of the others and the error is a *CoverageError.
func Aggregate[A, M, R, Acc any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M, by Aggregator[R, Acc]) (Acc, error) {
	var zero Acc
	if err := invalid(ep.Name(), by.Err()); err != nil {
		return zero, err
	}
	if t, ok := throttleOf(to); ok {
		return aggregateThrottled(ctx, t, to, ep, m, by)
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	a, err := begin(ctx, to, ep, question{message: m, mode: modeFold, reducer: by.Name()})
	if err != nil {
		return zero, err
	}
	defer a.close()
	for a.next(ctx) {
	}
	out, err := by.open(a.parts)
	if err != nil {
		return zero, fmt.Errorf("fold the answers of %s: %w", ep.Name(), err)
	}
	return out, a.err()
}

// Choose asks one rank: the one that Pick picks.
func Choose[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M) (R, error) {
	var zero R
	t, err := to.Target()
	if err != nil {
		return zero, err
	}
	rank, err := Pick(ctx, to)
	if err != nil {
		return zero, err
	}
	base, err := t.Region.BaseRank(rank)
	if err != nil {
		return zero, err
	}
	p, _ := actor.Sender(ctx, t.Via)
	return ep.Call(ctx, actor.RefOf[A](latest(p, t.Placement.Proc(base)).Actor(t.Actor)).Via(t.Via), m)
}

// Pick picks a rank of the region, at random among those that are not known to be gone.
func Pick[A any](ctx context.Context, to Mesh[A]) (int, error) {
	t, err := to.Target()
	if err != nil {
		return 0, err
	}
	if err := t.check(); err != nil {
		return 0, err
	}
	n, rank := t.Region.NumRanks(), func(i int) int { return i }
	if throttle, ok := throttleOf(to); ok {
		kept := throttle.sample(t.Region)
		n, rank = len(kept), func(i int) int { return kept[i] }
	}
	return choice(ctx, t, n, rank), nil
}

// choice picks one of n ranks of the region: the first live one from a random place on.
func choice(ctx context.Context, t Target, n int, rank func(i int) int) int {
	start := rand.IntN(n)
	p, _ := actor.Sender(ctx, t.Via)
	for i := range n {
		picked := rank((start + i) % n)
		base, err := t.Region.BaseRank(picked)
		if err != nil || p == nil {
			break
		}
		if _, dead := p.Down(latest(p, t.Placement.Proc(base))); !dead {
			return picked
		}
	}
	return rank(start)
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
