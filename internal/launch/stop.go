package launch

import "time"

// phase is how far a child's end has come. It only advances.
type phase uint8

const (
	running     phase = iota
	terminating       // asked to end; KILL follows at the deadline
	killing           // KILL was sent; the deadline is when to worry
	ended             // exit seen, or given up: no signal may be sent any more
)

// effect is what the shell must do after a step.
type effect uint8

const (
	nothing effect = iota
	sendTerm
	sendKill
	sendKillLate // because its grace is over
	reportStuck
)

// stopState decides, without clock or kernel, what is sent to a child and
// when. Each event is a method that returns the next state and one effect.
type stopState struct {
	phase    phase
	deadline time.Time     // when to call tick; zero is never
	killWait time.Duration // how long after KILL to report a survivor
}

// terminate asks the child to end within grace. A repeated call may only bring
// the deadline forward (LCH-6).
func (s stopState) terminate(now time.Time, grace time.Duration) (stopState, effect) {
	by := now.Add(grace)
	switch {
	case s.phase >= killing:
		return s, nothing
	case grace <= 0:
		return s.kill(now)
	case s.phase == running:
		s.phase, s.deadline = terminating, by
		return s, sendTerm
	case by.Before(s.deadline):
		s.deadline = by
	}
	return s, nothing
}

// kill ends the child now. A repeated call sends the signal again, so that its
// caller learns what came of it, and does not start the wait anew.
func (s stopState) kill(now time.Time) (stopState, effect) {
	switch s.phase {
	case ended:
		return s, nothing
	case killing:
		return s, sendKill
	default:
		s.phase, s.deadline = killing, now.Add(s.killWait)
		return s, sendKill
	}
}

// tick is the passing of the deadline; an early tick changes nothing.
func (s stopState) tick(now time.Time) (stopState, effect) {
	if s.deadline.IsZero() || now.Before(s.deadline) {
		return s, nothing
	}
	if s.phase == terminating {
		s, _ = s.kill(now)
		return s, sendKillLate
	}
	s.deadline = time.Time{} // said once is enough
	return s, reportStuck
}

// exit is the end of the child's leader.
func (s stopState) exit() stopState {
	s.phase, s.deadline = ended, time.Time{}
	return s
}
