package cast

import (
	"cmp"
	"iter"
	"slices"

	"github.com/castnet-io/castnet/actor"
)

// aggregationState is a folding node's state of one cast. It is pure: answers, failures and expiry
// go in; open reports whether ranks are outstanding. A folded answer counts once, whichever way it
// came (CAST-6).
type aggregationState struct {
	lo      int           // the first rank it folds for
	fates   []fate        // of the ranks from there on
	pending int           // that have none
	local   []localAnswer // of the first ranks: the process's own
	parts   []part        // of others, ascending

	failed   []failure // also of ranks that have answered after all
	rerouted bool      // see among
	deferred []part    // see holds
}

// localAnswer is the answer of a rank of this process.
type localAnswer struct {
	actor.Answer
	present bool
}

// newAggregationState waits for the ranks from lo up to hi except skip. Ranks before below answer
// one by one.
func newAggregationState(lo, below, hi int, skip ranks) *aggregationState {
	f := &aggregationState{lo: lo, fates: make([]fate, hi-lo), pending: hi - lo, local: make([]localAnswer, below-lo)}
	for _, s := range skip {
		for rank := max(s.First, lo); rank < min(s.end(), hi); rank++ {
			f.fates[rank-lo] = skipped
			f.pending--
		}
	}
	return f
}

func (f *aggregationState) covers(rs ranks) bool {
	return len(rs) > 0 && rs[0].First >= f.lo && rs[len(rs)-1].end() <= f.lo+len(f.fates)
}

// fatesOf yields the fates of those ranks within the fold.
func (f *aggregationState) fatesOf(rs ranks) iter.Seq2[int, *fate] {
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

// addLocal takes the answer of one of the process's own ranks.
func (f *aggregationState) addLocal(rank int, a actor.Answer) {
	if a.Err != nil {
		f.addFailure(failure{ranks{{rank, 1}}, actor.EncodeError(a.Err)})
		return
	}
	if i := rank - f.lo; i >= 0 && i < len(f.local) && f.markAnswered(&f.fates[i]) {
		f.local[i] = localAnswer{a, true}
	}
}

// markAnswered records the answer of a rank, once. A rank that was given up may still answer.
func (f *aggregationState) markAnswered(at *fate) bool {
	switch *at {
	case waiting:
		f.pending--
	case failed:
	default:
		return false
	}
	*at = answered
	return true
}

// addContribution adds a contribution from below.
func (f *aggregationState) addContribution(c contribution) {
	if f.rerouted { // so that they are not waited for among the parts
		f.addFailures(c.failed)
	}
	for _, p := range c.parts {
		switch {
		case !f.covers(p.ranks) || p.ranks[0].First < f.lo+len(f.local) || !f.noneSkipped(p.ranks):
		case f.rerouted && mustDefer(p.ranks, f.isPending):
			f.deferred = append(f.deferred, p)
		default:
			f.insertPart(p)
		}
	}
	f.addFailures(c.failed)
}

// insertPart puts a part among the others.
func (f *aggregationState) insertPart(p part) {
	parts, gone, ok := mergePart(f.parts, p, f.rerouted)
	if !ok {
		return
	}
	f.parts = parts
	for _, other := range gone {
		for _, at := range f.fatesOf(other.ranks) {
			*at = waiting
			f.pending++
		}
	}
	for _, at := range f.fatesOf(p.ranks) {
		f.markAnswered(at)
	}
}

// addFailures records another process's failures. Ranks that it stopped waiting for may still
// answer past it.
func (f *aggregationState) addFailures(all []failure) {
	for _, e := range all {
		if !f.rerouted || actor.FromWire(e.Error).Code != actor.CodeDeadline {
			f.addFailure(e)
		}
	}
}

// mergePart puts a part in its place among others. Overlapping parts came another way, past a
// folder that was silent and resumed. The part with more ranks stays, because folded answers cannot
// be separated; ok is false if the new one loses. After a reroute (around), the new part must cover
// all ranks present; the others arrive by themselves.
func mergePart(parts []part, p part, around bool) (all, gone []part, ok bool) {
	i, _ := slices.BinarySearchFunc(parts, p, func(a, b part) int { return cmp.Compare(a.end(), b.ranks[0].First+1) })
	j := i
	others := 0
	for j < len(parts) && parts[j].ranks[0].First < p.end() {
		if around && !p.ranks.containAll(parts[j].ranks) {
			return parts, nil, false
		}
		others += parts[j].ranks.count()
		j++
	}
	if others >= p.ranks.count() {
		return parts, nil, false
	}
	gone = slices.Clone(parts[i:j])
	return slices.Replace(parts, i, j, p), gone, true
}

// mustDefer reports whether a part must wait for the end. It came after a reroute around a silent
// process, and ranks between its own may still answer; once the part has its place, they cannot be
// folded (CAST-8). At the end it counts if it covers all that came meanwhile.
func mustDefer(rs ranks, waits func(rank int) bool) bool {
	for i := 1; i < len(rs); i++ {
		for rank := rs[i-1].end(); rank < rs[i].First; rank++ {
			if waits(rank) {
				return true
			}
		}
	}
	return false
}

// noneSkipped reports whether none of the ranks is skipped.
func (f *aggregationState) noneSkipped(rs ranks) bool {
	for _, at := range f.fatesOf(rs) {
		if *at == skipped {
			return false
		}
	}
	return true
}

// isPending reports whether nothing was heard of a rank.
func (f *aggregationState) isPending(view int) bool { return f.fates[view-f.lo] == waiting }

// addFailure gives up silent ranks.
func (f *aggregationState) addFailure(e failure) {
	var news ranks
	for rank, at := range f.fatesOf(e.Ranks) {
		if *at == waiting {
			*at = failed
			f.pending--
			news = news.with(span{rank, 1})
		}
	}
	if len(news) > 0 {
		f.failed = append(f.failed, failure{news, e.Error})
	}
}

// expire gives up all silent ranks.
func (f *aggregationState) expire(why []byte) {
	for _, p := range f.deferred {
		f.insertPart(p)
	}
	if f.pending > 0 {
		f.addFailure(failure{ranks{{f.lo, len(f.fates)}}, why})
	}
}

// values yields the answers in rank order, and whether each is still one rank's own answer.
func (f *aggregationState) values() iter.Seq2[actor.Answer, bool] {
	return func(yield func(actor.Answer, bool) bool) {
		parts := f.parts
		for i, a := range f.local {
			for ; len(parts) > 0 && parts[0].ranks[0].First <= f.lo+i; parts = parts[1:] {
				if !yield(parts[0].value, false) {
					return
				}
			}
			if a.present && !yield(a.Answer, true) {
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

// hasLocal reports whether any of the process's own ranks has answered.
func (f *aggregationState) hasLocal() bool {
	return slices.ContainsFunc(f.local, func(o localAnswer) bool { return o.present })
}

// answeredRanks are the ranks with answers in values.
func (f *aggregationState) answeredRanks() ranks {
	return f.ranksWhere(func(at fate) bool { return at == answered })
}

// settledRanks are the ranks that have answered or failed.
func (f *aggregationState) settledRanks() ranks {
	return f.ranksWhere(func(at fate) bool { return at == answered || at == failed })
}

func (f *aggregationState) ranksWhere(are func(fate) bool) (rs ranks) {
	for i, at := range f.fates {
		if are(at) {
			rs = rs.with(span{f.lo + i, 1})
		}
	}
	return rs
}

// failures are the ranks without an answer, with their reasons.
func (f *aggregationState) failures() (all []failure) {
	for _, e := range f.failed {
		var still ranks
		for rank, at := range f.fatesOf(e.Ranks) {
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
