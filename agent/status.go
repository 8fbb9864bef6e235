package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Phase is the lifecycle phase of a resource. Phases are ordered.
type Phase int8

const (
	NotExist     Phase = iota
	Initializing       // accepted, not ready
	Running
	ShuttingDown // stopping, on request or by itself
	Stopped      // terminal
	Failed       // terminal
	Timeout      // at the caller only: no reply in time
	Unknown      // at the caller only: unknown state
)

var phaseNames = [...]string{
	"not-exist", "initializing", "running", "stopping", "stopped", "failed", "timeout", "unknown",
}

func (p Phase) String() string {
	if p < 0 || int(p) >= len(phaseNames) {
		return fmt.Sprintf("phase(%d)", int8(p))
	}
	return phaseNames[p]
}

// MarshalText returns the phase's name.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses a phase's name.
func (p *Phase) UnmarshalText(text []byte) error {
	i := slices.Index(phaseNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("phase %q: want one of %v", text, phaseNames)
	}
	*p = Phase(i)
	return nil
}

// Terminal reports whether the resource is gone.
func (p Phase) Terminal() bool { return p == Stopped || p == Failed }

// PhaseCount counts ranks by phase.
type PhaseCount [Failed + 1]int

// Alive counts the ranks that have not ended.
func (n PhaseCount) Alive() (alive int) {
	for p, ranks := range n {
		if !Phase(p).Terminal() {
			alive += ranks
		}
	}
	return alive
}

// LeastAdvanced returns the phase of the least advanced rank, or Failed without ranks.
func (n PhaseCount) LeastAdvanced() Phase {
	for p, ranks := range n {
		if ranks > 0 {
			return Phase(p)
		}
	}
	return Failed
}

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

// Status is a phase with an optional reason.
type Status struct {
	Phase  Phase  `cbor:"1,keyasint" json:"phase"`
	Reason string `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
}

func (s Status) String() string {
	if s.Reason == "" {
		return s.Phase.String()
	}
	return s.Phase.String() + ": " + s.Reason
}

// compare orders statuses by phase, then by reason.
func (s Status) compare(o Status) int {
	return cmp.Or(cmp.Compare(s.Phase, o.Phase), strings.Compare(s.Reason, o.Reason))
}
