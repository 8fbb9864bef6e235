// Package supervise decides what becomes of the children of one supervisor when one of them ends:
// which are stopped, which are started again and when, and what is the parent's to deal with. It
// starts nothing, waits for nothing and reads no clock: a State is told events, with the time, and
// answers with effects that its owner carries out.
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
// Each effect is answered by an event: Stop by Ended, Start by Restarted or StartFailed, Wait by Due.
// Escalate is not: the child is forgotten, and a parent that ends by it says Stopping. An event that
// does not fit the state of its child is ignored, as is one of a child that nobody has heard of.
//
// # Groups
//
// Strategies and restart types are those of Erlang's supervisors. Not so three things: delays, a
// count of restarts for each child under OneForOne (SUP-4), and that giving up ends one child, while
// it is the parent that decides about the rest. The group of a child is itself (OneForOne), all
// children (OneForAll), or itself and those started after it (RestForOne). When a child is to be
// started again, the rest of its group is stopped, last first; when all have ended and the delay is
// over, the group is started, first first. On the way:
//
//   - A member that ends by itself while its group is being stopped has ended as it was to: that is
//     no second failure, whatever its policy.
//   - A temporary member is stopped and not started again. A member of policy Propagate, which
//     Erlang does not have, is stopped and started with its group; when it fails by itself, or when
//     it cannot be started again, that is its parent's, and the others go on without it.
//   - A member that cannot be started again has failed once more: its group, as far as it was
//     started, is stopped and starts over.
//   - Another child that is to be started again before the group was joins it: that is one restart,
//     and who belongs to both waits for the longer delay.
//   - A child started meanwhile is not disturbed. It belongs to the group from its next restart on.
//   - The group goes on without a child that its user asked to stop, and without one that was escalated.
//
// # Contract
//
//   - SUP-1: each end of a child has one fate: it is forgotten, started again, or escalated. What was
//     stopped for its group is started again, unless it is temporary or asked to stop.
//   - SUP-2: the policy alone decides about a child that ended by itself: Propagate escalates a
//     failure, Temporary forgets, Transient starts again after a failure, Permanent after any end.
//   - SUP-3: within a group one thing happens at a time. The stops come in reverse start order, each
//     after the one before has ended; then the starts in start order, each after the one before is
//     there. A child that was started again keeps its place.
//   - SUP-4: a restart is decided only while fewer than Most of them lie within Within, which slides;
//     else the child is escalated. Under OneForOne each child has its own count. In a group strategy
//     there is one for the supervisor, where a group restart counts once, for the policy of
//     whichever child causes the next.
//   - SUP-5: a restart comes Backoff after the end that caused it, and no sooner. The delay doubles with
//     each restart within the window.
//   - SUP-6: a child that was asked to stop is not started again, in whatever state that finds it.
//   - SUP-7: after Stopping there are no effects.
//   - SUP-8: no order of events panics. A State remembers the children that live or are to be started
//     again, and Most times of restarts of each; in a group strategy, 1,000 of the supervisor, for the
//     child that asks for them may come later.
//
// A State belongs to its supervisor's turn: it is not safe for concurrent use.
package supervise
