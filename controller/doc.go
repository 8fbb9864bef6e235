// Package controller owns meshes: a controller is an actor in the proc of whoever made a mesh. It
// is there before the first rank is, creates the ranks, hears of every change at once, keeps their
// leases, and stops them.
//
// # Use
//
// Package mesh starts one for every mesh that is spawned and speaks the lifecycle protocol with
// it; users meet it through the mesh. Its one resource is the mesh:
//
//	ref, err := actor.Spawn(ctx, p, controller.Type, "controller", controller.Spec{…})
//	_, err = agent.Create.Call(ctx, ref, agent.Creation{})
//	statuses, err := agent.Wait.Call(ctx, ref, agent.Waiting{ID: id, Until: agent.Running})
//
// # Contract
//
//   - CTL-1: no ownerless window: the controller follows the events of its mesh before it asks for
//     the first rank.
//   - CTL-2: one message per host for each operation, whatever the number of ranks; to stop a part of the mesh,
//     for each host that has ranks of it.
//   - CTL-3: each rank's end is told once, to the log and to every stream, in the order it was heard.
//   - CTL-4: as long as the controller lives, the leases of its procs are renewed every third of
//     their term, and the answers bring what events did not; when it stops, it stops its mesh first; when its process dies, the leases run out.
//   - CTL-5: a host that does not answer is not a dead rank: its ranks keep their last known
//     status, with the silence as its reason while they were being created. One that refuses, or
//     is known to be gone, never got them: they have failed.
//
// State belongs to the controller's turn; step, the function that decides, is pure.
package controller
