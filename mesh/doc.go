// Package mesh is what users hold: a connection to a castnet, its hosts, and meshes of procs and
// actors spawned on them.
//
// # Use
//
//	net, err := mesh.Connect(ctx, mesh.Options{})                 // NATS_URL, or the local hostd
//	defer net.Close(ctx)                                          // stops what this program made
//	hosts, err := net.Hosts(ctx)                                  // every hostd on the bus
//	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 4)) // OS processes: host × gpu
//	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 0)
//	n, err := add.Call(ctx, counters.At("host", 0, "gpu", 3), 5)  // one
//	sum, err := cast.Reduce(ctx, counters.Slice("gpu", 0, 2), add, 1, cast.Sum[int64]())
//
// Meshes of others, and worlds, come by name: net.Lookup(ctx, "train"), and the actors in them by Find.
//
// Hosts also come from a list (Attach), from an allocator (Allocate: see agent/host for those that start
// some, and OnProcs for procs that become hosts), or from text: every handle is written and read as text, so
// it travels in messages, and Via binds it to the reader's Net. Take keeps other programs from ending hosts.
//
// A handle made from a bad index or slice carries its error, and every verb returns it, so calls
// can be chained.
//
// # Contract
//
//   - MESH-1: handles are values: copy them, keep them, use them on any goroutine. They hold no
//     goroutine and need no closing; only Net does.
//   - MESH-2: the program that made a mesh owns it, until it is detached or taken over. Close, or the program's death,
//     ends it: at once, or when the lease its controller kept runs out (60 s by default). Of hosts: MESH-20.
//   - MESH-3: when Spawn returns without an error, every rank runs, and casts reach it: the server has
//     what it subscribed, or, where there are several servers, it was reached over that road.
//   - MESH-4: when Spawn fails, what it had started is stopped before it returns, and the error is
//     a *SpawnError that names each failed rank with its host and reason.
//   - MESH-5: Stop returns once every rank of the region has ended, and touches no other; the second time it
//     does so at once. So does Shutdown of hosts, which looks again each time, and fails as long as something is left.
//   - MESH-6: Watch yields every rank's end once, those before it included, milliseconds after the
//     host noticed. All who watch meshes of one controller through one Net share a subscription with it. Of a world it
//     does so too; one that left with its host, in good order, before the watch began is no rank of it any more. So it does of
//     actors that were found, and of those that nobody owns: their procs say who owns them, or how they are.
//     Ends wait for no data: a second after something has happened to a mesh its controller in another program is asked, by the
//     control lane, for those that its stream has not brought.
//   - MESH-7: ownership does not travel: who reads a handle calls, casts and watches, and is refused what only
//     the owner may do (*OwnerError). Actors without a controller, and services, have no owner.
//   - MESH-8: Attach, Allocate and Take give all hosts or none: an *AttachError names each that did not answer, or
//     would not, and what was allocated is given back.
//   - MESH-9: States and Ping speak of each rank of the region, by its rank there; who does not answer is
//     Timeout, and a name that an asked proc does not know is a *NotFoundError. Hosts are asked so, too.
//   - MESH-10: what cannot be spawned is refused before anything starts, with a *RefusedError around the cause.
//   - MESH-11: with a Policy that restarts, handles and casts reach whoever has a rank now; a Ref is the one
//     actor that it was made for. A process that has not followed the mesh from its beginning, or was cut off, asks its
//     owner once, or its hosts, before it uses it: within 2 s, or else its first cast to the rank fails, and tells.
//   - MESH-12: a stream of a mesh ends with a *ControllerError when its controller is gone, or has lost the mesh: as soon as
//     that can be known; 5 s after the connections of its program have ended (presence.Severed), when that is silent since; and
//     after supervision.watchdog of silence, which data that are held up are not. No rank is blamed for it. That of a world
//     ends so when no system controller has answered for that long, and that of actors without an owner when none of their
//     procs has.
//   - MESH-13: a mesh that is made with the Context of an actor (Within) ends with that actor, and Supervise has it
//     deal with failures on its own turn.
//   - MESH-14: TakeOver makes a program the owner of a mesh of procs that another owned: nothing is started or stopped,
//     and the former owner acts no more (*agent.FencedError), even if it lives.
//   - MESH-15: Lookup finds the live mesh of a name, worlds among them (package controller/worlds). Of several it
//     finds the one that has taken the name (a world, a detached mesh, TakeName), else the error is an
//     *AmbiguousError. Of a world that lacks hosts, casts reach the ranks that are there.
//   - MESH-16: Detach hands a mesh over to the system controller, and Adopt takes one back from it: by the epoch of the
//     owner that is followed, which both return or refuse by (*agent.FencedError); what another program owns is an
//     *OwnedError. Nothing is started or stopped on the way, and the mesh has an owner at each moment: the system controller
//     until Adopt has succeeded, whenever the adopter dies.
//   - MESH-17: TakeName, and a spawn with it, reserves a name with the system controller. Of programs that take one
//     at one moment one succeeds, and none does when a live mesh or a world has it (*NameTakenError). Where no
//     system controller acts the hosts are asked, and two may succeed. A plain spawn takes no name.
//   - MESH-18: Restart starts ranks that are well anew, so many at a time, each once those before run with their actors;
//     it stops at the first that does not come back, and says which were never touched. A restart that would lose actors is
//     refused, and names them, unless it is forced.
//   - MESH-19: Watch and Changes of hosts yield what this program knows of them: what is not well at once, then each change
//     once, of the region's hosts by rank there. A host that is dead or has left may come back, and end again. A program that
//     could not hear for supervision.watchdog ends the stream with a *ControllerError, and blames no host.
//   - MESH-20: hosts that were allocated or taken have a controller in the program (Owner), made before them. Close, Shutdown or
//     Release of them, an order to stop that the controller gets, its end, and that of the actor whose Context they were got with, give them
//     back: those that were started end, others go on. What could not be is an error, and still the program's. Hosts that
//     were found or attached have no owner, and no end harms them.
//   - MESH-21: Options.OnFailure takes the failure of an actor without a parent, and of a rank of a mesh that the program
//     does not watch. Without it the Net ends: Context and every verb fail with the chain of causes. An actor that does
//     not watch its mesh fails with it, 1 s later.
//   - MESH-22 (missing hosts): an Inventory holds each host that answered and each that a gateway or the owner of a mesh
//     expects. Its Err names those that did not answer, and says when the deadline ended the search.
//
// # Failure
//
// Remote waits end with their context, at the latest after 30 s where none is given. Nothing here
// launches processes: hosts do.
package mesh
