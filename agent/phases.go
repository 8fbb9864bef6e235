package agent

import (
	"encoding/json"
	"fmt"
)

// Phases is a set of phases, in JSON a list of their names.
type Phases uint16

// PhasesOf returns a set of phases.
func PhasesOf(phases ...Phase) (s Phases) {
	for _, p := range phases {
		s |= 1 << p
	}
	return s
}

// Has reports whether a phase is in the set.
func (s Phases) Has(p Phase) bool { return p >= 0 && p < 16 && s&(1<<p) != 0 }

// MarshalJSON lists the names.
func (s Phases) MarshalJSON() ([]byte, error) {
	names := []Phase{}
	for p := range Phase(len(phaseNames)) {
		if s.Has(p) {
			names = append(names, p)
		}
	}
	return json.Marshal(names)
}

// UnmarshalJSON reads a list of names.
func (s *Phases) UnmarshalJSON(b []byte) error {
	var names []Phase
	if err := json.Unmarshal(b, &names); err != nil {
		return fmt.Errorf("phases %s: want a list of %v: %w", b, phaseNames, err)
	}
	*s = PhasesOf(names...)
	return nil
}

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

// check refuses an unsatisfiable condition.
func (w WaitRequest) check() error {
	held := PhasesOf(Initializing, Running, ShuttingDown, Stopped, Failed)
	if w.AnyIn|w.AllIn != (w.AnyIn|w.AllIn)&held {
		return fmt.Errorf("wait for %s: want phases that a rank can be in: initializing to failed", w.ID)
	}
	if w.AnyIn == 0 && w.AllIn == 0 && !held.Has(w.Until) {
		return fmt.Errorf("wait for %s until %s: want a phase that a rank can be in: initializing to failed",
			w.ID, w.Until)
	}
	return nil
}

// isMet reports whether the ranks satisfy the condition. Without ranks every condition is met.
func (w WaitRequest) isMet(n PhaseCount) bool {
	every := true
	for i, ranks := range n {
		p := Phase(i)
		switch {
		case ranks == 0:
		case w.AnyIn.Has(p):
			return true
		case w.AllIn != 0:
			every = every && w.AllIn.Has(p)
		case w.AnyIn != 0 && w.Until == NotExist:
			every = false
		default:
			every = every && (p >= w.Until || p.Terminal())
		}
	}
	return every
}
