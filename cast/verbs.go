package cast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// Reply is one rank's answer.
type Reply[R any] struct {
	Value R
	Err   error // why there is no value
}

// Send casts m and waits for no answer. nil means that the bus has the message for every rank not
// known to be gone. A *CoverageError names the ranks known to be gone, and those of the caller's
// own process that refuse it. Messages that cannot be delivered elsewhere return to the casting
// actor, once for each rank.
func Send[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M) error {
	if _, ok := throttleOf(to); ok {
		return invalid(ep.Name(), errors.New("Send waits for no answers and cannot be throttled: use Gather"))
	}
	a, err := startCast(ctx, to, ep, castRequest{message: m, mode: modeSend})
	if err != nil {
		return err
	}
	defer a.close()
	for rank, f := range a.fates {
		if f == waiting {
			a.setFate(rank, answered, nil)
		}
	}
	return a.err()
}

// Stream casts m and yields each rank's answer as it arrives, with the rank's point in the region,
// or the reason for a rank without one. It ends when every rank is settled, at the latest at the
// deadline. An error of the cast itself is yielded once, with the zero point. The cast is sent when
// the loop starts; leaving the loop cancels the rest.
func Stream[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M) iter.Seq2[shape.Point, Reply[R]] {
	return func(yield func(shape.Point, Reply[R]) bool) {
		if t, ok := throttleOf(to); ok {
			streamThrottled(ctx, t, to, ep, m, yield)
			return
		}
		ctx, cancel := withDeadline(ctx)
		defer cancel()
		a, err := startCast(ctx, to, ep, castRequest{message: m, mode: modeEach})
		if err != nil {
			yield(shape.Point{}, Reply[R]{Err: err})
			return
		}
		defer a.close()
		for {
			for _, rank := range a.takeSettled() {
				if !yield(a.failure(rank).Point, replyOf[R](a, rank)) {
					return
				}
			}
			if !a.awaitEvent(ctx) {
				return
			}
		}
	}
}

func replyOf[R any](a *operation, rank int) (r Reply[R]) {
	if a.fates[rank] != answered {
		return Reply[R]{Err: a.errs[rank]}
	}
	r.Value, r.Err = actor.DecodeAnswer[R](a.values[rank])
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
	a, err := startCast(ctx, to, ep, castRequest{message: m, mode: modeCollect})
	if err != nil {
		return shape.ValueMesh[R]{}, err
	}
	defer a.close()
	for a.awaitEvent(ctx) {
	}
	values := make([]R, len(a.fates))
	for _, p := range a.parts {
		spreadPart(a.collector, p, values)
	}
	out, err := shape.NewValueMesh(a.region, values)
	if err != nil {
		return out, err
	}
	return out, a.err()
}

// spreadPart puts the answers of one part in their places. Ranks with equal answers share one
// value.
func spreadPart[R any](t *collector, p part, values []R) {
	all, err := decodePackedAnswers(p.value)
	rest := all.data
	var v R
	left := uint32(0) // ranks that v is the answer of
	for _, s := range p.ranks {
		for rank := s.First; rank < s.end(); rank++ {
			if left == 0 && err == nil {
				v, left, rest, err = nextAnswer[R](rest)
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

// nextAnswer decodes the next answer of a row, and its number of ranks.
func nextAnswer[R any](row []byte) (v R, count uint32, rest []byte, err error) {
	if len(row) == 0 {
		return v, 0, nil, &actor.Error{Code: actor.CodeBadMessage, Text: "its host sent fewer answers than it has ranks"}
	}
	count, raw, rest, err := nextEntry(row)
	if err == nil {
		v, err = actor.DecodeAnswer[R](actor.EncodedAnswer(raw))
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
	a, err := startCast(ctx, to, ep, castRequest{message: m, mode: modeFold, reducer: by.Name()})
	if err != nil {
		return acc, err
	}
	defer a.close()
	for a.awaitEvent(ctx) {
	}
	acc, err = foldAll(by, a.parts)
	if err != nil {
		return acc, fmt.Errorf("fold the answers of %s: %w", ep.Name(), err)
	}
	return acc, a.err()
}

// foldAll folds the hosts' answers at the caller.
func foldAll[R any](by actor.Reducer[R], parts []part) (R, error) {
	var acc, zero R
	for i, p := range parts {
		v, err := actor.DecodeAnswer[R](p.value)
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

// reducible refuses a reducer unknown to the procs, or for answers of another type.
func reducible[A, M, R any](ep actor.Endpoint[A, M, R], by actor.Reducer[R]) error {
	if ep.Declares(by.Name()) {
		return nil
	}
	p, known := parseSameType(by.Name(), openAs[R], 0)
	if !known {
		return &actor.Error{Code: actor.CodeInvalid, Endpoint: ep.Name(), Text: fmt.Sprintf(
			"the endpoint does not declare the reducer %q, so procs cannot fold with it: name it in NewEndpoint", by.Name())}
	}
	return invalid(ep.Name(), p.accepts(reflect.TypeFor[R]()))
}

// invalid wraps an error of the call itself; nil stays nil.
func invalid(endpoint string, err error) error {
	if err == nil {
		return nil
	}
	return &actor.Error{Code: actor.CodeInvalid, Endpoint: endpoint, Text: err.Error()}
}

// Aggregate casts m and returns the aggregator's result, which may have another type than the
// answers, such as a list of the three largest. The answers fold like those of Reduce. When some
// ranks have no answer, the value is that of the others and the error is a *CoverageError.
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
	a, err := startCast(ctx, to, ep, castRequest{message: m, mode: modeFold, reducer: by.Name()})
	if err != nil {
		return zero, err
	}
	defer a.close()
	for a.awaitEvent(ctx) {
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
	return ep.Call(ctx, actor.RefOf[A](latestProc(p, t.Placement.Proc(base)).Actor(t.Actor)).Via(t.Via), m)
}

// Pick picks a rank of the region, at random among those not known to be gone.
func Pick[A any](ctx context.Context, to Mesh[A]) (int, error) {
	t, err := to.Target()
	if err != nil {
		return 0, err
	}
	if err := t.validate(); err != nil {
		return 0, err
	}
	n := t.Region.NumRanks()
	rank := func(i int) int { return i }
	if throttle, ok := throttleOf(to); ok {
		kept := throttle.sample(t.Region)
		n = len(kept)
		rank = func(i int) int { return kept[i] }
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
		if _, dead := p.Down(latestProc(p, t.Placement.Proc(base))); !dead {
			return picked
		}
	}
	return rank(start)
}

// startCast runs the local checks and sends.
func startCast[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], q castRequest) (*operation, error) {
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
