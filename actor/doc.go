// Package actor runs actors: objects with a mailbox, an address on the bus, and one goroutine at
// most. It knows nothing of meshes, agents or controllers; these are actors, too.
//
// # Use
//
// A program declares an actor's endpoints apart from their code. Clients need only the
// declarations, and actors can send messages to their own kind:
//
//	var (
//		counter = actor.NewType[*Counter, int64]("counter")
//		add     = actor.NewEndpoint[*Counter, int64, int64]("add")
//	)
//
//	func newCounter(ctx *actor.Context, start int64) (*Counter, error)    { … }
//	func (c *Counter) add(ctx *actor.Context, delta int64) (int64, error) { … }
//
//	registry, err := actor.NewRegistry(counter.Define(newCounter, add.Handle((*Counter).add)))
//	p, err := actor.NewProc(ctx, actor.Options{ID: id, Bus: b, Registry: registry})
//	ref, err := actor.Spawn(ctx, p, counter, "counter", 0)
//	n, err := add.Call(ctx, ref, 5)  // send and wait for the answer
//	err = add.Send(ctx, ref, 5)      // send
//
// A message, an answer or an actor of the wrong type does not compile. Within a proc a message is a
// mailbox push, and the value itself arrives: a sent value belongs to its receiver. Between procs a
// message is CBOR on the bus. Each proc of a process needs a bus.Bus of its own, because a
// connection does not receive its own messages.
//
// Send refuses when the mailbox is full; SendWait waits for room. Proc.Flush waits for the fates of
// messages to other procs. An actor makes children with SpawnChild. WithRestartPolicy or the parent
// (Supervisor) decides on restarts.
//
// An actor watches others with Context.Monitor, runs long work with Context.Go, and answers later
// with Defer. Ports (OpenPort, OpenOnce, OpenAccumulator, OpenRelay) receive messages outside of
// calls; a PortRef travels in messages. Proc.Inspect shows any actor while it works. Package
// actortest tests one alone.
//
// Proc.Casts, Foreign, Members and Values serve the packages of castnet that carry casts or own
// meshes. Programs do not need them.
//
// # Ordering and concurrency
//
//   - ACT-1 (one goroutine): At most one goroutine runs an actor's code; an idle actor has none.
//     Signals of the runtime and of the actor's own tasks, timers and children come before the
//     mail.
//   - ACT-2 (panics): A panic of a handler, a task or a marshaler fails its actor. The caller gets
//     ErrPanic, and the proc lives. A panic while decoding makes the message malformed. Endless
//     recursion overflows the stack, which ends the process.
//   - ACT-3 (one terminal event): An actor has exactly one terminal event, after its last handler
//     returned and its children ended. A child that does not stop within 10 s is killed and left
//     behind.
//   - ACT-4 (errors): A handler's error is the answer, and the actor lives. Without a waiting
//     caller (Send) the error fails the actor, unless its Def has ResumeOnError. Malformed
//     messages, dead letters and messages of plain NATS clients never fail an actor.
//   - ACT-5 (stop and kill): A stopped actor handles its accepted messages and refuses the rest. A
//     killed or failed actor handles nothing more: its context ends, and its mailbox comes back at
//     once, even while its last handler runs.
//   - ACT-6 (one owner of a failure): A failure leads to a restart, or its parent handles it
//     (Supervisor), or it fails the parent. Without a parent, the Coordinator or the proc takes
//     it. A restarted actor is new: no message for the former one reaches it.
//   - ACT-8 (monitors): A monitor fires exactly once for the end of an actor, whenever it began.
//     When data stalls, the control connection repeats monitor and Link messages after about a
//     second. It never reports an actor as gone that has not started.
//   - ACT-10 (memory): Sending within a proc allocates nothing when the message holds no pointers.
//     An actor at rest holds no goroutine, no message, and no buffers of a burst.
//   - ACT-11 (generations): Of the procs of one rank, the rank belongs to the highest generation
//     confirmed by its host. LatestGeneration returns that proc; an ID always means one proc, dead
//     or not.
//   - ACT-12 (urgent messages): An urgent message (CallUrgent) is sent on both connections until it
//     is answered. Its endpoint must be Urgent. The handler runs at most once per connection, and
//     not for the control copy if the data copy came first.
//   - ACT-14 (answers are copies): An answer to another proc, and every answer to a cast, is
//     encoded within its handler's turn or by Deferred.Reply, unless its type holds no pointers. A
//     Call within the proc receives the value itself.
//   - ACT-16 (audit): Each message of an audited endpoint has a line at level info and an event:
//     sender, object and answer. So does the start of a deferred answer. Routine acts are recorded
//     only if refused.
//   - ACT-17 (roles): An actor with Permit compares each message from another process with the role
//     of its sender, and refuses it with CodeDenied; a refused act is audited. Other actors and
//     their ports refuse observers, which only read.
//   - ACT-18 (events): An event counts from a sender that can know it: of a proc its host, the
//     owner of its mesh, and a system controller. An end by others counts if the proc
//     confirms it, or the server knows no process.
//   - PORT-1 (closed ports): A once port takes one message; a refused message does not use it up.
//     A closed or used port returns ErrPortGone, and a port that never existed ErrNoEndpoint.
//   - PORT-3 (accumulators): An accumulating port folds each accepted update once, in the order of
//     arrival. Receivers see the latest state; a refused update changes nothing. Exactly(n) yields
//     one value of exactly n updates; then the port closes.
//   - PORT-5 (relays): A relay forwards accepted updates once and in order, folded with their
//     neighbours only. It reports updates that it cannot forward.
//   - DEL-1 (one fate): A message enters the mailbox, or is Undeliverable, or is Indeterminate. A
//     call returns its fate. A sent message without entry becomes a dead letter, within its
//     deadline and the time of a last query.
//   - DEL-2 (Undeliverable): No handler ran a message whose error is Undeliverable. A handler's own
//     error never is, whatever its code.
//   - DEL-3 (order): Messages of one sender to one actor, casts included, are handled in sending
//     order, and none twice. Only urgent messages repeat; only they and late supervision messages
//     overtake (ACT-12, ACT-8). A failed repair breaks the link.
//   - DEL-5 (ends): A proc known to be dead is sent nothing. A call to a dead actor or proc fails
//     at once with its end event, after its earlier messages. Mail in a stopped actor comes back.
//   - DEL-6 (bounds): Mailboxes, ports and the queue to each process are bounded, and a sender
//     learns of a full one. Only callers and SendWait wait for a slow actor. Answers are never
//     refused for want of room.
//   - DEL-10 (plain clients): Messages of plain NATS clients are checked, counted and answered in
//     kind; each client may send 20,000 a second, and so may all new ones together.
//   - DEL-11 (traces): A message carries the trace of the context it is sent with, and a handler's
//     context has that of its message. A plain client's traceparent is such a trace, and its reply
//     has it. A malformed traceparent counts as none.
//   - DEL-12 (spans): A Tracer gives each sampled send, call and handler one span with its outcome.
//     Messages of the handler are children. Handlers of untraced messages begin no trace. The
//     packet of a sampled message has its traceparent.
//
// # Details
//
// While an actor stops, a child's failure is only an event. A child in another proc
// (SpawnSpec.Parent, Supervise) stops after its parent has ended. A restarted actor has a new name.
// Monitor and Link messages travel in the order of data. A monitor that the control connection
// fired sets Down.OutOfOrder.
//
// After a failed repair of a link its messages have fates, its calls fail, and a new link begins.
// Messages of a dead proc are dropped. An event covers only the ranks of its mesh, as far as this
// process knows the mesh's size. If a caller gives up, its message's Context ends or it is not
// handled. A mailbox holds 1,024 messages (Options), one batch in work, and from each remote proc
// 8 MiB of SendWait per endpoint, or two larger messages. Ports have the same bounds (OpenPortSize). Large messages of others may be on their
// way besides. This credit also holds over several links. The queue to one process holds 8 MiB
// (ErrBacklog).
//
// Handlers may block; other actors do not wait for them. An actor calls on its own turn, so two
// actors that call each other wait for their deadlines. A call to itself is refused, and so is its
// own rank in a cast. Use Context.Go for work off the turn, and Defer for late answers. A stop
// finishes the work of Go for such answers, 10 s at most. An actor's own code and all its children
// run in one proc.
//
// A proc remembers the newest 1,024 actors that ended and the first 128 that failed. It also
// remembers the newest 128 dead letters and 65,536 ends of procs, where one event about many ranks
// counts once.
//
// # Failure
//
// Every verb returns an *Error with a code for the message's fate; compare with the sentinels by
// errors.Is. A wait without a deadline ends after 30 s, or after Options.Deadline.
//
// A dead letter goes to the sending actor (DeadLetterHandler) or is logged; it fails no actor by
// itself. An actor's life:
//
//	initializing ─▶ running ─▶ stopping ─┬─▶ stopped   it was asked to, and handled its mail
//	      └────────────┴───────────┴─────┴─▶ failed    its constructor, an unawaited handler, a panic,
//	                                                   Kill, a child, a link, its Cleanup
package actor
