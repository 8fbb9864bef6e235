package actor

import (
	"time"

	"github.com/castnet-io/castnet/internal/supervise"
)

// When says which ends of an actor are followed by a new start.
type When uint8

const (
	Propagate When = iota // none: a failure is the parent's, an orderly stop is the end of it
	Temporary             // none: the parent is told of a failure, and goes on
	Transient             // failures
	Permanent             // all that nobody asked for
)

// Restart says what follows the end of an actor. The one that takes its place is a new actor, made
// from the same parameters, of the same label under a new uid: what was sent to the old one comes
// back, and whoever knew it asks Current. An actor whose restarts are used up has failed for good,
// and that is its parent's to deal with, as if there were no Restart.
type Restart struct {
	When    When
	Most    int           // restarts within the window; 0: 3; at most 1,000
	Within  time.Duration // the window; 0: 5 s
	Backoff Backoff
}

// Backoff is the delay before a restart: it doubles from First to Max with each restart in the
// window. The zero value starts again at once.
type Backoff struct{ First, Max time.Duration }

// Strategy says which children of an actor are started again together.
type Strategy uint8

const (
	OneForOne  Strategy = iota // the one that ended
	OneForAll                  // all of them
	RestForOne                 // the one that ended, and those spawned after it
)

func (r Restart) policy() supervise.Policy {
	return supervise.Policy{
		When: supervise.When(r.When), Most: r.Most, Within: r.Within,
		Backoff: supervise.Backoff{First: r.Backoff.First, Max: r.Backoff.Max},
	}
}

// Current is the actor that has taken the place of the one ref names, after any number of restarts;
// ref itself when none has. It knows of actors of this process only.
func Current[A any](ref Ref[A]) Ref[A] {
	in := ref.in
	if in == nil && ref.via != nil && ref.id.Proc == ref.via.id {
		in = ref.via.find(ref.id.Name)
	}
	for in != nil {
		in.mu.Lock()
		var next *instance
		if in.rare != nil {
			next = in.rare.next
		}
		in.mu.Unlock()
		if next == nil {
			return Ref[A]{id: in.id(), via: ref.via, in: in}
		}
		in = next
	}
	return ref
}
