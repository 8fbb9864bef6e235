// Package system is the system controller. It owns worlds and detached meshes, which outlive their
// makers. A world is a declared proc mesh with a name. Hosts join it before or after the
// declaration, each with the rank given to its hostd, and run their share of its procs. A detached
// mesh is one that its owner has handed over.
//
// # Contract
//
//   - WORLD-1 (one mesh): A world is one mesh, wherever its procs run. Host rank r has the ranks
//     from r × (procs per host) on, whatever the order of arrival. Later hosts stand by; no host
//     gets an empty share.
//   - WORLD-2 (controller death): A decision is saved before it is carried out and before the
//     reply. At whatever instant a controller dies, no proc is spawned twice or forgotten. A rank
//     whose procs may have died gets a new generation.
//   - WORLD-3 (requests): Every request gets a reply, and none ends the controller. A declaration
//     is accepted whole or not at all; a repeated one only adds labels. The reply to a join
//     precedes any other message to the joiner.
//   - WORLD-6 (phases): A declared world is Live while it has as many procs as its shape, all
//     healthy. It is Starting before it has had them; otherwise it is Unhealthy. It is removed once
//     a proc was unhealthy for the eviction time.
//   - WORLD-8 (end): A stop gets two replies: one at once, and at the deadline at the latest a
//     report of stopped, aborted and silent members. A removed world leaves nothing, and its name
//     is free for another mesh.
//   - WORLD-9 (unhealthy): A proc is unhealthy when it ended, missed its heartbeat time, a
//     message and its probe came back, an actor failed, or its host died. Silence alone
//     heals. A self-joined proc without a controller for five intervals closes.
//   - WORLD-12 (snapshot): A snapshot shows the state when it is taken. Names and labels of
//     worlds must both match; a filter selects procs in a world, but never hosts. An urgent
//     snapshot waits for no data (ACT-12).
//   - WORLD-13 (one acts): One controller acts. It renews its lease each half second and stops 2
//     s after the last renewal. Another follows after 2.75 s of silence, or a release; failover
//     takes at most 5 s. Hosts refuse earlier epochs (HOST-9).
//   - WORLD-14 (lost store): Without JetStream the controller runs, and reports that worlds end
//     with it. It recreates a lost bucket from its own state. No proc is stopped because its
//     record is missing there.
//   - WORLD-16 (detached meshes): The system controller follows a detached mesh's owner in the
//     next epoch, renews leases and keeps the policy. It saves first and replies once hosts obey.
//     One adopter at a time, naming the present epoch, succeeds (agent.FencedError refuses others).
//   - WORLD-17 (names): The acting controller arbitrates the names of worlds, detached meshes and
//     programs (Reserve). It asks the hosts first. A reservation is saved, and ends at its release
//     or after proc.spawn-progress-timeout. Without saved ones, a successor grants none for that
//     long.
//   - WORLD-18 (history): Every service remembers the newest 256 failures of procs and actors, bad
//     changes of worlds, and drains and shutdowns of hosts, since its start. The acting one returns
//     them, also after the end of their owner or of another controller.
//
// # Details
//
// When a message to a proc came back, the controller probes the proc until a probe has a certain
// fate. A new incarnation of a host begins healthy. The death of a host (package presence)
// makes its procs unhealthy, also those that the previous controller ordered there, if one acted
// until now. After an outage of all controllers, worlds wait for their hosts. When a proc dies that
// joined as a system manager, everything stops.
//
// Silence of a self-joined proc counts only while the controller can hear, as in package presence.
// The count starts again after a loss of the bus and after a pause of the controller. A pause is
// half of world.proc-timeout without an event. No world is evicted before world.proc-timeout after
// either, because good news may wait unread. A self-joined proc counts only intervals in
// which it asked, so its own pause does not close it.
//
// An adopted mesh stays with the system until its adopter has confirmed that the hosts obey it. If
// the adopter does not confirm within 10 s or half its lease, the system follows it in the epoch
// after. Each term of a controller is another epoch of a detached mesh. The system forgets a mesh
// that has ended, or that has another owner according to its hosts. A name belongs to one detached
// mesh or one world (NameTakenError).
//
// Reservations are saved with JetStream alone. Without it, a controller that follows another grants
// no names to programs and new worlds for proc.spawn-progress-timeout. By the end of a reservation
// the hosts know its mesh.
//
// Host ⌊procs ÷ per host⌋ takes the remainder. A self-joined proc may have a rank beyond the
// shape: it is watched, and counts. A repeated join gets a reply too. A join is refused, with the
// reason, for a live host's rank, a proc of another world, or a stopping world. An existing label
// is never overwritten.
//
// A world waits for its declaration, and then for procs that it lacks, for ever. The phase changes
// as soon as the change is known. Each new cause of an unhealthy world is another event, up to 16
// until the world is healthy; equal reasons of many procs are one cause. The clock of evictions is
// monotonic; a clock that went back stands still. A world without members ends at a stop at once;
// so does a system without worlds.
//
// After the death of a controller orders may repeat, and procs on a host that no world has there
// are stopped. Without JetStream procs have a lease, and the next controller stops unknown procs.
// In a bucket younger than 10 minutes, a world without a record is adopted from its hosts.
//
// # Use
//
// hostd runs a Service, and KeepJoined for a host with a world and a rank:
//
//	s, err := system.Start(ctx, system.Options{Bus: b, Label: "n07"})
//	go system.KeepJoined(ctx, h.Proc(), system.JoinRequest{World: "train", Host: &system.HostJoin{…}}, changed)
//
// A proc of another program joins by itself, with KeepJoined and a ProcJoin. Its ID is in the mesh
// of the world, and its agent (proc.Join) carries out the world's stop.
//
// A client finds the controller, an actor like any other, and calls it:
//
//	ctl, err := system.Find(ctx, p)
//	made, err := system.Upsert.Call(ctx, ctl, system.UpsertRequest{Spec: spec})
//	now, err := system.GetSnapshot.Call(ctx, ctl, system.Filter{Worlds: []string{"train"}})
//
// The acting controller is the micro service castnet-system, with its space (dots as underscores)
// as the ID. Any NATS client finds it, and calls the subjects of its endpoints in JSON (`nats micro
// info castnet-system`). Changes of worlds are events on `ev.mesh`: world.starting, world.live,
// world.unhealthy, world.evict and world.end. Those of detached meshes are mesh.detach and
// mesh.adopt.
//
// # Parts
//
// The core is a pure function, step, from events to effects. Its cost does not grow with the number
// of worlds.
package system
