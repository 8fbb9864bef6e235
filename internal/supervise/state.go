package supervise

import (
	"container/list"
	"iter"
	"time"
)

// ExitReason is the way in which a child ended.
type ExitReason uint8

const (
	Stopped   ExitReason = iota // in order, by itself
	Requested                   // its parent or its user asked it to stop, even if it failed on the way
	Failed
)

// State is a supervisor's knowledge of its children. Create it by New.
type State struct {
	strategy Strategy
	children map[any]*list.Element // of *child
	order    list.List             // the same children, in the order of their first start
	shared   restartHistory        // the restarts of a group strategy (SUP-4)
	timerAt  time.Time             // the time of the pending SetTimer; zero: none
	stopping bool                  // SUP-8
}

// New returns the state of a supervisor without children.
func New(s Strategy) *State {
	return &State{strategy: s, children: map[any]*list.Element{}, shared: restartHistory{maxKept: restartLimit}}
}

// Started adds a child at the end of the order. The policy has passed Check. A key in use, even by
// a child waiting for its restart, is ignored.
func (s *State) Started(key any, p Policy) {
	if s.stopping || s.find(key) != nil {
		return
	}
	c := &child{key: key, policy: p, restarts: &s.shared}
	if !s.isGroup() {
		c.restarts = &restartHistory{maxKept: p.maxRestarts()}
	}
	s.children[key] = s.order.PushBack(c)
}

// Ended reports the end of a child. For a child with a pending Stop, Asked is the end of that. For
// any other child Asked is final: one waiting for its restart is forgotten, and one being started
// is stopped as soon as it runs. To drop a child being stopped for its group, report Asked once
// more after its end.
func (s *State) Ended(key any, why ExitReason, now time.Time) []Effect {
	c := s.find(key)
	switch {
	case c == nil:
		return nil
	case c.phase == alive && !c.stopPending:
		return s.onSelfEnd(c, why, now)
	case c.phase == starting && why == Requested:
		c.stopPending, c.noRestart = true, true
		return nil
	case (c.phase == starting || c.phase == down) && why != Requested:
		return nil // it has ended before
	case c.noRestart || why == Requested && c.phase != stopping: // SUP-1
		s.remove(c)
	default: // its group waits for this end, whatever its cause
		c.phase, c.stopPending = down, false
	}
	return s.advance(now)
}

// Has reports whether a child is alive or waits for its restart.
func (s *State) Has(key any) bool { return s.find(key) != nil }

// RestartAt returns the time of a waiting child's restart.
func (s *State) RestartAt(key any) time.Time {
	if c := s.find(key); c != nil && c.phase == down {
		return c.notBefore
	}
	return time.Time{}
}

// OnTimer reports that the time of a SetTimer has come.
func (s *State) OnTimer(now time.Time) []Effect {
	s.timerAt = time.Time{}
	return s.advance(now)
}

// Restarted reports that a Start of old made a child under a new key, or under the same. It has
// old's place and policy. If the new key belongs to another child, old is forgotten.
func (s *State) Restarted(old, key any, now time.Time) []Effect {
	c := s.find(old)
	switch {
	case c == nil || c.phase != starting:
		return nil
	case key != old && s.find(key) != nil:
		s.remove(c)
	default:
		e := s.children[old]
		delete(s.children, old)
		c.key, c.phase = key, alive
		s.children[key] = e
	}
	return s.advance(now)
}

// StartFailed reports that a Start made no child. That is one more failure of the child.
func (s *State) StartFailed(key any, now time.Time) (out []Effect) {
	c := s.find(key)
	switch {
	case c == nil || c.phase != starting:
		return nil
	case c.noRestart:
		s.remove(c)
	case c.stopPending: // it was to end anyway
		c.phase, c.stopPending = down, false
	default:
		out = s.onSelfEnd(c, Failed, now)
	}
	return append(out, s.advance(now)...)
}

// Stopping reports that the supervisor itself ends and stops its children. They are forgotten
// (SUP-8).
func (s *State) Stopping() {
	s.stopping = true
	clear(s.children)
	s.order.Init()
}

// onSelfEnd decides about a child that ended by itself.
func (s *State) onSelfEnd(c *child, why ExitReason, now time.Time) []Effect {
	again, reason := c.decide(why, now)
	if again {
		s.scheduleRestart(c, now)
		return s.advance(now)
	}
	if reason != "" {
		s.remove(c)
		return []Effect{Escalate{c.key, reason}}
	}
	s.remove(c)
	return nil
}

// scheduleRestart marks a child's group to stop, and sets the delay.
func (s *State) scheduleRestart(c *child, now time.Time) {
	p := c.policy
	due := now.Add(p.Backoff.delay(c.restarts.countWithin(p.window(), now)))
	c.restarts.pending = true
	c.phase = down
	for m := range s.group(c) {
		if due.After(m.notBefore) {
			m.notBefore = due
		}
		if m.phase == alive || m.phase == starting {
			m.stopPending = true
			m.noRestart = m.noRestart || m.policy.Restart == Temporary
		}
	}
}

// advance takes all possible steps. A second call does nothing more.
func (s *State) advance(now time.Time) (out []Effect) {
	var next time.Time
	for c := range s.actionable() {
		if e := c.nextEffect(now); e != nil {
			out = append(out, e)
		} else if c.phase == down && (next.IsZero() || c.notBefore.Before(next)) {
			next = c.notBefore
		}
	}
	if !next.IsZero() && (s.timerAt.IsZero() || next.Before(s.timerAt)) {
		s.timerAt = next
		out = append(out, SetTimer{next})
	}
	return out
}

// actionable yields the children that need not wait for another: all under OneForOne, else the one
// in its turn.
func (s *State) actionable() iter.Seq[*child] {
	if !s.isGroup() {
		return s.childrenFrom(s.order.Front())
	}
	return func(yield func(*child) bool) {
		if c := s.nextInGroup(); c != nil {
			yield(c)
		}
	}
}

// nextInGroup returns the next child in a group strategy (SUP-3): the one that is stopping, else
// the last one to stop, else the first one not running; nil if all run.
func (s *State) nextInGroup() *child {
	var last, first *child
	for c := range s.childrenFrom(s.order.Front()) {
		switch {
		case c.phase == stopping:
			return c
		case c.stopPending:
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

// group yields a child and all children that restart with it.
func (s *State) group(c *child) iter.Seq[*child] {
	switch s.strategy {
	case OneForAll:
		return s.childrenFrom(s.order.Front())
	case RestForOne:
		return s.childrenFrom(s.children[c.key])
	}
	return func(yield func(*child) bool) { yield(c) }
}

// childrenFrom yields the children from one on, in start order.
func (s *State) childrenFrom(e *list.Element) iter.Seq[*child] {
	return func(yield func(*child) bool) {
		for ; e != nil; e = e.Next() {
			if !yield(e.Value.(*child)) {
				return
			}
		}
	}
}

func (s *State) isGroup() bool { return s.strategy == OneForAll || s.strategy == RestForOne }

// find returns a child, or nil.
func (s *State) find(key any) *child {
	if e, ok := s.children[key]; ok {
		return e.Value.(*child)
	}
	return nil
}

func (s *State) remove(c *child) {
	s.order.Remove(s.children[c.key])
	delete(s.children, c.key)
}
