package agent

import (
	"fmt"
	"slices"
)

// ProcessState is the lifecycle state of a proc's OS process in the view of its host. It is finer
// than the proc's Status and only advances.
type ProcessState int8

const (
	ProcessStarting ProcessState = iota // requested
	ProcessStarted                      // executed, not ready
	ProcessReady                        // reported reachable
	ProcessStopping                     // asked to stop
	ProcessExited                       // terminal: with a code
	ProcessKilled                       // terminal: by a signal
	ProcessFailed                       // terminal: never ran, or its end was not observed
)

var processStateNames = [...]string{"starting", "running", "ready", "stopping", "stopped", "killed", "failed"}

func (l ProcessState) String() string {
	if l < 0 || int(l) >= len(processStateNames) {
		return fmt.Sprintf("life(%d)", int8(l))
	}
	return processStateNames[l]
}

// MarshalText writes the name.
func (l ProcessState) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a name.
func (l *ProcessState) UnmarshalText(text []byte) error {
	i := slices.Index(processStateNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("process state %q: want one of %v", text, processStateNames)
	}
	*l = ProcessState(i)
	return nil
}

// Terminal reports whether the process has ended.
func (l ProcessState) Terminal() bool { return l >= ProcessExited }

// Advance returns the state after an event. It returns false for a step backwards or out of a
// terminal state.
func (l ProcessState) Advance(next ProcessState) (ProcessState, bool) {
	if l.Terminal() || next <= l || next > ProcessFailed {
		return l, false
	}
	return next, true
}
