package cast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
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
		a, err := startCast(ctx, to, ep, castRequest{message: m, mode: modeFold, reducer: by.Name(), partialEvery: max(every, minProgressInterval)})
		if err != nil {
			yield(Partial[R]{Err: err})
			return
		}
		defer a.close()
		for was := 0; a.awaitEvent(ctx); {
			a.awaitMore(ctx, every)
			if a.pending == 0 {
				break
			}
			parts, coverage := a.partialResult()
			now := newPartial(a, by, parts, coverage)
			settled := now.Coverage.Answered + len(now.Coverage.Failed)
			if settled <= was { // a report may bring nothing new
				continue
			}
			was = settled
			if !yield(now) {
				return
			}
		}
		last := newPartial(a, by, a.parts, a.coverage()) // without answers that are only reports
		if last.Err == nil {
			last.Err = a.err()
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
func newPartial[R any](a *operation, by actor.Reducer[R], parts []part, coverage Coverage) Partial[R] {
	v, err := foldAll(by, parts)
	if err != nil {
		err = fmt.Errorf("fold the answers of %s: %w", a.endpoint, err)
	}
	return Partial[R]{Value: v, Coverage: coverage, Err: err}
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

// countRanks is how many ranks have answers in parts.
func countRanks(parts []part) (n int) {
	for _, p := range parts {
		n += p.ranks.count()
	}
	return n
}

// partialResult combines the received answers with the folders' partial folds of the outstanding
// ones. Partial folds settle no rank.
func (a *operation) partialResult() ([]part, Coverage) {
	var words []part
	a.mu.Lock()
	for _, said := range a.progress {
		words = append(words, said...)
	}
	a.mu.Unlock()
	slices.SortFunc(words, func(x, y part) int {
		return cmp.Or(cmp.Compare(y.ranks.count(), x.ranks.count()), cmp.Compare(x.ranks[0].First, y.ranks[0].First))
	})
	known := *a.collector
	known.parts, known.fates = slices.Clone(a.parts), slices.Clone(a.fates)
	for _, p := range words {
		parts, _, ok := mergePart(known.parts, p, true)
		if !ok {
			continue
		}
		known.parts = parts
		for _, s := range p.ranks {
			for rank := s.First; rank < s.end(); rank++ {
				known.fates[rank] = answered
			}
		}
	}
	return known.parts, known.coverage()
}

// piece is a fold of adjacent ranks: no outstanding answer lies between them.
type piece struct {
	ranks  ranks
	values []localAnswer // here: of one rank of this process
}

// pieces are copies of all answers so far. They are folded again at the end, and a reducer may
// modify its first value.
func (f *aggregationState) pieces() (all []piece) {
	var p piece
	parts := f.parts
	end := 0 // of the part that was taken last
	for i, at := range f.fates {
		rank := f.lo + i
		switch {
		case at == waiting && rank >= end && len(p.ranks) > 0:
			all = append(all, p)
			p = piece{}
		case at != answered:
		case i < len(f.local) && f.local[i].present:
			raw, err := f.local[i].Raw()
			if err != nil {
				return nil // reported at the end
			}
			p.ranks = p.ranks.with(span{rank, 1})
			p.values = append(p.values, localAnswer{actor.EncodedAnswer(raw), true})
		default:
			p.ranks = p.ranks.with(span{rank, 1})
			if len(parts) > 0 && parts[0].ranks[0].First == rank {
				p.values = append(p.values, localAnswer{parts[0].value, false})
				end = parts[0].end()
				parts = parts[1:]
			}
		}
	}
	if len(p.ranks) > 0 {
		all = append(all, p)
	}
	return all
}

// sendProgress reports a fold's progress to the caller, with the partial fold of some pieces. An
// error of a fold is reported only at the end.
func (fs *aggregations) sendProgress(j job, settled ranks, pieces []piece) {
	c := contribution{}
	by, err := fs.reducerFor(j)
	for _, p := range pieces {
		var acc any
		if err == nil {
			acc, err = by.foldAll(func(yield func(actor.Answer, bool) bool) {
				for _, v := range p.values {
					if !yield(v.Answer, v.present) {
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
	fs.p.SendAnswer(routerActor, j.replyTo, actor.Answer{Value: values}, ext)
}
