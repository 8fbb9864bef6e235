package agent

import (
	"encoding/json"
	"fmt"
)

// Phases is a set of phases; in JSON, a list of their names.
type Phases uint16

// In is the set of some phases.
func In(phases ...Phase) (s Phases) {
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
	*s = In(names...)
	return nil
}

// PhaseCount is how many ranks are in each phase that a rank can be in.
type PhaseCount [Failed + 1]int

// Alive is how many ranks have not ended.
func (n PhaseCount) Alive() (alive int) {
	for p, ranks := range n {
		if !Phase(p).Terminal() {
			alive += ranks
		}
	}
	return alive
}

// Least is the phase of the least advanced rank; Failed when there is none.
func (n PhaseCount) Least() Phase {
	for p, ranks := range n {
		if ranks > 0 {
			return Phase(p)
		}
	}
	return Failed
}

// check refuses what no rank can ever satisfy.
func (w Waiting) check() error {
	held := In(Initializing, Running, ShuttingDown, Stopped, Failed)
	switch {
	case w.Some|w.Every != (w.Some|w.Every)&held:
		return fmt.Errorf("wait for %s: want phases that a rank can be in: initializing to failed", w.ID)
	case w.Some == 0 && w.Every == 0 && !held.Has(w.Until):
		return fmt.Errorf("wait for %s until %s: want a phase that a rank can be in: initializing to failed", w.ID, w.Until)
	}
	return nil
}

// holds reports whether the ranks satisfy the condition. Of no ranks, every one does.
func (w Waiting) holds(n PhaseCount) bool {
	every := true
	for i, ranks := range n {
		p := Phase(i)
		switch {
		case ranks == 0:
		case w.Some.Has(p):
			return true
		case w.Every != 0:
			every = every && w.Every.Has(p)
		case w.Some != 0 && w.Until == NotExist:
			every = false
		default:
			every = every && (p >= w.Until || p.Terminal())
		}
	}
	return every
}
