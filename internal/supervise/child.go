package supervise

import (
	"fmt"
	"slices"
	"time"
)

// phase is where a child is between two lives.
//
//	alive ── Stop ──▶ stopping ── Ended ──▶ down ── Start ──▶ starting ── Restarted ──▶ alive
//	  └────────────── Ended ────────────────▲ └◀─ StartFailed ──┘
type phase uint8

const (
	alive    phase = iota
	stopping       // sent a Stop
	down           // ended, and to be started again
	starting
)

type child[K comparable] struct {
	key      K
	policy   Policy
	phase    phase
	doomed   bool      // to be stopped as soon as it is there and its turn comes, until it has ended
	unwanted bool      // its next end is the last
	due      time.Time // no restart before
	restarts *history  // its own, or that of the supervisor (SUP-4)
}

// fate says whether a child that ended by itself is started again, and if not, why that is its
// parent's to know: "" when it is not (SUP-2).
func (c *child[K]) fate(why End, now time.Time) (again bool, reason string) {
	p := c.policy
	switch {
	case why == Asked || p.When == Temporary || why == Stopped && p.When != Permanent:
		return false, ""
	case p.When != Transient && p.When != Permanent:
		return false, fmt.Sprintf("its policy is %s", p.When)
	case c.restarts.within(p.within(), now) < p.most():
		return true, ""
	case p.most() == 1:
		return false, fmt.Sprintf("1 restart within %s", p.within())
	}
	return false, fmt.Sprintf("%d restarts within %s", p.most(), p.within())
}

// step does what can be done for a child whose turn it is; nil when it has to wait.
func (c *child[K]) step(now time.Time) Effect[K] {
	switch {
	case c.phase == alive && c.doomed:
		c.phase = stopping
		return Stop[K]{c.key}
	case c.phase == down && !c.due.After(now):
		c.phase = starting
		c.restarts.begin(now)
		return Start[K]{c.key}
	}
	return nil
}

// history is when restarts began, oldest first.
type history struct {
	times []time.Time
	most  int  // newer ones push out older ones that nobody asks for (SUP-8)
	owed  bool // a restart is decided and has not begun
}

// within counts the restarts of the last so much time.
func (h *history) within(d time.Duration, now time.Time) (n int) {
	for _, t := range h.times {
		if now.Sub(t) <= d {
			n++
		}
	}
	return n
}

// begin counts a restart with the first start of it; the other members of a group come free.
func (h *history) begin(now time.Time) {
	if !h.owed {
		return
	}
	h.owed = false
	if len(h.times) >= h.most {
		h.times = slices.Delete(h.times, 0, 1)
	}
	h.times = append(h.times, now)
}
