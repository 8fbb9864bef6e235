// Package agent is the lifecycle protocol: it creates, inspects, awaits, keeps alive and stops
// every resource of castnet. Three kinds of actor implement it. The resources of a host agent are
// procs, those of a proc agent are actors, and a controller has one mesh.
//
// # Use
//
//	agents := agent.Of(host.Proc())                                 // the agent of a host
//	_, err := agent.Create.Call(ctx, agents, agent.CreateRequest{…})     // start it
//	overlay, err := agent.Wait.Call(ctx, agents, agent.WaitRequest{ID: id, Until: agent.Running})
//	states, err := agent.Get.Call(ctx, agents, agent.GetRequest{})  // list everything
//	overlay, err = agent.Stop.CallUrgent(ctx, agents, agent.StopRequest{ID: id, Reason: "done"})
//
// One message per agent creates, awaits or stops all its ranks. The reply is one Overlay over those
// ranks. Any NATS client can send a host the same requests: the verb in `hr.<host>.<verb>.<sender>`
// is the endpoint, `hw.` for those on which the host acts.
//
// # Contract
//
//   - AGT-1 (create): A second Create with the same spec returns the statuses; another spec is an
//     error while a rank lives. When all ranks of a stopped resource have ended, Create begins
//     their next generation. An ended generation never returns.
//   - AGT-3 (status): The status of a rank only advances. Timeout and Unknown are results at the
//     caller; no agent stores them. An unknown ID gives an empty reply, not an error.
//     A host replies with all its ranks of a mesh.
//   - AGT-5 (reply in time): A handler of an agent waits for no process, network or other actor.
//     Wait and Stop reply when they are done, or shortly before the caller's deadline with the
//     present statuses.
//   - AGT-7 (leases): Without renewal, the agent stops a leased resource as orphaned, and reports
//     it to log, subscribers and `ev.`. Leases are durations on the agent's clock. After a pause of
//     the agent, an expired lease lasts half its TTL more, once.
//   - AGT-8 (stop all): StopAll stops everything. The agent ends after its reply. Until then it
//     answers other requests and refuses Create.
//   - AGT-9 (list and watch): Get returns the latest state of each rank, a controller's ListEvents
//     the latest event. Each end is one event on `ev.`. A watcher that subscribes first, then
//     lists, misses no end; it merges by rank, generation and status.
//   - AGT-10 (one owner): A resource has one owner. Orders carry the owner's Claim. An agent
//     refuses claims earlier than the newest known one (FencedError); a later claim takes over.
//     Claims compare by epoch, then owner, so all agents agree.
//   - AGT-11 (control connection): An urgent Stop, StopAll or ListEvents
//     (actor.Endpoint.CallUrgent) also uses the control connection. A Stop ahead of its Create ends
//     and reports live ranks only; its ordered copy does the rest. Unanswered lease renewals repeat
//     there at half time (CallWithFallback).
//   - AGT-12 (merge): Merging overlays is commutative, associative and idempotent. Of two statuses
//     of a rank, the more advanced one wins. The cost depends on the runs.
//   - AGT-13 (roles): One table says which role may use which verb (Permissions). Programs and
//     procs act on what their process owns, or another program of their user. Only owners and
//     operators read arguments and environments.
//
// # Details
//
// Long work of an agent runs as a task. Failed ranks keep their record. The next generation may
// have any spec, and State shows it. A request for a generation gets that one or an error.
//
// Package agent/agenttest is a test suite for these promises. All three implementations pass it.
//
// Table is the pure state of an agent, and belongs to its turn. Wire structs are append-only, with
// numbers as CBOR keys. JSON names serve foreign clients and the CLI.
package agent
