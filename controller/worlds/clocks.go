package worlds

import (
	"container/list"
	"time"
)

// clocks are things that each began to be waited for at some time, oldest first. As they all wait equally long,
// starting, stopping and finding the next one to be over cost the same, however many there are.
type clocks struct{ list list.List }

// started is one of them.
type started struct {
	at   time.Time
	what any
}

// start begins one now, which must not be before any other.
func (c *clocks) start(now time.Time, what any) *list.Element {
	return c.list.PushBack(started{now, what})
}

// again begins one anew.
func (c *clocks) again(e *list.Element, now time.Time) {
	e.Value = started{now, e.Value.(started).what}
	c.list.MoveToBack(e)
}

// stop ends one that runs.
func (c *clocks) stop(e **list.Element) {
	if *e != nil {
		c.list.Remove(*e)
		*e = nil
	}
}

// due is when the oldest has waited for so long; false: there is none.
func (c *clocks) due(long time.Duration) (time.Time, bool) {
	if front := c.list.Front(); front != nil {
		return front.Value.(started).at.Add(long), true
	}
	return time.Time{}, false
}

// over is the oldest, when it has waited for so long.
func (c *clocks) over(now time.Time, long time.Duration) (any, bool) {
	if at, ok := c.due(long); ok && !now.Before(at) {
		return c.list.Front().Value.(started).what, true
	}
	return nil, false
}
