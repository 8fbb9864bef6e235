// Package worlds is the system controller: the owner of what outlives its maker, which is worlds and detached
// meshes. A world is a proc mesh with a name that somebody declares; hosts join it before or after that, each with
// the rank it was given when its hostd was started, and run their share of its procs. A detached mesh is one that its
// owner has handed over.
//
// # Contract
//
//   - WORLD-1: a world is one mesh: its procs are ranks of it, wherever they run. Host rank r has the ranks from
//     r × (procs per host) on.
//   - WORLD-2: what is decided is saved before it is done and before it is answered.
//   - WORLD-3: whoever joins is answered before any other message to it, and again each time. A host whose rank
//     another live host has, a proc of another world, and whoever joins a world that is being stopped, are
//     refused with the reason.
//   - WORLD-4: a declaration is taken as a whole or not at all. The same one again changes nothing, or adds
//     labels; a label that is there is never overwritten.
//   - WORLD-5: ranks are assigned by host rank, never by arrival. The host of rank ⌊procs ÷ per host⌋ takes the
//     remainder; hosts behind it stand by; nobody is ever ordered an empty share. A proc that joins of itself may
//     have a rank beyond the shape: it is watched, and counts.
//   - WORLD-6: a world waits for its declaration; from then on it is Live while as many procs are there as its
//     shape has and all are healthy, and else Unhealthy: at the moment that is known, and with the reason.
//   - WORLD-7: a world one of whose procs has been unhealthy for the eviction time is stopped and removed, with the
//     reason. One that only lacks procs waits for ever. The clock is monotonic; one that went back stands still.
//   - WORLD-8: a world that is gone has left nothing: its name is free, and a world of that name is another mesh.
//   - WORLD-9: a proc is unhealthy when it has ended, was not heard in time, a message to it came back, or an actor
//     of it has failed. When a message to a proc came back, the controller probes the proc, again and again while a
//     probe has no certain fate; the proc is unhealthy when a probe comes back, too. Only silence is over with the next word; a new incarnation begins clean. The procs of a
//     host that is dead (package agent/presence) are unhealthy, and so are those that the controller before ordered there,
//     if there was one until now: after an outage of all, worlds wait for their hosts. When a proc dies that joined as
//     one that manages the system, everything stops.
//   - WORLD-10: whatever the instant at which a controller dies, nothing is spawned twice or forgotten: an order may
//     be given again, a rank is a new generation wherever its procs may have died, and what a host has that no
//     world has there is stopped.
//   - WORLD-11: a stop is answered twice: at once, and with a report of what stopped, was aborted or never answered,
//     at the latest when its time is over. A world without members, and a system without worlds, end at once.
//   - WORLD-12: a snapshot is how things are when it is taken. Names and labels of worlds must both match; procs are
//     chosen inside a world, hosts are always all there. It waits for no data when it is urged (ACT-12).
//   - WORLD-13: of several controllers one acts. It has the lease, which it renews each half second and gives up 2 s
//     after it last could; another takes it after 2.75 s of silence, or at once when it is given back: a failover takes
//     5 s at most. Each term has a higher epoch, which goes with every order: hosts refuse those of an earlier one (HOST-13).
//   - WORLD-14: where there is no JetStream it runs all the same, and says that worlds end with it: their procs have a
//     lease, and the next controller stops what it does not know.
//   - WORLD-15: whatever is asked is answered; nothing that is asked ends the controller.
//   - WORLD-16: a mesh that its owner detaches is the system's: a controller of this proc follows the owner's, in the next
//     epoch of the mesh, renews the leases, and keeps the policy. What is to be so is saved first, and answered once the
//     hosts have heard of it. Each term is another epoch. The mesh is given back to who names the epoch of today
//     (agent.FencedError refuses others), one at a time: it is the system's until he has confirmed that the hosts obey him,
//     and when he does not, within 10 s or half its lease, the system follows him in the epoch after his. It is forgotten
//     when it has ended or hosts say that another owns it. A name is that of one detached mesh, or of one world
//     (NameTakenError).
//   - WORLD-17: one acting controller gives names away: to worlds that begin, to detached meshes, and to programs that
//     reserve them (Reserve). Before that the hosts are asked which meshes live. A reservation ends when it is
//     released, and proc.spawn-idle after it was given: by then the hosts know the mesh. It is saved where there is
//     JetStream; without it a controller that follows another gives no names for as long.
//   - WORLD-18 (a lost bucket): the controller makes a bucket that is gone again, and fills it with what it knows. A world
//     without a record in a bucket younger than 10 minutes is adopted from the hosts that run it: no proc is stopped because a
//     record is missing.
//
// # Use
//
// hostd runs a Service, and Stay for a host that was given a world and a rank:
//
//	s, err := worlds.Start(ctx, worlds.Options{Bus: b, Label: "n07"})
//	go worlds.Stay(ctx, h.Proc(), worlds.Joining{World: "train", Host: &worlds.JoiningHost{…}}, changed)
//
// Whoever wants something finds the controller, which is an actor like any other, and asks it:
//
//	system, err := worlds.Find(ctx, p)
//	made, err := worlds.Upsert.Call(ctx, system, worlds.Declaration{Spec: spec})
//	now, err := worlds.Snap.Call(ctx, system, worlds.Filter{Worlds: []string{"train"}})
//
// It is the micro service castnet-system, so any NATS client finds it, and asks it in JSON at the subjects of its
// endpoints (`nats micro info castnet-system`). What becomes of worlds is told on `ev.mesh`, by the steps world.live,
// world.unhealthy, world.evict and world.end; of detached meshes, by mesh.detach and mesh.adopt.
//
// # Parts
//
// The core is a pure function, step, from what was heard to what is to be done; what it costs does not grow with
// the number of worlds.
package worlds
