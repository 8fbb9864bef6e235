// Package agent is the lifecycle protocol: how anything in castnet is created, looked at, waited
// for, kept alive and stopped. Three speak it, all of them ordinary actors: the host agent (its
// resources are procs), the proc agent (actors), and the controller (a mesh).
//
// # Use
//
//	agents := agent.Of(host.Proc())                                 // the agent of a host
//	_, err := agent.Create.Call(ctx, agents, agent.Creation{…})     // start it
//	overlay, err := agent.Wait.Call(ctx, agents, agent.Waiting{ID: id, Until: agent.Running})
//	states, err := agent.Get.Call(ctx, agents, agent.Query{})       // what is there
//	overlay, err = agent.Stop.Urge(ctx, agents, agent.Stopping{ID: id, Reason: "done"})
//
// One message per agent creates, waits for or stops every rank that the agent has; the answer is
// one Overlay over all of them. Any NATS client can ask a host the same: the verb after `h.` is
// the endpoint.
//
// # Contract
//
//   - AGT-1: Create is idempotent. The same spec again changes nothing and answers the statuses;
//     another spec under the same ID is an error that says so. What failed stays on record.
//   - AGT-2: a handler of an agent never waits for a process, the network or another actor. What
//     takes long is a task; Wait and Stop answer when it is done.
//   - AGT-3: a rank's status only advances. Timeout and Unknown are answers of the asker, never a
//     status an agent holds.
//   - AGT-4: an unknown ID is an empty answer, not an error.
//   - AGT-5: Wait and Stop answer at the latest shortly before the asker's deadline, with the
//     statuses as they are then.
//   - AGT-6: a resource that was stopped and whose ranks have ended may be created anew, under the
//     same or another spec. Each rank then is its next generation, and its State says which. Who names
//     a generation gets that one or an error; one that is over never comes back.
//   - AGT-7: a resource that has a lease, and whose lease nobody renewed, is stopped with the reason
//     "orphaned: its owner was silent for …", which the log, its subscribers and `ev.` are told. Leases are
//     durations on the agent's own clock; without one, nothing expires. An agent that did not run when a lease ended
//     lets it go on for half its term, once.
//   - AGT-8: StopAll stops everything, and the agent ends once that is done and answered. What is
//     asked of it meanwhile is answered; creating is refused.
//   - AGT-9: a stream begins with how things are, and then has every change, in order. Who subscribes the same port
//     again is not told again. Of an unknown ID it says that it does not exist, and nothing more.
//   - AGT-10: a resource has one owner at a time. Orders in an owner's name carry a Claim; who has heard of a later
//     claim on the resource refuses those of earlier ones (FencedError), and a later one takes it over. Claims are
//     told apart by epoch, and within one by owner, so that all agents prefer the same.
//   - AGT-11: Stop and StopAll wait for no data when they are urged (actor.Endpoint.Urge): they come by the control
//     lane, too. A Stop that came so may have overtaken the Create of what it is to stop: it ends what is alive, and
//     speaks of nothing else. In its order it comes as well. So does a subscription (Streaming). A renewal of
//     leases does so when half of its time has brought no answer (Insist): what fills the links ends nobody.
//
// Package agent/agenttest has these as a suite that all three pass.
//
// Table is the pure state behind all three, Streams their subscribers, at most 256 each; both belong
// to their agent's turn. Wire structs are append-only, their CBOR keys are numbers; JSON names are
// for foreign clients and the CLI.
package agent
