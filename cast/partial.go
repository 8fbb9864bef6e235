package cast

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Partial is the state of a Reduce while answers still come.
type Partial[R any] struct {
	Value    R        // folded in rank order from the answers so far; zero without any
	Coverage Coverage // a rank without an answer is missing; in the last one only after the deadline
	Err      error    // the cast was not sent, its answers cannot be folded, or, in the last, a *CoverageError
}

// ReduceStream is Reduce that also yields partial folds, whenever more ranks have answered or
// failed, at most once in every. Each process that folds for several ranks sends its partial fold
// at that rate, but every 50 ms at most. A partial fold has each answer once, in rank order. The
// last value is the result of Reduce. Leaving the loop cancels the rest. A throttled mesh is
// refused: use Stream.
func ReduceStream[A, M, R any](ctx context.Context, to Mesh[A], ep actor.Endpoint[A, M, R], m M,
	by actor.Reducer[R], every time.Duration) iter.Seq[Partial[R]] {
	return func(yield func(Partial[R]) bool) {
		r, err := prepare(to, ep, castRequest{kind: kindReduce, message: m, mode: modeFold, reducer: by.Name(),
			partialEvery: max(every, minProgressInterval)})
		err = errors.Join(by.Err(), reducible(ep, by), err)
		if err == nil && r.target.throttle != nil {
			err = invalid(ep.Name(), errors.New("ReduceStream of a throttled mesh: use Stream"))
		}
		if err != nil {
			yield(Partial[R]{Err: err})
			return
		}
		ctx, cancel := r.withDeadline(ctx)
		defer cancel()
		ctx, span := r.startSpan(ctx)
		a, err := r.start(ctx)
		defer func() { r.endSpan(span, err) }()
		if err != nil {
			r.count(err)
			yield(Partial[R]{Err: err})
			return
		}
		defer func() {
			a.close()
			r.count(nil)
		}()
		for was := 0; a.awaitEvent(ctx); {
			a.awaitMore(ctx, every)
			if a.pending == 0 {
				break
			}
			now := newPartial(a.partialResult(), by)
			settled := now.Coverage.Answered + len(now.Coverage.Failed)
			if settled <= was { // a report may bring nothing new
				continue
			}
			was = settled
			if !yield(now) {
				return
			}
		}
		last := newPartial(r, by) // without answers that are only reports
		if last.Err == nil {
			last.Err = r.coverageError()
		}
		yield(last)
	}
}

// awaitMore waits up to d for more answers, unless all are there.
func (a *operation) awaitMore(ctx context.Context, d time.Duration) {
	if a.pending == 0 || d <= 0 {
		return
	}
	over := time.NewTimer(d)
	defer over.Stop()
	for a.pending > 0 {
		select {
		case <-over.C:
			return
		case <-ctx.Done():
			return
		case <-a.wake:
			a.drainInbox()
		}
	}
}

// newPartial folds the answers so far.
func newPartial[R any](r *rollout, by actor.Reducer[R]) Partial[R] {
	v, err := foldAll(r, by)
	return Partial[R]{Value: v, Coverage: r.coverage(), Err: err}
}

// recordProgress keeps a folder's partial fold until its next one. The inbox is locked.
func (a *operation) recordProgress(from subjects.ProcID, parts []part) {
	if a.progress == nil {
		a.progress = map[subjects.ProcID][]part{}
	}
	before, known := a.progress[from]
	if !known && len(a.progress) >= len(a.fates) {
		return // more processes than ranks: the reports are forged
	}
	if countRanks(parts) > countRanks(before) { // reports arrive in any order
		a.progress[from] = parts
	}
}

// countRanks counts the ranks with answers in parts.
func countRanks(parts []part) (n int) {
	for _, p := range parts {
		n += p.ranks.Len()
	}
	return n
}

// partialResult combines the received answers with the folders' partial folds of the outstanding
// ones. Partial folds settle no rank.
func (a *operation) partialResult() *rollout {
	var words []part
	a.mu.Lock()
	for _, said := range a.progress {
		words = append(words, said...)
	}
	a.mu.Unlock()
	slices.SortFunc(words, func(x, y part) int {
		return cmp.Or(cmp.Compare(y.ranks.Len(), x.ranks.Len()), cmp.Compare(x.ranks.First(), y.ranks.First()))
	})
	known := *a.collector
	known.parts, known.fates = slices.Clone(a.parts), slices.Clone(a.fates)
	for _, p := range words {
		parts, _, ok := mergePart(known.parts, p, true)
		if !ok {
			continue
		}
		known.parts = parts
		for _, at := range known.fatesOf(p.ranks) {
			*at = answered
		}
	}
	return &rollout{collector: &known, target: a.target, request: a.request}
}

// piece is a fold of adjacent ranks: no outstanding answer lies between them.
type piece struct {
	ranks  shape.Ranks
	values []pieceValue
}

// pieceValue is an answer; own: of one rank of this process.
type pieceValue struct {
	answer actor.Answer
	own    bool
}

// pieces are copies of all answers so far. They are folded again at the end, and a reducer may
// modify its first value.
func (c *collector) pieces() (all []piece) {
	var ranks shape.RanksWriter
	var values []pieceValue
	parts := c.parts
	end := 0 // of the part that was taken last
	for i, at := range c.fates {
		rank := c.lo + i
		switch {
		case at == waiting && rank >= end && len(values) > 0:
			all = append(all, piece{ranks.Ranks(), values})
			ranks = shape.RanksWriter{}
			values = nil
		case at != answered:
		case i < len(c.own):
			raw, err := c.own[i].Raw()
			if err != nil {
				return nil // reported at the end
			}
			ranks.Add(rank, 1)
			values = append(values, pieceValue{actor.EncodedAnswer(raw), true})
		default:
			ranks.Add(rank, 1)
			if len(parts) > 0 && parts[0].ranks.First() == rank {
				values = append(values, pieceValue{parts[0].value, false})
				end = parts[0].ranks.End()
				parts = parts[1:]
			}
		}
	}
	if len(values) > 0 {
		all = append(all, piece{ranks.Ranks(), values})
	}
	return all
}

// sendProgress reports a fold's progress to the caller, with the partial fold of some pieces. An
// error of a fold is reported only at the end.
func (fs *aggregations) sendProgress(j job, settled shape.Ranks, pieces []piece) {
	c := contribution{}
	by, err := fs.reducerFor(j)
	for _, p := range pieces {
		var acc any
		if err == nil {
			acc, err = by.foldAll(func(yield func(actor.Answer, bool) bool) {
				for _, v := range p.values {
					if !yield(v.answer, v.own) {
						return
					}
				}
			})
		}
		if err == nil {
			c.parts = append(c.parts, part{p.ranks, actor.Answer{Value: acc}})
		}
	}
	values, ext, err := c.encodeProgress(settled)
	if err != nil {
		values, ext, _ = contribution{}.encodeProgress(settled)
	}
	fs.p.Casts().SendAnswer(routerActor, j.replyTo, actor.Answer{Value: values}, ext)
}
