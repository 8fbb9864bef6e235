package cast

import (
	"sync/atomic"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// resultSlots holds the answers of a process's own ranks to one cast. Many goroutines put answers
// in without a lock. The last put reports itself; one reader at a time takes answers out.
type resultSlots struct {
	lo      int
	slots   []slot // of the ranks from lo on
	pending atomic.Int64
	taken   int // the reader's
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

// newResultSlots waits for the ranks from lo up to below, except skip.
func newResultSlots(lo, below int, skip shape.Ranks) *resultSlots {
	s := &resultSlots{lo: lo, slots: make([]slot, below-lo)}
	for gone := range skip.Within(lo, below) {
		for view := gone.First; view < gone.End(); view++ {
			s.slots[view-lo].state.Store(emptied)
			s.taken++
		}
	}
	s.pending.Store(int64(len(s.slots) - s.taken))
	return s
}

// put stores the first answer of a rank, and reports whether it is the last outstanding one.
func (s *resultSlots) put(view int, a actor.Answer) (last bool) {
	i := view - s.lo
	if i < 0 || i >= len(s.slots) {
		return false
	}
	at := &s.slots[i]
	if !at.state.CompareAndSwap(vacant, filling) {
		return false
	}
	at.a = a
	at.state.Store(filled)
	return s.pending.Add(-1) == 0
}

// giveUp stops the wait for ranks without an answer. The last of the others is then the last of
// all.
func (s *resultSlots) giveUp(gone shape.RankRun) {
	for view := max(gone.First, s.lo); view < min(gone.End(), s.lo+len(s.slots)); view++ {
		if s.slots[view-s.lo].state.CompareAndSwap(vacant, emptied) {
			s.taken++
			s.pending.Add(-1)
		}
	}
}

// drain takes out the answers since the last call.
func (s *resultSlots) drain(take func(view int, a actor.Answer)) {
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
