// Package actor runs actors: objects with a mailbox, an address on the bus, and one goroutine at
// most. It knows nothing of meshes, agents or controllers; these are actors, too.
//
// # Use
//
// What an actor can be asked is declared apart from how it is done, so that clients need only the
// declarations and actors can speak to their own kind:
//
//	var (
//		counter = actor.NewType[*Counter, int64]("counter")
//		add     = actor.NewEndpoint[*Counter, int64, int64]("add")
//	)
//
//	func newCounter(ctx *actor.Context, start int64) (*Counter, error)    { … }
//	func (c *Counter) add(ctx *actor.Context, delta int64) (int64, error) { … }
//
//	registry, err := actor.NewRegistry(counter.Made(newCounter, add.By((*Counter).add)))
//	p, err := actor.NewProc(ctx, actor.Options{ID: id, Bus: b, Registry: registry})
//	ref, err := actor.Spawn(ctx, p, counter, "counter", 0)
//	n, err := add.Call(ctx, ref, 5)  // ask and wait
//	err = add.Post(ctx, ref, 5)      // tell
//
// A message, an answer or an actor of the wrong type does not compile. Within a proc a message is
// a mailbox push, and the value itself arrives: what was sent belongs to the receiver. Between
// procs it is CBOR in a frame on the bus. Each proc of a process needs a bus.Bus of its own, for a
// connection does not hear what it publishes.
//
// # Ordering and concurrency
//
//   - ACT-1: at most one goroutine runs an actor's code; an idle actor has none.
//   - ACT-2: a panic, of a handler, a task or a marshaler, is the actor's own: it fails, its caller
//     gets ErrPanic, the proc lives. A panic while decoding is a message that does not decode.
//   - ACT-3: exactly one terminal event per actor, after its last handler returned.
//   - ACT-4: an error a handler returns is the answer, and the actor lives; when nobody waits for
//     an answer (Post) it fails the actor, unless its Def is Enduring. A message that does not
//     decode never does, nor does one of a plain NATS client.
//   - ACT-5: a stopped actor handles what it had accepted, and refuses the rest.
//   - DEL-2: an error that is Undeliverable says that no handler ran the message. What a handler
//     returns never is, whatever its code.
//   - DEL-3: messages of one sender to one actor are handled in the order they were sent, casts
//     included. A message lost on the way breaks the link between the two processes, loudly:
//     everything after it is refused, both sides say so, and what waits for the other fails.
//   - DEL-4: no handler sees a message twice.
//   - DEL-5: a proc that is known to be dead is sent nothing and believed nothing.
//   - DEL-8: mail left in a stopped actor comes back; a call whose callee or its proc is found dead
//     fails at once.
//   - DEL-10: messages of plain NATS clients are checked, counted and answered in kind.
//
// Handlers may block; others do not wait for them. An actor that calls waits on its own turn, so
// two actors that call each other wait for their deadlines; Context.Go does work off the turn and
// Defer answers later. Mailboxes hold 1,024 messages, ports as many; the sender is told when one
// is full. A proc remembers the newest 1,024 actors that ended and the newest 65,536 procs that
// died.
//
// # Failure
//
// Every verb returns an *Error whose code says what became of the message; errors.Is with the
// sentinels tells them apart. A wait without a deadline of its own ends after 30 s.
package actor
