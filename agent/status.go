package agent

import (
	"cmp"
	"fmt"
	"slices"
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

// Run is one status for Count ranks from First.
type Run struct {
	First  int    `cbor:"1,keyasint" json:"first"`
	Count  int    `cbor:"2,keyasint" json:"count"`
	Status Status `cbor:"3,keyasint" json:"status"`
}

// Overlay is the status of some ranks as ascending runs. Adjacent ranks of equal status share a
// run, so ten thousand running procs take one entry.
type Overlay []Run

// OverlayOf builds an overlay from statuses by rank.
func OverlayOf(by map[int]Status) Overlay {
	ranks := make([]int, 0, len(by))
	for r := range by {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	var o Overlay
	for _, r := range ranks {
		if n := len(o); n > 0 && o[n-1].First+o[n-1].Count == r && o[n-1].Status == by[r] {
			o[n-1].Count++
		} else {
			o = append(o, Run{r, 1, by[r]})
		}
	}
	return o
}

// Merge returns the union of two overlays. Its cost depends on the runs, not on the ranks that a
// remote overlay claims to cover.
func (o Overlay) Merge(other Overlay) Overlay {
	all := slices.Concat(o, other)
	slices.SortStableFunc(all, func(a, b Run) int { return cmp.Compare(a.First, b.First) })
	var out Overlay
	for _, run := range all {
		if n := len(out); n > 0 && out[n-1].First+out[n-1].Count == run.First && out[n-1].Status == run.Status {
			out[n-1].Count += run.Count
		} else {
			out = append(out, run)
		}
	}
	return out
}

// Shift returns the overlay with each rank increased by an offset.
func (o Overlay) Shift(by int) Overlay {
	out := slices.Clone(o)
	for i := range out {
		out[i].First += by
	}
	return out
}

// Each calls f for every rank below limit, in order.
func (o Overlay) Each(limit int, f func(rank int, s Status)) {
	for _, run := range o {
		for r := max(run.First, 0); r < limit && r-run.First < run.Count; r++ {
			f(r, run.Status)
		}
	}
}

// Ranks counts the ranks in the overlay.
func (o Overlay) Ranks() (n int) {
	for _, run := range o {
		n += run.Count
	}
	return n
}
