package cast

import (
	"sync/atomic"

	"github.com/castnet-io/castnet/actor"
)

// sheaf holds the answers of a process's own ranks to one cast. Many goroutines put answers in, without a
// lock; whoever puts in the last says so, and one reader at a time takes them out.
type sheaf struct {
	lo    int
	slots []slot // of the ranks from lo on
	left  atomic.Int64
	taken int // the reader's
}

// slot is the answer of one rank.
type slot struct {
	state atomic.Uint32
	a     actor.Answer
}

// States of a slot.
const (
	vacant  uint32 = iota
	filling        // a is being written
	filled
	emptied
)

// newSheaf waits for the ranks from lo up to below, but those that are skipped.
func newSheaf(lo, below int, skip ranks) *sheaf {
	s := &sheaf{lo: lo, slots: make([]slot, below-lo)}
	for _, gone := range skip {
		for view := max(gone.First, lo); view < min(gone.end(), below); view++ {
			s.slots[view-lo].state.Store(emptied)
			s.taken++
		}
	}
	s.left.Store(int64(len(s.slots) - s.taken))
	return s
}

// put takes the answer of a rank, the first counts, and reports whether it is the last of all.
func (s *sheaf) put(view int, a actor.Answer) (last bool) {
	i := view - s.lo
	if i < 0 || i >= len(s.slots) || !s.slots[i].state.CompareAndSwap(vacant, filling) {
		return false
	}
	s.slots[i].a = a
	s.slots[i].state.Store(filled)
	return s.left.Add(-1) == 0
}

// drain takes out what has come since the last time.
func (s *sheaf) drain(take func(view int, a actor.Answer)) {
	if s.taken == len(s.slots) {
		return
	}
	for i := range s.slots {
		if at := &s.slots[i]; at.state.CompareAndSwap(filled, emptied) {
			take(s.lo+i, at.a)
			at.a = actor.Answer{}
			s.taken++
		}
	}
}
