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

// Partial is what a Reduce knows while answers still come.
type Partial[R any] struct {
	Value    R        // folded, in rank order, from those who have answered; the zero value when nobody has
	Coverage Coverage // who has not is missing, in the last one only when nobody waits for him any more
	Err      error    // why there is nothing more: the cast was not sent, its answers cannot be folded, or, in the last, a *CoverageError
}

// ReduceStream is Reduce that also yields what is folded so far, whenever more ranks have answered or failed, at
// most once in every: so often, but every 50 ms at most, each process that folds for several ranks sends what it
// has. What is yielded has each of them once, in rank order. The last one is what Reduce returns. Leaving the loop
// lets go of the rest. A throttled mesh is refused: Stream tells of its batches.
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
		a, err := begin(ctx, to, ep, question{message: m, mode: modeFold, reducer: by.Name(), partly: max(every, leastTell)})
		if err != nil {
			yield(Partial[R]{Err: err})
			return
		}
		defer a.close()
		for was := 0; a.next(ctx); {
			a.pause(ctx, every)
			if a.open == 0 {
				break
			}
			parts, coverage := a.soFar()
			now := partial(a, by, parts, coverage)
			settled := now.Coverage.Answered + len(now.Coverage.Failed)
			if settled <= was { // not every word has more
				continue
			}
			if was = settled; !yield(now) {
				return
			}
		}
		last := partial(a, by, a.parts, a.coverage()) // without what is a word only
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

// partial folds what there is.
func partial[R any](a *asking, by actor.Reducer[R], parts []part, coverage Coverage) Partial[R] {
	v, err := foldAll(by, parts)
	if err != nil {
		err = fmt.Errorf("fold the answers of %s: %w", a.endpoint, err)
	}
	return Partial[R]{Value: v, Coverage: coverage, Err: err}
}

// hold keeps what a folder says that it has so far, until it says more. The inbox is locked.
func (a *asking) hold(from subjects.ProcID, parts []part) {
	if a.words == nil {
		a.words = map[subjects.ProcID][]part{}
	}
	before, known := a.words[from]
	switch {
	case !known && len(a.words) >= len(a.fates): // somebody makes up processes
	case countOf(parts) > countOf(before): // they come in any order
		a.words[from] = parts
	}
}

// countOf is how many ranks have answers in parts.
func countOf(parts []part) (n int) {
	for _, p := range parts {
		n += p.ranks.count()
	}
	return n
}

// soFar is what is known of a cast: the answers that have come, and between them what others have said that they
// have folded of those that have not. These are words only: they settle nothing.
func (a *asking) soFar() ([]part, Coverage) {
	var words []part
	a.mu.Lock()
	for _, said := range a.words {
		words = append(words, said...)
	}
	a.mu.Unlock()
	slices.SortFunc(words, func(x, y part) int {
		return cmp.Or(cmp.Compare(y.ranks.count(), x.ranks.count()), cmp.Compare(x.ranks[0].First, y.ranks[0].First))
	})
	known := *a.tally
	known.parts, known.fates = slices.Clone(a.parts), slices.Clone(a.fates)
	for _, p := range words {
		parts, _, ok := among(known.parts, p, true)
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

// piece is what ranks have answered, none of which is behind one that is waited for: nothing will come between.
type piece struct {
	ranks  ranks
	values []own // here: of one rank of this process
}

// pieces are copies of all answers so far: what is folded now is folded again with the others in the end, and a
// reducer may take its first value apart.
func (f *folding) pieces() (all []piece) {
	var p piece
	parts, end := f.parts, 0 // of the part that was taken last
	for i, at := range f.fates {
		rank := f.lo + i
		switch {
		case at == waiting && rank >= end && len(p.ranks) > 0:
			all, p = append(all, p), piece{}
		case at != answered:
		case i < len(f.own) && f.own[i].here:
			raw, err := f.own[i].Raw()
			if err != nil {
				return nil // which is said in the end
			}
			p.ranks, p.values = p.ranks.with(span{rank, 1}), append(p.values, own{actor.Encoded(raw), true})
		default:
			p.ranks = p.ranks.with(span{rank, 1})
			if len(parts) > 0 && parts[0].ranks[0].First == rank {
				p.values, end, parts = append(p.values, own{parts[0].value, false}), parts[0].end(), parts[1:]
			}
		}
	}
	if len(p.ranks) > 0 {
		all = append(all, p)
	}
	return all
}

// word says home how far a fold is, with what is folded of some pieces. What cannot be folded is said in the end.
func (fs *folds) word(j job, settled ranks, pieces []piece) {
	c := contribution{}
	by, err := fs.reducing(j)
	for _, p := range pieces {
		var acc any
		if err == nil {
			acc, err = by.each(func(yield func(actor.Answer, bool) bool) {
				for _, v := range p.values {
					if !yield(v.Answer, v.here) {
						return
					}
				}
			})
		}
		if err == nil {
			c.parts = append(c.parts, part{p.ranks, actor.Answer{Value: acc}})
		}
	}
	values, ext, err := c.word(settled)
	if err != nil {
		values, ext, _ = contribution{}.word(settled)
	}
	fs.p.AnswerWith(routerActor, j.home, actor.Answer{Value: values}, ext)
}
