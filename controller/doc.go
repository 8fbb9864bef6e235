// Package controller owns meshes: a controller is an actor in the proc of whoever made a mesh. It
// is there before the first rank is, creates the ranks, hears of every change at once, keeps their
// leases, and stops them.
//
// # Use
//
// Package mesh starts one for every mesh that is spawned, or whose hosts it has got, and speaks the lifecycle protocol with
// it; users meet it through the mesh. Its one resource is the mesh:
//
//	ref, err := actor.Spawn(ctx, p, controller.Type, "controller", controller.Spec{…})
//	_, err = agent.Create.Call(ctx, ref, agent.Creation{})
//	statuses, err := agent.Wait.Call(ctx, ref, agent.Waiting{ID: id, Until: agent.Running})
//
// # Contract
//   - CTL-1: no ownerless window: the controller follows the events of its mesh before it asks for
//     the first rank.
//   - CTL-2: one message per host for each operation, whatever the number of ranks; to stop a part of the mesh,
//     for each host that has ranks of it. That to stop goes by both lanes (AGT-11).
//   - CTL-3: each rank's end is told once, to the log and to every stream, in the order it was heard.
//   - CTL-4: as long as the controller lives, the leases of its procs are renewed every third of
//     their term, and the answers bring what events did not: where there are no leases, they are asked for each
//     supervision.poll, and a lease of an owner before is made endless; when it stops, it stops its mesh first; when its
//     process dies, the leases run out.
//   - CTL-5: a host that does not answer is not a dead rank: its ranks keep their last known
//     status, with the silence as its reason while they were being created. One that refuses, or
//     is known to be gone, never got them: they have failed.
//   - CTL-6: a rank that has failed after it had run is started again where the Policy says so, as the next
//     generation of the rank, after a backoff, and so often within a time; then it has failed for good. Who
//     waits for ends sees none in between. What was said of an earlier generation, or asked for before the
//     later one ran, changes nothing. An actor waits for its proc to come back, for supervision.held; one that
//     ends because its proc stops has the fate of that.
//   - CTL-7: a subscriber that asks for it hears that the controller lives, for as long as it does, whatever its
//     ranks have come to. One that is gone is told no more, and harms nobody. So it is with one
//     whose link takes no more, until it subscribes again.
//   - CTL-8: a host ends ranks by its death alone (package agent/presence): then a spare has its place, if the
//     Policy has one that is not in trouble, or its ranks have failed. The controller of the procs tells
//     it on `ev.`, for nobody else can. A host that comes back is told to stop what it still has of the mesh.
//     Suspect or unknown is said of the ranks, and changes none.
//   - CTL-9: what comes by a message of another process is a question, never news: news come by the
//     subjects of events, which permissions can pin to who may tell them.
//   - CTL-10: a mesh has one owner at a time, and each that follows another has a higher epoch (TakeOver). Orders carry
//     it (agent.Claim); a controller whose order is refused for a later one acts no more, tells so on `ev.` and to
//     every subscriber, those that come later too, and leaves the mesh alone when it ends.
//   - CTL-11: a host that is drained gives its place to a spare one, if the Policy has one: its ranks go there, so many
//     at a time, each once it has ended where it was. That counts as no restart, and who has actors there is told
//     first, so that they wait for their procs; the next rank leaves once they run again, or after supervision.held.
//     The host is a spare one from then on. A spare host is asked before it is used: one that is not there, or takes
//     no procs, is passed over, and of the others the one with the fewest procs is first, and of those with
//     equally many any. None is reserved.
//   - CTL-12: ranks that are well are started anew, in their place and as their next generation, when that is asked for
//     (agent.Restart), whatever the Policy. Each is answered once it runs with its actors, or has failed for the
//     first time. That, too, counts as no restart.
//   - CTL-13: actors are stopped by one cast; those whose agents have not answered after a second, because something
//     holds up the data, or who folds the answers, are stopped one by one by the control lane. So are leases renewed when
//     half of the time for that has brought no answer.
//   - CTL-14: controllers that share a Keeper renew their leases at the same moments, with one message per host and 256 of
//     them. What becomes of one lease is said of that alone.
//   - CTL-15: ranks that run are stopping from the moment that their stop is asked for, and `mesh.stop.attempt` is told then:
//     before any host was asked, and also when the mesh is stopped because its owner ends.
//   - CTL-16: of a mesh that is kept, procs outlive their host: those of a dead one are asked, at once and then each
//     supervision.poll, and as long as any of them answers its ranks run. They have the host's fate (CTL-8) once none does. A host
//     that comes back adopts them, or is told to stop them where the mesh is to stop.
//   - CTL-17: a mesh of hosts that somebody has got has a controller, too, made before them (Spec.Hosts, Hold). It hears of them from
//     agent/presence; each end of a host is told once, as failed or stopped, and one that comes back is the next generation
//     of its rank. Who subscribes is told at once which are not well. To stop the mesh is to give the hosts back: all of them,
//     once; what could not be is an error, and done again by the next stop. Whatever ends the controller gives them back, too. It has
//     no leases and no policy, starts nothing, and is not taken over.
//   - CTL-18: how the ranks of a mesh of procs or actors have ended for good is asked for past all data (agent.Ends): from any of
//     them on, in the order of CTL-3, as many at a time as the control lane takes. One that is too long for that comes without its last
//     words, details and causes.
//   - CTL-19: a rank that fails for good after the mesh came up is given to Spec.Failed 1 s later, unless it was to stop.
//     Where that does not deal with it the controller fails, which ends the mesh and goes to its parent (ACT-6).
//
// State belongs to the controller's turn; step, the function that decides, is pure: internal/supervise
// counts restarts, testdata has scenarios.
package controller
