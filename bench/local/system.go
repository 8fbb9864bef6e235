package local

import "context"

// Ref is a system's own address of an actor.
type Ref any

// System is an actor library, as far as the workloads need one. Failures go to the Fault
// that the system was made with, so that no workload has to check each message.
type System interface {
	// Spawn makes an actor. It may return before the actor has started. One goroutine spawns. After a
	// fault its result accepts messages without effect.
	Spawn(b Behavior) Ref
	// Tell sends a message from code that is not an actor; on any goroutine.
	Tell(to Ref, m any)
	// Ask does the same and waits for the answer.
	Ask(to Ref, m any) any
	// Close stops what the library still has running, where it has a way to.
	Close(ctx context.Context) error
}

// Maker makes a system. ctx ends when the workload is over or abandoned; fault may be
// called on any goroutine, and its first error ends the workload.
type Maker func(ctx context.Context, fault Fault) (System, error)

// Fault takes an error that made a measurement worthless.
type Fault func(error)

// Behavior is the code of an actor. Both methods run on the actor's turn, one at a time.
type Behavior interface {
	// Started is called once, before any message.
	Started()
	// Receive handles a message. It answers those that were asked; for all others it returns nil.
	Receive(c Context, m any) (answer any)
}

// Context is what a handler can do, the way its library does it from inside an actor. It is valid
// until the handler returns.
type Context interface {
	// Tell sends a message to another actor.
	Tell(to Ref, m any)
	// Stop ends the actor after this message.
	Stop()
}
