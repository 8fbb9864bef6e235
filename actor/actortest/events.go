package actortest

import (
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Addressed is something with the address of an actor: an actor.Ref of any type, or a Child.
type Addressed interface{ ID() subjects.ActorID }

// Child is an actor spawned by another actor, not by the test.
type Child struct {
	Type string // the name of its actor type
	id   subjects.ActorID
}

// ID is the actor's address.
func (c Child) ID() subjects.ActorID { return c.id }

// recordEvent records an event, on the goroutine of its actor.
func (r *Rig) recordEvent(e actor.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) < maxKept {
		r.events = append(r.events, e)
	} else if !r.eventDropped {
		r.eventDropped = true
		r.t.Errorf("actortest: a test with more than %d events: the rest is dropped", maxKept)
	}
}

// recordFailure takes the failure of an actor without a parent.
func (r *Rig) recordFailure(e actor.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failures) < maxKept {
		r.failures = append(r.failures, e)
	}
}

// failOnUnexpected fails the test for every failure it did not expect (KIT-1). The proc is closed.
func (r *Rig) failOnUnexpected() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.failures {
		if !r.expected[e.Actor] {
			r.t.Errorf("actortest: an actor failed and the test did not expect it (Rig.ExpectFailure):\n%s",
				e.Report())
		}
	}
}

// ExpectFailure waits until an actor of the rig has failed, and returns the event of its end, with
// its causes. An actor that stopped, or does not end, fails the test. If a child fails together
// with its parent, expect the failure of the topmost one.
func (r *Rig) ExpectFailure(of Addressed) actor.Event {
	r.t.Helper()
	e := r.Terminal(of)
	if !e.Failed() {
		r.t.Fatalf("actortest: want a failure, got: %s", e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected[of.ID().Name] = true
	return e
}

// Terminal waits until an actor of the rig has ended, and returns its terminal event.
func (r *Rig) Terminal(of Addressed) actor.Event {
	r.t.Helper()
	id := of.ID()
	if id.Proc != r.Proc().ID() {
		r.t.Fatalf("actortest: want an actor of this rig's proc %s, got %s", r.proc.ID(), id)
	}
	done := r.proc.Done(id.Name)
	if done == nil {
		r.t.Fatalf("actortest: want an actor of this rig, got %s, which its proc does not know", id)
	}
	late := time.NewTimer(Timeout)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		info, _ := r.proc.Actor(id.Name)
		r.t.Fatalf("actortest: %s did not end within %s: it is %s", id, Timeout, describeActivity(info))
	}
	var ends []actor.Event
	for _, e := range r.Events(of) {
		if e.Terminal() {
			ends = append(ends, e)
		}
	}
	if len(ends) != 1 {
		r.t.Fatalf("actortest: want one terminal event of %s, got %d: %v", id, len(ends), ends)
	}
	return ends[0]
}

// Events are the events of one actor of the rig so far, oldest first. It may be called on any
// goroutine.
func (r *Rig) Events(of Addressed) []actor.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []actor.Event
	for _, e := range r.events {
		if e.Kind == actor.KindActor && e.Actor == of.ID().Name {
			out = append(out, e)
		}
	}
	return out
}

// Spawned settles the rig and returns the actors of its proc spawned by other means than Spawn or
// NewProbe, ended ones included. Their order is that of their first events. With one actor under
// test, these are its descendants.
func (r *Rig) Spawned() []Child {
	r.t.Helper()
	r.Settle()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Child
	seen := map[string]bool{}
	for _, name := range r.spawned {
		seen[name] = true
	}
	for _, e := range r.events {
		if e.Kind == actor.KindActor && !seen[e.Actor] {
			seen[e.Actor] = true
			out = append(out, Child{e.Type, e.Proc().Actor(e.Actor)})
		}
	}
	return out
}

// Children is Spawned for the children of one actor. It includes ended ones as long as the proc
// remembers them (package actor).
func (r *Rig) Children(of Addressed) []Child {
	r.t.Helper()
	return slices.DeleteFunc(r.Spawned(), func(c Child) bool {
		info, known := r.Proc().Actor(c.id.Name)
		return !known || info.Parent != of.ID().Name
	})
}

// DeadLetters settles the rig and returns the messages, without their bodies, that came back to
// actors and clients of its proc. They are oldest first, and at most the newest 128
// (Proc.DeadLetters; Proc.Stats counts them all).
func (r *Rig) DeadLetters() []actor.DeadLetter {
	r.t.Helper()
	r.Settle()
	return r.Proc().DeadLetters()
}
