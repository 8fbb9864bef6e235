// Package link carries messages between castnet processes over a bus that loses, repeats and
// reorders packets: in order, at most once, and with a fate for each.
//
// A link is one direction between two processes. A sender numbers all its packets with one
// sequence, and each link is a chain through it. A packet carries its number n and prev, the number
// before it on that link. If prev is unknown to the receiver, packets are missing, and it requests
// them. A cast takes one number for all its members and carries each member's prev.
//
//	sender                                    receiver
//	Send ─▶ queue ─ credit, number ─▶ n, prev ─▶ prev is the last: deliver    ─▶ acknowledged ─▶ forgotten
//	                    ▲                        prev is later: park, request
//	                    └──── sent again ◀────── n is not later: a duplicate
//
// Core makes these decisions without goroutines, clock or bus. Its sender has the links to peers,
// its receiver those from them. Links drives it: it hands in events and publishes packets.
//
// # Contract
//
//   - LINK-1 (order): Packets get numbers in the order in which they leave. A number is delivered
//     at most once, in the order of its link, and never after a later one. If the order cannot be
//     kept, the link breaks.
//   - LINK-3 (fates): An accepted message has exactly one fate: Undelivered reports it with what is
//     known, or its packet is acknowledged (LINK-16) and it is in a mailbox. Refusals are repeated
//     until confirmed; a packet with unreported refusals is not acknowledged.
//   - LINK-4 (repair): A receiver requests missing packets at once and repeatedly; a sender repeats
//     requested ones only, each once while it is about to leave. A late acknowledgement is probed
//     for, at most once a second, so the tail is repaired, too.
//   - LINK-5 (windows): Bytes in flight stay within the receiver's window, except for one packet
//     of any size. The sum of all windows is bounded.
//   - LINK-6 (reset): A reset ends a link at both ends: each message in flight has a fate, and the
//     receiver is notified, repeatedly if it asks. The next message opens the link again; packets
//     of the former opening are dropped.
//   - LINK-7 (casts): A cast, or each part of a large one, takes one number. Each member has its
//     own repair and fates. A member that cannot take it gets packets of its own; of a large cast,
//     it delays one part.
//   - LINK-8 (deadlines): At its deadline a message leaves the queue, or its receiver is queried.
//     An undelivered one is refused from then on. Without an answer within twice the retransmission
//     timeout, its fate is Indeterminate. A Never message goes with its link.
//   - LINK-9 (large messages): A message larger than a packet leaves in parts, in turn with packets
//     and other transfers. Later messages of its sender to that actor wait behind it; its last part
//     waits for earlier ones. All others overtake it.
//   - LINK-11 (bounds): Everything stored is bounded (Config), and so is the unfinished work of
//     all peers together. A peer that died or said goodbye is forgotten after SilenceTimeout.
//     Above Config.MaxPeers processes, the one silent longest is evicted; its links break.
//   - LINK-13 (silence): A peer that owes an answer is given up after Config.SilenceTimeout. It is
//     given up earlier if the bus, or two replies of the servers, report no subscriber for it.
//     Times without a connection do not count.
//   - LINK-14 (false claims): A peer's false claims harm its own links only. Impossible ones are
//     counted, and packets of a second sender of its process. It disowns numbers that another
//     process uses in its name, and its next opening is taken.
//   - LINK-16 (fewer packets): An answered cast needs no acknowledgement of its own. Messages
//     known to come at once may leave together, after at most 200 µs, in their order. An answer
//     releases one message, but neither credit nor memory (LINK-14).
//   - LINK-19 (urgent messages): An urgent message of at most 64 KiB leaves at once on the control
//     connection, past all credit and queues. It has no number, order or fate: the sender repeats
//     it, and the receiver detects copies.
//
// # Details
//
// Links publishes packets in the order of their numbers. A message that was not queued takes no
// number. Many senders get small windows. The end of a link does not end the wait for an answer to
// a later request.
//
// A member of a cast with a queue, without credit, or with a too small limit gets a packet of its
// own. A part of a large cast waits up to Config.MinRTO for such members, and no later part waits
// for them. A cast to a Group does no work for synced members. Their links catch up before any
// other use, and before an acknowledgement can be late. Deferred casts stay within a synced
// member's reserved credit.
//
// Bounds cover queues, packets behind gaps, unfinished messages, refusals and tombstones. Answers
// and dead letters may exceed the queue's bound, because their requests were bounded. An evicted
// peer loses its tombstones: late packets of a former opening then count as a new one. So a
// goodbye in the name of a silent peer may cost a repeated message. Handler.Dead remembers the
// ends of processes. A late answer can make a peer of a process that is gone.
//
// When the bus reports no subscriber, a peer is given up after NoResponderGrace or ReconnectGrace,
// and after its goodbye at once.
// A wildcard subscriber hides absent peers from the bus. Then servers are asked about a peer that
// owes an answer for Config.Suspect. Two replies without a connection of the peer count as "no
// responders"; silence counts as nothing.
//
// Receivers acknowledge an answered cast later with other packets, or after Config.ReplyAckDelay
// without an answer. The sender does not probe after ReplyReceived. The answers to one packet may
// leave together, and so may requests of callers woken by one packet. Without expected senders
// there is no delay.
//
// A Core is not safe for concurrent use; all methods of Links are. Sends and Ticks cost in
// proportion to the links they touch. A Tick looks at each active link, and a cast at each lagging
// member.
//
// # Failure
//
// Send returns an *Error with the reason if a message was not queued. The Handler receives its
// later fate. A broken link is reported once, with the reason.
package link
