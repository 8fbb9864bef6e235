package cast

import (
	"cmp"
	"iter"
	"slices"

	"github.com/castnet-io/castnet/actor"
)

// folding is what a node on the way home knows of one cast. It is pure: answers, failures and the end of
// patience go in, and open says when there is nothing left to wait for. An answer that was folded in
// counts once, whichever way it came (CAST-6).
type folding struct {
	lo    int    // the first rank it folds for
	fates []fate // of the ranks from there on
	open  int    // that have none
	own   []own  // of the first ranks: the process's own
	parts []part // of others, ascending

	failed []failure // also of ranks that have answered after all
	around bool      // see among
	held   []part    // see holds
}

// own is the answer of a rank of this process.
type own struct {
	actor.Answer
	here bool
}

// newFolding waits for the ranks from lo up to hi but those that are skipped; those before below answer one
// by one.
func newFolding(lo, below, hi int, skip ranks) *folding {
	f := &folding{lo: lo, fates: make([]fate, hi-lo), open: hi - lo, own: make([]own, below-lo)}
	for _, s := range skip {
		for rank := max(s.First, lo); rank < min(s.end(), hi); rank++ {
			f.fates[rank-lo] = skipped
			f.open--
		}
	}
	return f
}

func (f *folding) has(rs ranks) bool {
	return len(rs) > 0 && rs[0].First >= f.lo && rs[len(rs)-1].end() <= f.lo+len(f.fates)
}

// of yields the fates of those ranks that it folds for.
func (f *folding) of(rs ranks) iter.Seq2[int, *fate] {
	return func(yield func(int, *fate) bool) {
		for _, s := range rs {
			for rank := max(s.First, f.lo); rank < min(s.end(), f.lo+len(f.fates)); rank++ {
				if !yield(rank, &f.fates[rank-f.lo]) {
					return
				}
			}
		}
	}
}

// answer takes the answer of one of the process's own ranks.
func (f *folding) answer(rank int, a actor.Answer) {
	if a.Err != nil {
		f.fail(failure{ranks{{rank, 1}}, actor.EncodeError(a.Err)})
		return
	}
	if i := rank - f.lo; i >= 0 && i < len(f.own) && f.settle(&f.fates[i]) {
		f.own[i] = own{a, true}
	}
}

// settle notes that a rank has answered, once. One that was given up may answer all the same.
func (f *folding) settle(at *fate) bool {
	switch *at {
	case waiting:
		f.open--
	case failed:
	default:
		return false
	}
	*at = answered
	return true
}

// put takes what came from below.
func (f *folding) put(c contribution) {
	if f.around { // so that they are not waited for among the parts
		f.failAll(c.failed)
	}
	for _, p := range c.parts {
		switch {
		case !f.has(p.ranks) || p.ranks[0].First < f.lo+len(f.own) || !f.meant(p.ranks):
		case f.around && holds(p.ranks, f.waits):
			f.held = append(f.held, p)
		default:
			f.place(p)
		}
	}
	f.failAll(c.failed)
}

// place puts a part among the others.
func (f *folding) place(p part) {
	parts, gone, ok := among(f.parts, p, f.around)
	if !ok {
		return
	}
	f.parts = parts
	for _, other := range gone {
		for _, at := range f.of(other.ranks) {
			*at = waiting
			f.open++
		}
	}
	for _, at := range f.of(p.ranks) {
		f.settle(at)
	}
}

// failAll gives up what another process has. Whom it did not wait for any longer may still answer past it.
func (f *folding) failAll(all []failure) {
	for _, e := range all {
		if !f.around || actor.FromWire(e.Error).Code != actor.CodeDeadline {
			f.fail(e)
		}
	}
}

// among puts a part in its place among others. Those that it meets came another way, past who folded it, which
// may have been silent and woken up. The one with more ranks stays, be it this one, in the place of those that
// are gone, or not (false), for what is folded cannot be taken apart. When those below a silent one were asked
// to answer past it (around), this one must have all that is there: the rest comes by itself.
func among(parts []part, p part, around bool) (all, gone []part, ok bool) {
	i, _ := slices.BinarySearchFunc(parts, p, func(a, b part) int { return cmp.Compare(a.end(), b.ranks[0].First+1) })
	j, others := i, 0
	for j < len(parts) && parts[j].ranks[0].First < p.end() {
		if around && !p.ranks.containAll(parts[j].ranks) {
			return parts, nil, false
		}
		others, j = others+parts[j].ranks.count(), j+1
	}
	if others >= p.ranks.count() {
		return parts, nil, false
	}
	gone = slices.Clone(parts[i:j])
	return slices.Replace(parts, i, j, p), gone, true
}

// holds reports whether a part must wait for the end: it came when those below a silent process were asked to
// answer past it, and between its ranks are some who may still do so, but cannot be folded in any more once it
// has its place (CAST-8). At the end it counts if it has all that came meanwhile.
func holds(rs ranks, waits func(rank int) bool) bool {
	for i := 1; i < len(rs); i++ {
		for rank := rs[i-1].end(); rank < rs[i].First; rank++ {
			if waits(rank) {
				return true
			}
		}
	}
	return false
}

// meant reports whether none of the ranks is skipped.
func (f *folding) meant(rs ranks) bool {
	for _, at := range f.of(rs) {
		if *at == skipped {
			return false
		}
	}
	return true
}

// waits reports whether nothing was heard of a rank.
func (f *folding) waits(view int) bool { return f.fates[view-f.lo] == waiting }

// fail gives up ranks that nothing was heard of.
func (f *folding) fail(e failure) {
	var news ranks
	for rank, at := range f.of(e.Ranks) {
		if *at == waiting {
			*at = failed
			f.open--
			news = news.with(span{rank, 1})
		}
	}
	if len(news) > 0 {
		f.failed = append(f.failed, failure{news, e.Error})
	}
}

// expire gives up all that nothing was heard of.
func (f *folding) expire(why []byte) {
	for _, p := range f.held {
		f.place(p)
	}
	if f.open > 0 {
		f.fail(failure{ranks{{f.lo, len(f.fates)}}, why})
	}
}

// values yields the answers in rank order, and whether each is one rank's own, which nothing was folded
// into yet.
func (f *folding) values() iter.Seq2[actor.Answer, bool] {
	return func(yield func(actor.Answer, bool) bool) {
		parts := f.parts
		for i, a := range f.own {
			for ; len(parts) > 0 && parts[0].ranks[0].First <= f.lo+i; parts = parts[1:] {
				if !yield(parts[0].value, false) {
					return
				}
			}
			if a.here && !yield(a.Answer, true) {
				return
			}
		}
		for _, p := range parts {
			if !yield(p.value, false) {
				return
			}
		}
	}
}

// here reports whether any of the process's own ranks has answered.
func (f *folding) here() bool { return slices.ContainsFunc(f.own, func(o own) bool { return o.here }) }

// answered are the ranks whose answers are in values.
func (f *folding) answered() ranks { return f.those(func(at fate) bool { return at == answered }) }

// settled are the ranks that nothing more is waited for of.
func (f *folding) settled() ranks {
	return f.those(func(at fate) bool { return at == answered || at == failed })
}

func (f *folding) those(are func(fate) bool) (rs ranks) {
	for i, at := range f.fates {
		if are(at) {
			rs = rs.with(span{f.lo + i, 1})
		}
	}
	return rs
}

// failures are the ranks that have no answer, and why.
func (f *folding) failures() (all []failure) {
	for _, e := range f.failed {
		var still ranks
		for rank, at := range f.of(e.Ranks) {
			if *at == failed {
				still = still.with(span{rank, 1})
			}
		}
		if len(still) > 0 {
			all = append(all, failure{still, e.Error})
		}
	}
	return all
}
