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
// a mailbox push, and the value itself arrives: what is sent, or answered, belongs to the receiver. Between
// procs it is CBOR in a frame on the bus. Each proc of a process needs a bus.Bus of its own, for a
// connection does not hear what it publishes.
//
// Post refuses when the mailbox is full; PostWait waits for room. Proc.Flush waits for the fates of what
// was sent to other procs. An actor makes children with
// SpawnChild, says with WithRestart what follows their ends, and may decide itself (Supervisor). It
// watches others with Context.Monitor, does what takes long with Context.Go, and answers later with
// Defer. Ports (OpenPort, OpenOnce, OpenAccumulator, OpenRelay) take what is not asked for by a call;
// a PortRef travels in messages. Proc.Inspect looks at any actor while it works. Package actortest
// tests one alone.
//
// # Ordering and concurrency
//
//   - ACT-1: at most one goroutine runs an actor's code; an idle actor has none.
//   - ACT-2: a panic, of a handler, a task or a marshaler, is the actor's own: it fails, its caller
//     gets ErrPanic, the proc lives. A panic while decoding is a message that does not decode.
//   - ACT-3: exactly one terminal event per actor, after its last handler returned and after its
//     children have ended. A child that does not stop within 10 s is killed and left behind.
//   - ACT-4: an error a handler returns is the answer, and the actor lives; when nobody waits for an
//     answer (Post) it fails the actor, unless its Def is Enduring. A message that does not decode never
//     does, nor does one of a plain NATS client, nor one that came back.
//   - ACT-5: an actor that is stopped handles what it had accepted, and refuses the rest. One that is
//     killed or fails handles nothing more: its context ends, and what waits in its mailbox comes back at
//     once, also while its last handler still runs.
//   - ACT-6: a failure goes to one place: it is followed by a restart, handled by its parent
//     (Supervisor), or fails its parent; from an actor without a parent, it goes to the proc's
//     Coordinator, or fails the proc, and with that what its client asks. The chain of causes goes along. While an actor stops, the failure
//     of a child is an event and nothing more.
//   - ACT-7: an actor that is started again is a new one, with a new name; no message for the old one
//     reaches it.
//   - ACT-8: whoever monitors an actor is told of its end exactly once, whenever he began.
//   - ACT-9: what the runtime and the actor's own tasks, timers and children have to say comes before
//     the mail, however much of that waits.
//   - ACT-10: sending a message within a proc costs no memory of its own when the message holds no
//     pointers, and an actor at rest holds neither a goroutine nor the room of a burst.
//   - ACT-11: of the procs that had a rank one after another, the one of the highest generation whose
//     host has said that it runs has it. Latest says which; an ID always means that one proc, dead or not.
//   - ACT-12: what is urged (Urge) waits for no data: it goes by the control lane, too, until it is answered. An
//     endpoint takes that only where it is bound as Urgent. Its handler sees such a message at most once by each lane,
//     and not by the control lane once it came in its order: then its answer goes by the control lane, too, when it is asked for
//     again there.
//   - ACT-13: supervision waits for no data. What a monitor or a Link says to another proc, also that it is cancelled, and the word of an end, go among the
//     data, in the order of what their senders said; what has not arrived there after about a second goes by the control
//     lane, too, until it has. A monitor that learns it so is told that it may have overtaken data (Down.Overtook). Of
//     an actor that may not have been made yet nobody says there that it is gone.
//   - ACT-14: an answer to another proc, and every answer to a cast, is encoded before its handler's turn ends, or by the
//     Reply of a Deferred, unless its type holds no pointers. An answer to a Call within the proc is the value itself: the
//     actor gives it away and changes it no more.
//   - PORT-1: a once port takes one message. What it does not take does not use it up; who comes
//     later gets ErrPortGone.
//   - PORT-2: a port that was given out and is closed is ErrPortGone, one that never was ErrNoEndpoint.
//   - PORT-3: an accumulating port folds each update it accepts once, in the order of arrival.
//     Receivers see the latest state; an update that is refused changes nothing.
//   - PORT-4: Exactly(n) yields one value made of exactly n updates; then the port is gone.
//   - PORT-5: what a relay accepts goes on once and in order, folded with its neighbours only; what
//     cannot go is said.
//   - DEL-1: a message has one fate: it entered the mailbox; it is Undeliverable; or it is Indeterminate,
//     for nobody can know. A call returns it. A posted message that did not enter the mailbox comes back
//     with it, within its deadline and the time of a last question.
//   - DEL-2: an error that is Undeliverable says that no handler ran the message. What a handler
//     returns never is, whatever its code.
//   - DEL-3: messages of one sender to one actor are handled in the order they were sent, casts
//     included, whatever the bus loses; only what is urged (ACT-12), and the word of an end that is held up (ACT-13), overtakes others. Where that cannot be repaired the link between the two
//     processes breaks, loudly: what was on its way has a fate, what waits for the other fails, and the
//     next message begins anew.
//   - DEL-4: no handler sees a message twice, but for one that was urged.
//   - DEL-5: a proc that is known to be dead is sent nothing and believed nothing. An event speaks only of
//     ranks that the mesh has, as far as this process knows its size.
//   - DEL-6: every mailbox and port has a bound, and a sender is told when it is reached: 1,024 messages
//     (Options), besides those an actor has taken up to handle, at most as many, and what PostWait of other procs
//     has sent: at most 8 MiB of each. For one process 8 MiB may wait to leave, then it is ErrBacklog.
//   - DEL-7: nobody waits for a slow actor but those who chose to, by a call or PostWait. Answers are
//     never refused for want of room.
//   - DEL-8: mail left in a stopped actor comes back; a call whose callee or its proc is found dead
//     fails at once, with the event that ended it, after what the callee said before. When a caller gives
//     up, its message's Context ends, or it is not handled at all.
//   - DEL-10: messages of plain NATS clients are checked, counted and answered in kind; each client may
//     send 20,000 a second.
//
// Handlers may block; others do not wait for them. An actor that calls waits on its own turn, so two
// actors that call each other wait for their deadlines; Context.Go does work off the turn and Defer
// answers later. An actor's own code and all its children run in one proc. A proc remembers the newest
// 1,024 actors that ended and the first 128 that failed, the newest 128 messages that came back, and
// the newest 65,536 ends of procs, where one event about many ranks counts once.
//
// # Failure
//
// Every verb returns an *Error whose code says what became of the message; errors.Is with the
// sentinels tells them apart. A wait without a deadline of its own ends after 30 s, or what
// Options say.
//
// A posted message that cannot be handled comes back to the actor that sent it (Undeliverer), or is
// logged; it fails nobody by itself. The life of an actor goes:
//
//	initializing ─▶ running ─▶ stopping ─┬─▶ stopped   it was asked to, and handled its mail
//	      └────────────┴───────────┴─────┴─▶ failed    its constructor, a handler nobody waited for, a
//	                                                   panic, Kill, a child, a link, its Cleanup
package actor
