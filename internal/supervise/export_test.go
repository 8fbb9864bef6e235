package supervise

import "time"

// After is the delay after a number of restarts within the window.
func (b Backoff) After(restarts int) time.Duration { return b.delay(restarts) }

// Remembered counts the children and the times of restarts in a State.
func (s *State) Remembered() (children, times int) {
	times = len(s.shared.times)
	for c := range s.childrenFrom(s.order.Front()) {
		if !s.isGroup() {
			times += len(c.restarts.times)
		}
	}
	if len(s.children) != s.order.Len() {
		panic("a child is in one place only")
	}
	return s.order.Len(), times
}
