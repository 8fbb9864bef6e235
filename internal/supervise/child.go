package supervise

import (
	"fmt"
	"slices"
	"time"
)

// phase is the state of a child.
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

type child struct {
	key         any
	policy      Policy
	phase       phase
	stopPending bool            // to be stopped as soon as it is there and its turn comes, until it has ended
	noRestart   bool            // its next end is the last
	notBefore   time.Time       // no restart before
	restarts    *restartHistory // its own, or that of the supervisor (SUP-4)
}

// decide reports whether a child that ended by itself is restarted. Otherwise reason is set if the
// end escalates to the parent (SUP-1).
func (c *child) decide(why ExitReason, now time.Time) (again bool, reason string) {
	p := c.policy
	switch {
	case why == Requested || p.Restart == Temporary || why == Stopped && p.Restart != Permanent:
		return false, ""
	case p.Restart != Transient && p.Restart != Permanent:
		return false, fmt.Sprintf("its policy is %s", p.Restart)
	case c.restarts.countWithin(p.window(), now) < p.maxRestarts():
		return true, ""
	case p.maxRestarts() == 1:
		return false, fmt.Sprintf("1 restart within %s", p.window())
	}
	return false, fmt.Sprintf("%d restarts within %s", p.maxRestarts(), p.window())
}

// nextEffect returns the next effect for a child in its turn; nil if it has to wait.
func (c *child) nextEffect(now time.Time) Effect {
	if c.phase == alive && c.stopPending {
		c.phase = stopping
		return Stop{c.key}
	}
	if c.phase == down && !c.notBefore.After(now) {
		c.phase = starting
		c.restarts.record(now)
		return Start{c.key}
	}
	return nil
}

// restartHistory is when restarts began, oldest first.
type restartHistory struct {
	times   []time.Time
	maxKept int  // newer ones replace older, unneeded ones (SUP-8)
	pending bool // a restart is decided and has not begun
}

// countWithin counts the restarts of the last so much time.
func (h *restartHistory) countWithin(d time.Duration, now time.Time) (n int) {
	for _, t := range h.times {
		if now.Sub(t) <= d {
			n++
		}
	}
	return n
}

// record counts a restart with the first start of it; the other members of a group come free.
func (h *restartHistory) record(now time.Time) {
	if !h.pending {
		return
	}
	h.pending = false
	if len(h.times) >= h.maxKept {
		h.times = slices.Delete(h.times, 0, 1)
	}
	h.times = append(h.times, now)
}
