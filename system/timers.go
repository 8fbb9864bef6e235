package system

import (
	"container/list"
	"time"
)

// timerQueue holds timers of one duration, oldest first. Starting, stopping and finding the next
// one to expire cost the same, whatever their number.
type timerQueue struct{ list list.List }

// timerEntry is a timer of a queue.
type timerEntry struct {
	at    time.Time
	owner any
}

// start starts a timer now. now must not be before any other start.
func (c *timerQueue) start(now time.Time, owner any) *list.Element {
	return c.list.PushBack(timerEntry{now, owner})
}

// restart starts a timer again.
func (c *timerQueue) restart(e *list.Element, now time.Time) {
	e.Value = timerEntry{now, e.Value.(timerEntry).owner}
	c.list.MoveToBack(e)
}

// stop stops a running timer.
func (c *timerQueue) stop(e **list.Element) {
	if *e != nil {
		c.list.Remove(*e)
		*e = nil
	}
}

// nextExpiry returns the expiry of the oldest timer; false: there is none.
func (c *timerQueue) nextExpiry(long time.Duration) (time.Time, bool) {
	if front := c.list.Front(); front != nil {
		return front.Value.(timerEntry).at.Add(long), true
	}
	return time.Time{}, false
}

// expired returns the owner of the oldest timer, if that has expired.
func (c *timerQueue) expired(now time.Time, long time.Duration) (owner any, ok bool) {
	if at, ok := c.nextExpiry(long); ok && !now.Before(at) {
		return c.oldest(), true
	}
	return owner, false
}

// oldest returns the owner of the oldest timer of a queue with timers.
func (c *timerQueue) oldest() any { return c.list.Front().Value.(timerEntry).owner }
