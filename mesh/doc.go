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
// allocators that start hosts; OnProcs turns procs into hosts. Every handle has a text form and so
// travels in messages; Via binds it to the reader's Net. Take keeps other programs from ending
// hosts.
//
// A handle made from a bad index or slice carries its error, and every verb returns it, so calls
// can be chained.
//
// # Contract
//
//   - MESH-1 (values): Handles are values: copy them, keep them, use them on any goroutine. They
//     hold no goroutine and need no closing; only Net does.
//   - MESH-2 (ownership): The program that made a mesh owns it until a Detach or TakeOver. Close
//     ends the mesh at once. The program's death ends it when the lease runs out (60 s by
//     default). For hosts see MESH-20.
//   - MESH-3 (ready): When Spawn returns without an error, every rank runs and casts reach it.
//     The server has its subscriptions; with several servers, a message took that route.
//   - MESH-4 (failed spawn): When Spawn fails, it stops its started ranks before it returns a
//     *SpawnError. The error names each failed rank with its host and reason.
//   - MESH-5 (stop): Stop returns once every rank of the region has ended, and touches no other
//     rank; a second Stop returns at once. Shutdown of hosts does the same, checks each time, and
//     fails as long as a host is left.
//   - MESH-6 (watch): Watch yields every rank's end once, earlier ends included, milliseconds
//     after the host noticed, and waits for no data. This holds for worlds, found actors and
//     actors without owner too.
//   - MESH-7 (owner verbs): Ownership does not travel. The reader of a handle can call, cast and
//     watch; the owner's verbs return *OwnerError. Actors without a controller, and services,
//     have no owner.
//   - MESH-8 (all or none): Attach, Allocate and Take return all hosts or none. A *HostsError
//     names each host that did not answer or refused. Allocated hosts are returned.
//   - MESH-9 (states): States and Ping report each rank of the region by its rank there. A silent
//     one is Timeout. A name unknown to its proc is a *NotFoundError. Hosts follow the same
//     rules.
//   - MESH-10 (refusal): A spawn that cannot succeed is refused before anything starts, with a
//     *RefusedError around the cause.
//   - MESH-11 (restarts): Under a restarting Policy, handles and casts reach a rank's present
//     holder; a Ref means one actor. A process that missed events asks the owner or the hosts once,
//     within 2 s; otherwise its first cast there fails.
//   - MESH-12 (controller loss): A stream ends with a *ControllerError once the controller is
//     gone or fenced, or silent for supervision.controller-timeout. Held-up data is no silence,
//     and no rank is blamed. Worlds need a live system controller, actors without owner a live
//     proc.
//   - MESH-13 (actor's mesh): A mesh made with an actor's Context (NetOf) ends with that actor.
//     Supervise handles its failures on the actor's turn.
//   - MESH-14 (take over): TakeOver makes a program the owner of another program's proc mesh. It
//     starts and stops nothing. The former owner acts no more (*agent.FencedError), even if it
//     lives.
//   - MESH-15 (lookup): Lookup finds the live mesh of a name, worlds included (package
//     system). Of several, it prefers the taken name (a world, a detached mesh,
//     TakeName), else returns an *AmbiguousError. Casts to an incomplete world reach its present
//     ranks.
//   - MESH-16 (detach, adopt): Detach hands a mesh to the system controller; Adopt takes it back.
//     Both use the owner's epoch (*agent.FencedError); a mesh of another program is an
//     *OwnedError. Nothing starts or stops. The system controller owns the mesh until Adopt
//     succeeds.
//   - MESH-17 (names): TakeName takes a name from the system controller. Of concurrent takers one
//     succeeds; a live mesh or world refuses all (*NameTakenError). Without a system controller
//     only hosts are asked, and two takers may succeed. A plain spawn asks nobody.
//   - MESH-18 (restart): Restart restarts healthy ranks in batches, each once the one before runs
//     with its actors. It stops at the first failure and names the untouched ranks. If actors
//     would be lost, it refuses and names them, unless forced.
//   - MESH-19 (host watch): Watch and Changes of hosts yield unhealthy hosts at once, then each
//     change once, by rank in the region. A host may return, and end again. A program that was
//     deaf for supervision.controller-timeout gets a *ControllerError, and blames no host.
//   - MESH-20 (owned hosts): Allocated or taken hosts have a controller (Owner), made first.
//     Close, Shutdown, Release, its end or its actor's end returns them: started hosts end, others
//     go on. Failures are errors; those hosts stay owned. Other hosts have no owner.
//   - MESH-21 (unhandled failure): Options.OnFailure gets failures of parentless actors and of
//     ranks in meshes never watched. Else the Net ends: Context and every verb fail with the
//     causes. An actor that never watched a mesh it made fails with it, 1 s later.
//   - MESH-22 (missing hosts): An Inventory holds each host that answered and each that a gateway
//     or mesh owner expects. Its Err names silent hosts, a search cut by the deadline, and silent
//     gateways. A not-found error includes that Err.
//
// # Details
//
// Watches of one controller's meshes through one Net share a subscription. A host that left a world
// in good order before a watch began has no ranks in it. Procs say who owns their found actors, or
// report the states of actors without owner. A watch subscribes to the events of a mesh and lists
// the latest ones, at first, after a reconnection or a gap in their numbers, and at every beat: an
// eighth of supervision.controller-timeout, at most 3 s. One unanswered list blames no controller,
// because the program itself may have been suspended. The system controller keeps an adopted mesh
// even if the adopter dies before Adopt succeeds. An order to stop that a controller of hosts gets
// also returns them.
//
// # Failure
//
// Remote waits end with their context, or after 30 s without a deadline. This package launches no
// processes; hosts do.
package mesh
