package supervise

import (
	"container/list"
	"iter"
	"time"
)

// End is how a child ended.
type End uint8

const (
	Stopped End = iota // in order, by itself
	Asked              // its parent or its user asked it to stop, even if it failed on the way
	Failed
)

// State is what a supervisor knows of its children. New makes one.
type State[K comparable] struct {
	strategy Strategy
	children map[K]*list.Element // of *child[K]
	order    list.List           // of the same: the order in which they were first started
	shared   history             // the restarts of a group strategy (SUP-4)
	alarm    time.Time           // the Wait that is outstanding; zero: none
	over     bool                // SUP-7
}

// New returns the state of a supervisor without children.
func New[K comparable](s Strategy) *State[K] {
	return &State[K]{strategy: s, children: map[K]*list.Element{}, shared: history{most: maxMost}}
}

// Started adds a child, which comes last in the order. The policy has passed Check. A key that is
// taken, be it by a child that waits for its restart, is ignored.
func (s *State[K]) Started(key K, p Policy) {
	if s.over || s.find(key) != nil {
		return
	}
	c := &child[K]{key: key, policy: p, restarts: &s.shared}
	if !s.grouped() {
		c.restarts = &history{most: p.most()}
	}
	s.children[key] = s.order.PushBack(c)
}

// Ended tells how a child ended. Asked has two meanings: for a child that was sent a Stop it is the
// end of that, and for any other the last word. So one that waits for its restart is forgotten, and
// one that is being started is stopped as soon as it is there. Who wants to be rid of a child that is
// being stopped for its group says Asked once more when it has ended.
func (s *State[K]) Ended(key K, why End, now time.Time) []Effect[K] {
	c := s.find(key)
	switch {
	case c == nil:
		return nil
	case c.phase == alive && !c.doomed:
		return s.lost(c, why, now)
	case c.phase == starting && why == Asked:
		c.doomed, c.unwanted = true, true
		return nil
	case (c.phase == starting || c.phase == down) && why != Asked:
		return nil // it has ended before
	case c.unwanted || why == Asked && c.phase != stopping: // SUP-6
		s.forget(c)
	default: // what its group waits for, however it came about
		c.phase, c.doomed = down, false
	}
	return s.settle(now)
}

// Has reports whether a child lives or is to be started again, as far as this State was told.
func (s *State[K]) Has(key K) bool { return s.find(key) != nil }

// Next is when a child that waits is to be started.
func (s *State[K]) Next(key K) time.Time {
	if c := s.find(key); c != nil && c.phase == down {
		return c.due
	}
	return time.Time{}
}

// Due tells that the time of a Wait has come.
func (s *State[K]) Due(now time.Time) []Effect[K] {
	s.alarm = time.Time{}
	return s.settle(now)
}

// Restarted tells that a Start of old made a child under a new key, or under the same. It has old's
// place and policy. When the new key is that of another child, old is forgotten.
func (s *State[K]) Restarted(old, key K, now time.Time) []Effect[K] {
	c := s.find(old)
	switch {
	case c == nil || c.phase != starting:
		return nil
	case key != old && s.find(key) != nil:
		s.forget(c)
	default:
		e := s.children[old]
		delete(s.children, old)
		c.key, c.phase = key, alive
		s.children[key] = e
	}
	return s.settle(now)
}

// StartFailed tells that a Start made no child. That is one more failure of it.
func (s *State[K]) StartFailed(key K, now time.Time) (out []Effect[K]) {
	c := s.find(key)
	switch {
	case c == nil || c.phase != starting:
		return nil
	case c.unwanted:
		s.forget(c)
	case c.doomed: // it was to end anyway
		c.phase, c.doomed = down, false
	default:
		out = s.lost(c, Failed, now)
	}
	return append(out, s.settle(now)...)
}

// Stopping tells that the supervisor itself ends and stops its children. They are forgotten (SUP-7).
func (s *State[K]) Stopping() {
	s.over = true
	clear(s.children)
	s.order.Init()
}

// lost decides about a child that ended by itself.
func (s *State[K]) lost(c *child[K], why End, now time.Time) []Effect[K] {
	again, reason := c.fate(why, now)
	switch {
	case again:
		s.restart(c, now)
		return s.settle(now)
	case reason != "":
		s.forget(c)
		return []Effect[K]{Escalate[K]{c.key, reason}}
	}
	s.forget(c)
	return nil
}

// restart marks what a restart of a child needs: its group has to end, and to wait.
func (s *State[K]) restart(c *child[K], now time.Time) {
	p := c.policy
	due := now.Add(p.Backoff.after(c.restarts.within(p.within(), now)))
	c.restarts.owed = true
	c.phase = down
	for m := range s.group(c) {
		if due.After(m.due) {
			m.due = due
		}
		if m.phase == alive || m.phase == starting {
			m.doomed = true
			m.unwanted = m.unwanted || m.policy.When == Temporary
		}
	}
}

// settle takes every step that can be taken now. Doing it twice does nothing more.
func (s *State[K]) settle(now time.Time) (out []Effect[K]) {
	var next time.Time
	for c := range s.movable() {
		if e := c.step(now); e != nil {
			out = append(out, e)
		} else if c.phase == down && (next.IsZero() || c.due.Before(next)) {
			next = c.due
		}
	}
	if !next.IsZero() && (s.alarm.IsZero() || next.Before(s.alarm)) {
		s.alarm = next
		out = append(out, Wait[K]{next})
	}
	return out
}

// movable yields the children that need not wait for another: all under OneForOne, else the one whose
// turn it is.
func (s *State[K]) movable() iter.Seq[*child[K]] {
	if !s.grouped() {
		return s.from(s.order.Front())
	}
	return func(yield func(*child[K]) bool) {
		if c := s.turn(); c != nil {
			yield(c)
		}
	}
}

// turn is who comes next in a group strategy (SUP-3): the one that is stopping, or else the last that
// has to, or else the first that is not there yet; nil when all is well.
func (s *State[K]) turn() *child[K] {
	var last, first *child[K]
	for c := range s.from(s.order.Front()) {
		switch {
		case c.phase == stopping:
			return c
		case c.doomed:
			last = c
		case c.phase != alive && first == nil:
			first = c
		}
	}
	if last != nil {
		return last
	}
	return first
}

// group yields a child and all that is started again with it.
func (s *State[K]) group(c *child[K]) iter.Seq[*child[K]] {
	switch s.strategy {
	case OneForAll:
		return s.from(s.order.Front())
	case RestForOne:
		return s.from(s.children[c.key])
	}
	return func(yield func(*child[K]) bool) { yield(c) }
}

// from yields the children from one on, in start order.
func (s *State[K]) from(e *list.Element) iter.Seq[*child[K]] {
	return func(yield func(*child[K]) bool) {
		for ; e != nil; e = e.Next() {
			if !yield(e.Value.(*child[K])) {
				return
			}
		}
	}
}

func (s *State[K]) grouped() bool { return s.strategy == OneForAll || s.strategy == RestForOne }

// find returns a child, or nil.
func (s *State[K]) find(key K) *child[K] {
	if e, ok := s.children[key]; ok {
		return e.Value.(*child[K])
	}
	return nil
}

func (s *State[K]) forget(c *child[K]) {
	s.order.Remove(s.children[c.key])
	delete(s.children, c.key)
}
