package cast

import (
	"cmp"
	"iter"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// fate is the known state of one rank.
type fate uint8

const (
	skipped  fate = iota // not asked, or not waited for
	waiting              // asked
	answered             // with a value
	failed               // without one
	missing              // silent until the deadline
	notAsked             // the cast stopped before
)

// collector holds the answers to one cast so far: the fate of each rank, and the values. The
// caller has one for all batches of its cast, and each folding process one for the ranks that it
// folds for. It is pure: its methods are the events of a cast, and change it alone.
//
//	ask ──▶ waiting ──▶ answer, contribute, fail, expire ──▶ answered, failed, missing
//	                                                stop ──▶ notAsked
//
// The first result of a rank counts, with one exception: a folded answer counts for ranks that were
// given up (CAST-6). A folded answer counts once, whichever way it came.
type collector struct {
	lo      int    // the first rank
	fates   []fate // of the ranks from lo on
	pending int    // ranks that are waiting
	settled int    // ranks that were asked and wait no longer

	own      []actor.Answer // of the ranks from lo on that answer one by one
	parts    []part         // of other ranks, ascending
	rerouted bool           // processes answer past silent ones
	deferred []part         // see mustDefer

	reasons []error
	reason  map[int]int // of a rank without a value: the index of its reason

	inOrder bool  // ranks are listed as they are settled
	order   []int // settled ranks since the last takeSettled
}

// newCollector makes a collector for the ranks from lo up to before hi; the first own ranks answer
// one by one. It waits for none of them yet.
func newCollector(lo, hi, own int) *collector {
	return &collector{lo: lo, fates: make([]fate, hi-lo), own: make([]actor.Answer, own), reason: map[int]int{}}
}

// expect starts the wait for ranks.
func (c *collector) expect(rs shape.Ranks) {
	for _, at := range c.fatesOf(rs) {
		if *at == skipped {
			*at = waiting
			c.pending++
		}
	}
}

// fatesOf yields the fates of those ranks within the collector's.
func (c *collector) fatesOf(rs shape.Ranks) iter.Seq2[int, *fate] {
	return func(yield func(int, *fate) bool) {
		for _, r := range rs.Runs() {
			for rank := max(r.First, c.lo); rank < min(r.End(), c.lo+len(c.fates)); rank++ {
				if !yield(rank, &c.fates[rank-c.lo]) {
					return
				}
			}
		}
	}
}

// all are the ranks of the collector.
func (c *collector) all() shape.Ranks { return shape.Interval(c.lo, len(c.fates)) }

// fateOf is the fate of a rank.
func (c *collector) fateOf(rank int) fate { return c.fates[rank-c.lo] }

// isPending reports whether nothing was heard of a rank.
func (c *collector) isPending(rank int) bool { return c.fateOf(rank) == waiting }

// settle ends the wait for a rank.
func (c *collector) settle(rank int, at *fate, f fate) {
	*at = f
	c.pending--
	c.settled++
	if c.inOrder {
		c.order = append(c.order, rank)
	}
}

// answer takes the answer of one rank. Only ranks that answer one by one may have a value.
func (c *collector) answer(rank int, a actor.Answer) {
	if a.Err != nil {
		c.fail(shape.Interval(rank, 1), failed, a.Err)
	} else if i := rank - c.lo; i >= 0 && i < len(c.own) && c.fates[i] == waiting {
		c.settle(rank, &c.fates[i], answered)
		c.own[i] = a
	}
}

// contribute takes folded answers, and returns the ranks of those that have their place, in any
// order. Ranks that another process gave up may still answer past it, once answers are rerouted.
func (c *collector) contribute(all contribution) (placed []shape.RankRun) {
	if c.rerouted { // so that no part waits for ranks between its own
		c.failAll(all.failed)
	}
	for _, p := range all.parts {
		switch {
		case !c.takes(p.ranks):
		case c.rerouted && c.mustDefer(p.ranks):
			c.deferred = append(c.deferred, p)
		case c.insert(p):
			placed = append(placed, p.ranks.Runs()...)
		}
	}
	c.failAll(all.failed)
	return placed
}

// failAll settles ranks that another process gave up.
func (c *collector) failAll(all []failure) {
	for _, f := range all {
		err := actor.FromWire(f.Error)
		if err.Code != actor.CodeDeadline {
			c.fail(f.Ranks, failed, err)
		} else if !c.rerouted {
			c.fail(f.Ranks, missing, err)
		}
	}
}

// takes reports whether a folded answer may be of these ranks.
func (c *collector) takes(rs shape.Ranks) bool {
	if rs.IsEmpty() || rs.First() < c.lo+len(c.own) || rs.End() > c.lo+len(c.fates) {
		return false
	}
	for _, at := range c.fatesOf(rs) {
		if *at == skipped {
			return false
		}
	}
	return true
}

// mustDefer reports whether a part must wait for the end. It came after a reroute around a silent
// process, and ranks between its own may still answer. Once the part has its place, they cannot be
// folded (CAST-6). At the end it counts if it covers all that came meanwhile.
func (c *collector) mustDefer(rs shape.Ranks) bool {
	end := rs.First()
	for _, r := range rs.Runs() {
		if slices.Contains(c.fates[end-c.lo:r.First-c.lo], waiting) {
			return true
		}
		end = r.End()
	}
	return false
}

// insert puts a part among the others; false when it has no place.
func (c *collector) insert(p part) bool {
	parts, gone, ok := mergePart(c.parts, p, c.rerouted)
	if !ok {
		return false
	}
	c.parts = parts
	for _, other := range gone {
		for _, at := range c.fatesOf(other.ranks) {
			*at = waiting
			c.pending++
			c.settled--
		}
	}
	for rank, at := range c.fatesOf(p.ranks) {
		if *at == waiting {
			c.settle(rank, at, answered)
		} else {
			*at = answered
		}
	}
	return true
}

// mergePart puts a part in its place among others. Overlapping parts came another way, past a
// folder that was silent and resumed. The part with more ranks stays, because folded answers cannot
// be separated; ok is false if the new one loses. After a reroute (around), the new part must cover
// all ranks present; the others arrive by themselves.
func mergePart(parts []part, p part, around bool) (all, gone []part, ok bool) {
	i, _ := slices.BinarySearchFunc(parts, p, func(a, b part) int {
		return cmp.Compare(a.ranks.End(), b.ranks.First()+1)
	})
	j := i
	others := 0
	for j < len(parts) && parts[j].ranks.First() < p.ranks.End() {
		if around && !p.ranks.ContainsAll(parts[j].ranks) {
			return parts, nil, false
		}
		others += parts[j].ranks.Len()
		j++
	}
	if others >= p.ranks.Len() {
		return parts, nil, false
	}
	gone = slices.Clone(parts[i:j])
	return slices.Replace(parts, i, j, p), gone, true
}

// fail settles those of the ranks that wait, without a value.
func (c *collector) fail(rs shape.Ranks, f fate, why error) {
	before := c.settled
	for rank, at := range c.fatesOf(rs) {
		if *at == waiting {
			c.settle(rank, at, f)
			c.reason[rank] = len(c.reasons)
		}
	}
	if c.settled > before {
		c.reasons = append(c.reasons, why)
	}
}

// expire ends the wait: silent ranks are missing.
func (c *collector) expire(why error) {
	for _, p := range c.deferred {
		c.insert(p)
	}
	c.deferred = nil
	if c.pending > 0 {
		c.fail(c.all(), missing, why)
	}
}

// stop ends the cast before these ranks. None of them is waited for.
func (c *collector) stop(rs shape.Ranks, why error) {
	c.expect(rs)
	c.fail(rs, notAsked, why)
}

// values yields the answers in rank order, and whether each is still one rank's own answer.
func (c *collector) values() iter.Seq2[actor.Answer, bool] {
	return func(yield func(actor.Answer, bool) bool) {
		for i, a := range c.own {
			if c.fates[i] == answered && !yield(a, true) {
				return
			}
		}
		for _, p := range c.parts {
			if !yield(p.value, false) {
				return
			}
		}
	}
}

// isOwn reports whether a rank has answered by itself.
func (c *collector) isOwn(rank int) bool {
	return rank-c.lo < len(c.own) && c.fateOf(rank) == answered
}

// ranksWith are the ranks of some fates.
func (c *collector) ranksWith(some ...fate) shape.Ranks {
	var rs shape.RanksWriter
	for i, f := range c.fates {
		if slices.Contains(some, f) {
			rs.Add(c.lo+i, 1)
		}
	}
	return rs.Ranks()
}

// err is the reason of a rank without a value.
func (c *collector) err(rank int) error {
	if f := c.fateOf(rank); f != failed && f != missing && f != notAsked {
		return nil
	}
	return c.reasons[c.reason[rank]]
}

// failures are the ranks without a value, by their reasons.
func (c *collector) failures() (all []failure) {
	by := make([]shape.RanksWriter, len(c.reasons))
	for rank := range c.ranksWith(failed, missing).All() {
		by[c.reason[rank]].Add(rank, 1)
	}
	for i := range by {
		if rs := by[i].Ranks(); !rs.IsEmpty() {
			all = append(all, failure{rs, actor.EncodeError(c.reasons[i])})
		}
	}
	return all
}

// takeSettled returns the ranks settled since the last call, in order.
func (c *collector) takeSettled() []int {
	rs := c.order
	c.order = nil
	return rs
}
