package supervise

import "time"

// Effect is what a State asks its owner to do: a Stop, a Start, a Wait or an Escalate. Effects are
// carried out in the order they come in.
type Effect[K comparable] interface{ effect(K) }

// Stop asks for the end of a child, which then comes as Ended.
type Stop[K comparable] struct{ Key K }

// Start asks for a new child in the place of one that has ended; Restarted or StartFailed tells
// what came of it.
type Start[K comparable] struct{ Key K }

// Wait asks for a call of Due at a time. It takes the place of an earlier Wait; whoever calls Due for
// that one all the same does no harm.
type Wait[K comparable] struct{ Until time.Time }

// Escalate hands a child to its parent: it failed, or was permanent and ended, and is not started
// again. The State has forgotten it.
type Escalate[K comparable] struct {
	Key    K
	Reason string // "its policy is propagate", or "3 restarts within 5s"
}

func (Stop[K]) effect(K)     {}
func (Start[K]) effect(K)    {}
func (Wait[K]) effect(K)     {}
func (Escalate[K]) effect(K) {}
