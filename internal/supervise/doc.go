// Package supervise decides on the consequences when a child of a supervisor ends: stops, restarts
// with their times, and escalations to the parent. It starts nothing, waits for nothing and reads
// no clock. A State receives events, with the time, and returns effects for its owner to carry out.
//
// # Use
//
//	s := supervise.New[ID](supervise.OneForAll)
//	s.Started(a, supervise.Policy{When: supervise.Permanent})
//	s.Started(b, supervise.Policy{When: supervise.Transient})
//	s.Ended(b, supervise.Failed, now) // Stop{a}
//	s.Ended(a, supervise.Asked, now)  // Start{a}
//	s.Restarted(a, a2, now)           // Start{b}
//	s.Restarted(b, b2, now)           // nothing: all is well again
//
// Each effect is answered by an event: Stop by Ended, Start by Restarted or StartFailed, SetTimer
// by OnTimer. Escalate has no answer: the child is forgotten, and a parent that ends for it calls
// Stopping. A State ignores events that do not fit the state of their child, and events of unknown
// children.
//
// # Groups
//
// Strategies and restart types are those of Erlang's supervisors, with three differences. Restarts
// have delays. Under OneForOne each child has its own count of restarts (SUP-4). Giving up ends one
// child, and the parent decides about the rest.
//
// The group of a child is itself (OneForOne), all children (OneForAll), or itself and those started
// after it (RestForOne). A restart of a child first stops the rest of its group, last first. After
// all have ended and the delay is over, the group starts, first first. On the way:
//
//   - If a member ends by itself while its group stops, that is no second failure, whatever its
//     policy.
//   - A temporary member is stopped and not restarted. A member of policy Propagate, unknown to
//     Erlang, is stopped and started with its group. If it fails by itself, or its restart fails,
//     that escalates to the parent, and the others go on without it.
//   - A failed restart of a member is one more failure. Its group, as far as it was started, is
//     stopped and starts over.
//   - If another child needs a restart before the group runs, it joins the group: that is one
//     restart, with the longer delay for common members.
//   - A child started meanwhile is not disturbed. It belongs to the group from its next restart on.
//   - The group goes on without children stopped by their user, and without escalated ones.
//
// # Contract
//
//   - SUP-1 (one fate): Each end of a child has one fate: forgotten, restarted, or escalated. The
//     policy alone decides after an end by itself. A child stopped for its group is restarted,
//     unless temporary; one asked to stop never is.
//   - SUP-3 (one at a time): A group does one step at a time: stops in reverse start order, each
//     after the previous end; then starts in start order, each after the previous child runs. A
//     restarted child keeps its place.
//   - SUP-4 (intensity): Fewer than MaxRestarts restarts lie within the sliding Window; otherwise
//     the child is escalated. A restart comes Backoff after the end that caused it, and no sooner.
//     The delay doubles with each restart within the window.
//   - SUP-8 (bounds): No order of events panics, and after Stopping there are no effects. A State
//     remembers the live and restarting children, and MaxRestarts times of restarts of each, or
//     1,000 in a group strategy.
//
// # Details
//
// Propagate escalates a failure, Temporary forgets it, Transient restarts after a failure,
// Permanent after any end. Under OneForOne each child has its own count of restarts. Group
// strategies have one per supervisor; a group restart counts once, for the policy of the next
// cause. They remember 1,000 times, because a later child may need them.
//
// A State belongs to its supervisor's turn: it is not safe for concurrent use.
package supervise
