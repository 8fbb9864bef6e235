package supervise

import "time"

// Effect is a request of a State to its owner: a Stop, a Start, a SetTimer or an Escalate. Carry
// effects out in their order.
type Effect interface{ effect() }

// Stop requests the end of a child, to be reported by Ended.
type Stop struct{ Key any }

// Start requests a new child in the place of an ended one; Restarted or StartFailed reports the
// result.
type Start struct{ Key any }

// SetTimer requests a call of OnTimer at a time. It replaces an earlier SetTimer; a late OnTimer
// for that does no harm.
type SetTimer struct{ Until time.Time }

// Escalate hands a child to its parent: it failed, or was permanent and ended, and is not started
// again. The State has forgotten it.
type Escalate struct {
	Key    any
	Reason string // "its policy is propagate", or "3 restarts within 5s"
}

func (Stop) effect()     {}
func (Start) effect()    {}
func (SetTimer) effect() {}
func (Escalate) effect() {}
