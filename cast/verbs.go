package cast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

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
	r, err := prepare(to, ep, castRequest{kind: kindSend, message: m, mode: modeSend})
	if err == nil && r.target.throttle != nil {
		err = invalid(ep.Name(), errors.New("Send waits for no answers and cannot be throttled: use Gather"))
	}
	if err != nil {
		return err
	}
	ctx, span := r.startSpan(ctx)
	a, err := r.start(ctx)
	if err != nil {
		r.count(err)
		r.endSpan(span, err)
		return err
	}
	defer a.close()
	for rank, at := range r.fatesOf(r.all()) {
		if *at == waiting {
			r.settle(rank, at, answered)
		}
	}
	r.count(nil)
	r.endSpan(span, nil)
	return r.coverageError()
}

// Stream casts m and yields each rank's answer as it arrives, with the rank's point in the region,
// or the reason for a rank without one. It ends when every rank is settled, at the latest at the
// deadline. An error of the cast itself is yielded once, with the zero point. The cast is sent when
// the loop starts; leaving the loop cancels the rest.
func Stream[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R],
	m M) iter.Seq2[shape.Point, Reply[R]] {
	return func(yield func(shape.Point, Reply[R]) bool) {
		r, err := prepare(to, ep, eachOf[R](m))
		if err == nil {
			err = r.run(ctx, func(rank int) bool { return yield(r.point(rank), replyOf[R](r, rank)) })
		}
		if err != nil && !errors.Is(err, errAbandoned) {
			yield(shape.Point{}, Reply[R]{Err: err})
		}
	}
}

// eachOf is a request whose answers come one by one.
func eachOf[R any](m any) castRequest {
	return castRequest{kind: kindStream, message: m, mode: modeEach, open: openAs[R]}
}

func replyOf[R any](r *rollout, rank int) (out Reply[R]) {
	if r.isOwn(rank) {
		out.Value, out.Err = actor.DecodeAnswer[R](r.own[rank])
	} else {
		out.Err = r.err(rank)
	}
	return out
}

// Gather casts m and returns every rank's answer by its rank in the region. When some have none,
// the error is a *CoverageError and their places hold zero values.
func Gather[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R],
	m M) (shape.ValueMesh[R], error) {
	r, err := ask(ctx, to, ep, castRequest{kind: kindGather, message: m, mode: modeCollect, open: openAs[R]})
	if err != nil {
		return shape.ValueMesh[R]{}, err
	}
	values := make([]R, len(r.fates))
	for rank := range r.own {
		values[rank] = replyOf[R](r, rank).Value
	}
	for _, p := range r.parts {
		spreadPart(r.collector, p, values)
	}
	out, err := shape.NewValueMesh(r.target.Region, values)
	if err != nil {
		return out, err
	}
	return out, r.coverageError()
}

// spreadPart puts the answers of one part in their places. Ranks with equal answers share one
// value.
func spreadPart[R any](c *collector, p part, values []R) {
	all, err := decodePackedAnswers(p.value)
	rest := all.data
	var v R
	var answers actor.AnswerDecoder[R]
	left := uint32(0) // ranks that v is the answer of
	for rank, at := range c.fatesOf(p.ranks) {
		if left == 0 && err == nil {
			v, left, rest, err = nextAnswer(rest, &answers)
		}
		left = max(left, 1) - 1
		if err == nil {
			values[rank] = v
			continue
		}
		*at = waiting
		c.pending++
		c.fail(shape.Interval(rank, 1), failed, err)
	}
}

// nextAnswer decodes the next answer of a row, and its number of ranks.
func nextAnswer[R any](row []byte, answers *actor.AnswerDecoder[R]) (v R, count uint32, rest []byte,
	err error) {
	if len(row) == 0 {
		return v, 0, nil, &actor.Error{Code: actor.CodeBadMessage,
			Text: "its host sent fewer answers than it has ranks"}
	}
	count, raw, rest, err := nextEntry(row)
	if err == nil {
		v, err = answers.Decode(raw)
	}
	return v, count, rest, err
}

// Reduce casts m and returns the answers folded into one, in rank order. The reducer is built in,
// or declared by the endpoint. When some ranks have no answer, the value is folded from the others
// (the zero value when there are none) and the error is a *CoverageError.
func Reduce[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M,
	by actor.Reducer[R]) (R, error) {
	var acc R
	if err := by.Err(); err != nil {
		return acc, err
	}
	if err := reducible(ep, by); err != nil {
		return acc, err
	}
	r, err := ask(ctx, to, ep,
		castRequest{kind: kindReduce, message: m, mode: modeFold, reducer: by.Name(), open: openAs[R]})
	if err != nil {
		return acc, err
	}
	acc, err = foldAll(r, by)
	if err != nil {
		return acc, err
	}
	return acc, r.coverageError()
}

// foldAll folds the answers at the caller.
func foldAll[R any](r *rollout, by actor.Reducer[R]) (R, error) {
	var acc R
	var all []R
	for a := range r.values() {
		v, err := actor.DecodeAnswer[R](a)
		if err != nil {
			return acc, r.foldError(err)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return acc, nil
	}
	v, err := foldPairwise(all, by.Fold)
	if err != nil {
		return acc, r.foldError(err)
	}
	return v, nil
}

func (r *rollout) foldError(err error) error {
	return fmt.Errorf("fold the answers of %s: %w", r.request.endpoint, err)
}

// reducible refuses a reducer unknown to the procs, or for answers of another type.
func reducible[A, M, R any](ep actor.Endpoint[A, M, R], by actor.Reducer[R]) error {
	if ep.Declares(by.Name()) {
		return nil
	}
	p, known := parseSameType(by.Name(), openAs[R], 0)
	if !known {
		return &actor.Error{Code: actor.CodeInvalid, Endpoint: ep.Name(), Text: fmt.Sprintf(
			"the endpoint does not declare the reducer %q, so procs cannot fold with it: name it in NewEndpoint",
			by.Name())}
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
func Aggregate[A, M, R, Acc any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M,
	by Aggregator[R, Acc]) (Acc, error) {
	var zero Acc
	if err := invalid(ep.Name(), by.Err()); err != nil {
		return zero, err
	}
	r, err := ask(ctx, to, ep,
		castRequest{kind: kindReduce, message: m, mode: modeFold, reducer: by.Name(), open: openAs[R]})
	if err != nil {
		return zero, err
	}
	out, err := by.foldAll(r.values())
	if err != nil {
		return zero, r.foldError(err)
	}
	return out, r.coverageError()
}

// Choose asks one rank, not the caller's own if another one is left: see ChooseRank.
func Choose[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M) (R, error) {
	_, v, err := ChooseRank(ctx, to, ep, m)
	return v, err
}

// ChooseRank asks a rank of the region and returns it with its answer. The rank is random among
// those whose end is unknown; an actor of the mesh asks its own rank only if no other is left. The
// owner of a mesh knows an end before its watch yields it. If the actor there has ended and did not
// handle the message, ChooseRank asks another rank.
func ChooseRank[A, M, R any](
	ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M,
) (rank int, v R, err error) {
	t, err := to.Target()
	if err == nil {
		err = t.validate()
	}
	if err != nil {
		return 0, v, err
	}
	p, name, err := t.sender(ctx)
	if err != nil {
		return 0, v, err
	}
	defer countChoice(p, time.Now(), &err)
	for _, rank = range candidates(p, name, t) {
		base, outside := t.Region.BaseRank(rank)
		if outside != nil {
			return rank, v, outside
		}
		v, err = ep.Call(ctx, actor.RefOf[A](latestProc(p, t.Placement.Proc(base)).Actor(t.Actor)).Via(t.Via), m)
		if !isUnhandled(err) {
			break
		}
	}
	return rank, v, err
}

// isUnhandled reports whether an error says that the actor has ended without a look at the message.
func isUnhandled(err error) bool {
	e, ok := errors.AsType[*actor.Error](err)
	return ok && !e.Ran && slices.Contains([]actor.Code{
		actor.CodeNoActor, actor.CodeStopped, actor.CodeFailed, actor.CodeProcDead,
	}, e.Code)
}

// candidates returns the ranks to choose from, from a random place on. The sender's own rank comes
// after them, and those of ended procs last.
func candidates(p *actor.Proc, name string, t Target) []int {
	ranks := t.ranks()
	if t.throttle != nil {
		ranks = shape.RanksOf(slices.Values(t.throttle.sample(t)))
	}
	all := slices.Collect(ranks.All())
	start := rand.IntN(len(all))
	var live, own, ended []int
	for i := range all {
		rank := all[(start+i)%len(all)]
		base, _ := t.Region.BaseRank(rank) // it cannot fail: the rank is one of the region
		at := latestProc(p, t.Placement.Proc(base))
		switch {
		case p.Members().IsEnded(at):
			ended = append(ended, rank)
		case at == p.ID() && name == t.Actor:
			own = append(own, rank)
		default:
			live = append(live, rank)
		}
	}
	return slices.Concat(live, own, ended)
}

// prepare runs the local checks of a cast.
func prepare[A, M, R any](to Mesh[A], ep actor.Endpoint[A, M, R], q castRequest) (*rollout, error) {
	t, err := to.Target()
	if err != nil {
		return nil, err
	}
	if err := ep.Err(); err != nil {
		return nil, err
	}
	if err := t.validate(); err != nil {
		return nil, err
	}
	q.endpoint = ep.Name()
	return newRollout(t, q), nil
}

// ask casts until every rank has its fate.
func ask[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R],
	q castRequest) (*rollout, error) {
	r, err := prepare(to, ep, q)
	if err != nil {
		return nil, err
	}
	return r, r.run(ctx, func(int) bool { return true })
}
