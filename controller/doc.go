// Package controller owns meshes. A controller is an actor in the proc of the mesh's owner. It
// starts before the first rank, creates the ranks, follows their events, renews their leases, and
// stops them.
//
// # Use
//
// Package mesh starts one controller for every mesh that it spawns or whose hosts it takes. It
// speaks the lifecycle protocol with the controller; users see only the mesh. The mesh is the
// controller's one resource:
//
//	ref, err := actor.Spawn(ctx, p, controller.Type, "controller", controller.Spec{…})
//	_, err = agent.Create.Call(ctx, ref, agent.CreateRequest{})
//	statuses, err := agent.Wait.Call(ctx, ref, agent.WaitRequest{ID: id, Until: agent.Running})
//
// # Contract
//
//   - CTL-2 (one message per host): An operation sends one message to each host concerned, and one
//     cast stops actors. Controllers with one LeaseRenewer share messages of 256 renewals.
//     Unanswered stops and renewals also use the control connection (AGT-11).
//   - CTL-3 (events): Each change of a rank is one event on `ev.rank`, numbered from 1; each end
//     is reported once. As long as the controller lives, ListEvents returns each rank's latest
//     event, also over the control connection.
//   - CTL-4 (leases, stop): A live controller renews its procs' leases every third of their term;
//     those of a crashed one expire. A stopping controller first stops its mesh. Running ranks are
//     `stopping` from the stop request on.
//   - CTL-6 (restart): A rank that fails after it ran restarts under the RestartPolicy, as its next
//     generation, after a backoff, up to a limit. agent.Restart does so for healthy ranks,
//     whatever the policy. Reports of former generations have no effect.
//   - CTL-8 (host death): A silent host's ranks keep their status. They fail when it refuses, lacks
//     them in a reply, or is dead (package presence), unless a spare takes its place. A host that
//     returns gets a stop for its remaining procs.
//   - CTL-9 (news): A message from another process is a request, never news. News arrives only on
//     event subjects, and permissions can limit their publishers.
//   - CTL-10 (one owner): A mesh has one owner at a time; each next owner has a higher epoch
//     (TakeOver). Orders carry it (agent.Claim). A fenced controller stops acting, reports that
//     on `ev.` and in ListEvents, and leaves the mesh running.
//   - CTL-11 (spare hosts): A drained host's ranks move to a spare, in batches, each after its
//     old proc ended. Moves are no restarts; actor owners learn of them first. The drained host
//     becomes a spare. Spares are probed before use; fewest procs first.
//   - CTL-16 (kept mesh): Kept procs outlive their host. The controller probes a dead host's
//     procs at once, then every supervision.poll-interval. Ranks run while any answers, then share
//     the host's fate. A returning host adopts them, or stops them with the mesh.
//   - CTL-17 (host meshes): A mesh of taken hosts has a controller, made first (Spec.Hosts). It
//     lists each host's end once; a returning host is the next generation. Stop and the
//     controller's end return all hosts; failures are errors, which the next Stop retries.
//   - CTL-19 (final failure): A rank that fails for good after the mesh came up goes to
//     Spec.OnRankFailed 1 s later, unless it was stopping. If OnRankFailed does not handle it, the
//     controller fails; that ends the mesh and reaches its parent (ACT-6).
//   - CTL-20 (elastic meshes): Others learn of added ranks once these run with their actors, and
//     of a removal before a rank stops. If an added rank fails, the added hosts leave again. Added
//     ranks start in a later generation than removed ones.
//   - CTL-21 (invites): An invite lets the host of one label join, once, before it expires. The
//     host proves the secret and its own ID. A failed join uses no invite. The controller keeps 64,
//     without secrets. They end with it.
//
// # Details
//
// An actor waits supervision.restart-wait for its proc to restart. An actor that ends because its
// proc stops has the proc's fate. Its failure counts if the procs restart (agent.Mesh.Restarts);
// otherwise their controller reports it. During a drain the next batch leaves once the actors of
// the last one run again, or after supervision.restart-wait. A spare that is gone or takes no procs
// is skipped, a silent one comes last; none is reserved. A suspect or unknown host marks its ranks
// and changes none. A mesh of hosts follows presence. It has no leases and no policy, starts
// nothing, and cannot be taken over. ListEvents has the latest change of each host; other programs
// watch hosts themselves.
//
// A partial stop sends one message to each host with ranks of the part. After a second, the
// controller stops each unanswered actor over the control connection. The late reply to a start
// gets another stop. Lease renewals use the control connection when half their time passed without
// a reply. In a shared renewal each lease gets its own result.
//
// The controller subscribes to the events of its mesh before it creates the first rank. A failure
// known only from a reply waits 250 ms for its event. It keeps no record of its watchers, so none
// can block it. ListEvents answers whatever the state of the ranks, after any version, in the
// order of the numbers. A page has as many events as fit. An event that is too long loses its last
// output, details and causes.
//
// A change of the hosts is the next revision of agent.Mesh. Owners of actors on the whole mesh get
// it as a request (agent.Follow), hosts with their next lease renewal, and other processes ask for
// it after an event. Before it adds hosts, a controller asks the present ones for a later owner:
// added hosts know none. A mesh changes its hosts once at a time, and not while a host is drained;
// a joining host waits for that. A host of the mesh needs no invite.
//
// Replies to renewals bring missed events. A host replies with all its ranks. One that ran at the
// request and is not in the reply has been lost with its hostd. After 250 ms it fails, and the
// controller reports the end of its proc. The controller sends a renewal at once to a host with
// another incarnation. Without leases it polls every supervision.poll-interval, and makes earlier
// owners' leases endless. `mesh.stop.attempt` is published before any host gets the order to stop,
// and also when the owner's end stops the mesh.
//
// Waits for ends skip failures that a restart follows. Orders for earlier generations have no
// effect either. Each rank of a requested restart replies when it runs with its actors, or at its
// first failure; it does not count. While ranks are being created, their reason names a silent
// host. Failed ranks are reported on `ev.`. Each renewal repeats the unanswered stop of a returned
// host.
//
// State belongs to the controller's turn. The decisions are the pure function step;
// internal/supervise counts restarts, and testdata has scenarios.
package controller
