package launch

import "time"

// phase is the progress of a child's end. It only advances.
type phase uint8

const (
	running     phase = iota
	terminating       // TERM sent; KILL follows at the deadline
	killing           // KILL sent; a survivor is reported at the deadline
	ended             // exited or abandoned: no further signals
)

// effect is the action to take after a step.
type effect uint8

const (
	nothing effect = iota
	sendTerm
	sendKill
	sendKillAfterGrace // at the end of its grace
	reportStuck
)

// stopState decides the signals of a child, without clock or kernel. Each event is a method with
// the next state and one effect as results.
type stopState struct {
	phase    phase
	deadline time.Time     // time of the next tick; zero is never
	killWait time.Duration // time from KILL to the report of a survivor
}

// terminate asks the child to end within grace. A repeated call can only shorten the deadline
// (LCH-6).
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

// kill kills the child. A repeated call sends the signal again, to return its error, and does not
// restart the wait.
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

// tick handles a passed deadline. An early tick has no effect.
func (s stopState) tick(now time.Time) (stopState, effect) {
	if s.deadline.IsZero() || now.Before(s.deadline) {
		return s, nothing
	}
	if s.phase == terminating {
		s, _ = s.kill(now)
		return s, sendKillAfterGrace
	}
	s.deadline = time.Time{} // report once
	return s, reportStuck
}

// exit handles the end of the child's leader.
func (s stopState) exit() stopState {
	s.phase, s.deadline = ended, time.Time{}
	return s
}
