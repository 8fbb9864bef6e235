// Package mesh is the user's view of castnet: a connection, its hosts, and meshes of procs and
// actors on them.
//
// # Use
//
//	conn, err := mesh.Connect(ctx, mesh.Options{})                // NATS_URL, or the local hostd
//	defer conn.Close(ctx)                                         // stops what this program made
//	hosts, err := conn.Hosts(ctx)                                 // every hostd on the bus
//	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 4)) // OS processes: host × gpu
//	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 0)
//	n, err := add.Call(ctx, counters.At("host", 0, "gpu", 3), 5)  // one
//	sum, err := cast.Reduce(ctx, counters.Slice("gpu", 0, 2), add, 1, cast.Sum[int64]())
//
// Lookup finds meshes of other programs, and worlds, by name: conn.Lookup(ctx, "train"). Find finds
// the actors in them.
//
// Hosts also come from a list (Attach) or an allocator (Allocate). Package agent/host has
// allocators that start hosts; OnProcs turns procs into hosts. Take keeps other programs from
// ending hosts.
//
// Handles are values: copy them, keep them, use them on any goroutine. They hold no goroutine and
// need no closing; only Net does. Every handle has a text form and so travels in messages; Via
// binds it to the reader's Net.
//
// A handle made from a bad index or slice carries its error, and every verb returns it, so calls
// can be chained.
//
// # Contract
//
//   - MESH-2 (ownership): The program that made a mesh owns it until a Detach or TakeOver. An
//     actor owns the meshes of its Context (NetOf). A mesh ends with its owner. Other readers of a
//     handle get *OwnerError from the owner's verbs.
//   - MESH-3 (spawn): When Spawn returns, every rank runs and casts reach it. A failed Spawn first
//     stops its started ranks; its *SpawnError names each failed rank, host and reason. A spawn
//     that cannot succeed starts nothing (*RefusedError).
//   - MESH-5 (stop): Stop returns once every rank of the region has ended, and touches no other
//     rank; a second Stop returns at once. Shutdown of hosts does the same, checks each time, and
//     fails as long as a host is left.
//   - MESH-6 (watch): Watch yields each rank's end once, earlier ends included, milliseconds after
//     the host noticed, and waits for no data. This holds for worlds, found actors and actors
//     without owner. A watch of hosts yields each change once.
//   - MESH-8 (hosts): Attach, Allocate and Take return all hosts or none; a *HostsError names each
//     host that did not answer or refused. Allocated and taken hosts go back with the end of their
//     owner. Failures are errors; those hosts stay owned.
//   - MESH-9 (silence is named): States and Ping report each rank of the region; a silent one is
//     Timeout, a name unknown to its proc a *NotFoundError. An Inventory and not-found errors name
//     silent hosts and gateways, and a search cut by its deadline.
//   - MESH-11 (restarts): Under a restarting policy, handles and casts reach a rank's present
//     holder; a Ref means one actor. A process that missed events asks the owner or the hosts once,
//     within 2 s; otherwise its first cast there fails.
//   - MESH-12 (controller loss): A stream ends with a *ControllerError once the controller is
//     gone, fenced, or silent for supervision.controller-timeout. So does a host watch of a
//     program that was deaf that long. No rank or host is blamed; held-up data is no silence.
//   - MESH-14 (change of owner): TakeOver, Detach and Adopt change a mesh's owner, and start and
//     stop nothing. The former owner acts no more, even if it lives (*agent.FencedError). Detach
//     and Adopt refuse a mesh of another program (*OwnedError).
//   - MESH-15 (names): Of concurrent takers of a name (TakeName) the system controller lets one
//     succeed; a live mesh or world refuses all (*NameTakenError). Lookup prefers the mesh with
//     the taken name; several others are an *AmbiguousError.
//   - MESH-18 (restart): Restart restarts healthy ranks in batches, each once the one before runs
//     with its actors. It stops at the first failure and names the untouched ranks. If actors
//     would be lost, it refuses and names them, unless forced.
//   - MESH-21 (unhandled failure): Options.OnFailure gets failures of parentless actors and of
//     ranks in meshes never watched. Else the Net ends: Context and every verb fail with the
//     causes. An actor that never watched a mesh it made fails with it, 1 s later.
//   - MESH-24 (elastic meshes): Grow and Shrink change the hosts at the end of the first
//     dimension. No rank changes its number. Handles and watches of the whole mesh follow; slices
//     keep their region (*RemovedRanksError). A failed Grow leaves the mesh as it was.
//   - MESH-25 (logs): StreamLogs passes each line of each output to the program once, in order,
//     across reconnects, restarts, moves and Grows. A slow program delays no proc; dropped lines
//     are counted. Flush returns once earlier lines were handled, or names silent ranks.
//   - MESH-26 (linked actors): Linked actors belong to the calling actor. They stop once it or its
//     process is gone, with a reason that names it. It handles their failures like those of its
//     children; an unhandled one fails it.
//
// # Details
//
// A stream asks each host by one message at a time for the lines after known offsets, so a host
// keeps nothing for it. The stream begins with the first line, or with the last ones. It lies at
// most 8 MiB behind each output; then it continues with the last 64 KiB. It says that a host is
// dead, or has not answered for 5 s, and when it answers again. Lines of a rank on a host that
// died are lost unless they arrived before. Close of the Net waits up to 2 s for last lines.
//
// Watches of one controller's meshes through one Net share a subscription. A host that left a world
// in good order before a watch began has no ranks in it. Procs say who owns their found actors, or
// report the states of actors without owner. A watch subscribes to the events of a mesh and lists
// the latest ones, at first, after a reconnection or a gap in their numbers, and at every beat: an
// eighth of supervision.controller-timeout, at most 3 s. One unanswered list blames no controller,
// because the program itself may have been suspended. The system controller keeps an adopted mesh
// even if the adopter dies before Adopt succeeds. An order to stop that a controller of hosts gets
// also returns them. Anyone can answer a search for hosts; a host is found once its agent answers,
// too.
//
// Verbs of the owner alone are the Stop of an ActorMesh with an owner, Detach, and the drain and
// shutdown of allocated or taken hosts. Any program of the owner's user may stop, restart, grow and
// shrink a ProcMesh, and invite hosts to it; its controller carries that out. Other programs need
// the role of an operator (Options.Principal). A program that drains, shuts down or takes hosts
// needs it, too, unless it allocated them.
//
// After a Grow or Shrink a process that uses the mesh asks its owner, at its next use of a handle.
// A handle that was never used keeps its shape until then. A watch of the whole mesh hears of
// added ranks once they run with their actors, and of the ends of removed ones. CASTNET_WORLD_SIZE
// and the Point of an actor keep the extent of their start. A spawn that a Grow may have missed
// asks the owner of the procs, waits for the end of the Grow, and then follows it. Services and
// actors without owner do not follow, nor does a decoded handle without Via. Worlds, detached
// meshes and meshes with several dimensions of hosts do not grow. A program that looks a mesh up
// during a Grow may see the added ranks early.
//
// Procs of this program inherit the environment of the program (Options.Env). Those that an actor
// spawns inherit that of the actor's own mesh (Command.Env). Env is a typed variable in it.
//
// A program keeps the controllers of its newest 64 meshes that are over. A watch of an older mesh
// ends with a *ControllerError, and its states are those that hosts remember.
//
// Close ends a program's meshes at once. After the program's death they end when the lease runs
// out, 60 s by default. Any reader of a handle can call, cast and watch. Actors without a
// controller, and services, have no owner. Supervise handles the failures of an actor's mesh on
// the actor's turn. Detach hands a mesh to the system controller, which owns it until Adopt
// succeeds. The procs of linked actors monitor the calling actor, and it monitors them; a spawn of
// them outside an actor is refused.
//
// When Spawn returns, the server has the subscriptions of the ranks; with several servers, a
// message took that route. States and Ping name a rank by its rank in the region, and do the same
// for hosts. States returns the end of a silent rank, if this process has heard of it. Streams of
// worlds need a live system controller, those of actors without owner a live proc.
//
// Allocated or taken hosts have a controller (Owner), made first. Close, Shutdown, Release, its
// end and its actor's end return them: started hosts end, others go on. Other hosts have no owner.
// A watch of hosts begins with the unhealthy ones, and names a host by its rank in the region. A
// host may return, and end again. An Inventory holds each host that answered and each that a
// gateway or mesh owner expects.
//
// Taken names are those of worlds, of detached meshes and of TakeName. Lookup finds worlds too,
// and casts to an incomplete world reach its present ranks. Without a system controller only hosts
// are asked for a name, and two takers may succeed. A plain spawn asks nobody.
//
// # Failure
//
// Remote waits end with their context, or after 30 s without a deadline. This package launches no
// processes; hosts do.
package mesh
