// Package link carries messages between castnet processes over a bus that loses, repeats and reorders
// packets: in order, at most once, and with a fate for each.
//
// A link is one direction between two processes. A sender numbers the packets it sends with one
// sequence; each link is a chain through it: a packet carries its number n and prev, the number before
// it on that link. A receiver that sees a prev it has not seen knows what is missing, and asks for it.
// A cast takes one number for all its members and carries each member's prev.
//
//	sender                                    receiver
//	Send ─▶ queue ─ credit, number ─▶ n, prev ─▶ prev is the last: deliver    ─▶ acknowledged ─▶ forgotten
//	                    ▲                        prev is later: park, ask
//	                    └──── sent again ◀────── n is not later: a duplicate
//
// Core decides all of this and does nothing: no goroutine, no clock, no bus. Links drive it: what they do
// is hand in events and publish what comes out.
//
// # Contract
//
//   - LINK-1: numbers are given in the order in which packets leave, and Links publish in that order. A
//     message that was not queued takes no number.
//   - LINK-2: a number is delivered at most once, in the order of its link, and never after a later one.
//     Order is not skipped in silence: where it cannot be kept, the link breaks.
//   - LINK-3: a message that Send took has exactly one fate. It is Told, and then says whether it is
//     known that no handler runs it; or the packet is acknowledged (LINK-16), and then it is in a mailbox. An
//     acknowledgement covers a packet only when its sender knows what of it was refused: refusals are
//     repeated until they are confirmed.
//   - LINK-4: what is missing is asked for at once, and again until it is there. A sender repeats what it
//     is asked for and nothing else, once while that is about to leave: a slow connection is not made slower by
//     those who wait for it. When an acknowledgement is late it asks (a beat), at most once a
//     second; so the end of what was sent is not lost either.
//   - LINK-5: no more bytes are on their way than the receiver's window, but for one packet, however
//     large. All windows together are bounded, so many senders get small ones.
//   - LINK-6: a link that is given up is over at both ends, loudly: each message on its way has a fate, the
//     receiver is told, and told again when it asks. The next message opens the link anew, and what
//     still comes of the former one is dropped.
//   - LINK-7: a cast takes one number. A member that has something queued, or has no credit, or for which
//     the packet is too large is sent to alone; the others do not wait for it. A member that missed it is
//     repaired alone, and each has a fate of its own.
//   - LINK-8: when the deadline of a message has come, it leaves the queue, or its receiver is asked. What
//     has not arrived by then is refused when it comes, and the sender is told so, as of any refusal.
//     When nobody says, the fate is that it cannot be known: the deadline and twice the time of an
//     answer is the longest that a sender waits. A message may have none (Never): it goes with its link.
//   - LINK-9: a message larger than a packet leaves in parts, which take turns with packets and with each
//     other. Messages of the same sender for the same actor wait behind it, and its last part waits
//     for those before it; all others overtake it.
//   - LINK-10: messages that wait for room in a mailbox have a window of their own, which opens when they
//     are taken up. A sender that waits for it asks, so it opens also when the news of that is lost.
//   - LINK-11: all that is held is bounded (Config): queues, packets behind a gap, unfinished messages,
//     refusals, tombstones. Answers are queued beyond the bound, for whoever asked has reserved them room,
//     and so is what comes back from a mailbox, whose bound it had. What peers begin and do not end is bounded for all
//     of them together, too: whoever may publish may do so in many names.
//   - LINK-12: of more than Config.Peers processes, the one that was silent longest is forgotten, with
//     its tombstones. Its links break; what is of an opening that it sent before and comes even later is
//     taken for a new one.
//   - LINK-13: nothing waits for ever. Who owes an answer and says nothing for Config.Silence is given up
//     by whoever waits; where the bus says that nobody listens, after Config.Nobody. Times while this
//     process has no connection do not count.
//   - LINK-14: what a peer claims, however wrong, harms its own links only. What cannot be true is counted.
//   - LINK-15: a cast to a Group does nothing for a member that is in step: nothing waits for its link, whose
//     last packet is the last cast of the group. What it is owed is put on its link before anything else
//     looks at that, and before its acknowledgement can be late; so all that is promised here holds for it
//     as for any other. No more is owed than the credit that a member in step has kept for it.
//   - LINK-16: a cast that is answered need not be acknowledged. Who has answered within Config.AnswerWait
//     acknowledges it with something else, or with 64 packets; who has not does then. A sender that was told
//     of the answer (Reached) does not ask. An answer may be the word of others: it says that this one
//     message arrived, and gives no credit and forgets nothing, so LINK-14 holds for it.
//   - LINK-17: messages that are known to come at once may leave together: the answers to one packet, the
//     questions of those whom one packet has woken. What is sent while nobody is expected waits for nobody, and
//     what waits does so for 200 µs, in its order, and then leaves as soon as a timer runs.
//   - LINK-18: of messages that wait for room a peer's links hold no more over several openings than over one,
//     but for one message each. The end of a link does not end the wait for an answer whose question was queued
//     after it.
//   - LINK-19: an urgent message of at most 64 KiB leaves on the control lane at once, whatever waits for credit or in
//     queues. It has no number, no order and no fate: who sends it sends it again, and who gets it tells copies apart.
//
// A Core is not safe for concurrent use; all methods of Links are. Sends and Ticks cost what they touch,
// but a Tick looks at each link that is not at rest, and a cast at each member that is not in step.
//
// # Failure
//
// Send returns an *Error that says why a message was not queued. What happens to it later is told to the
// Handler, and what breaks a link is told once, with the reason.
package link
