// Package link keeps the order of messages between two castnet processes, and notices when the
// bus lost one.
//
// A link is one direction between two OS processes. A sender numbers everything it sends with one
// sequence; each link is a chain through it: a message carries its number n and prev, the number
// before it on that link. A receiver that sees a prev it has not seen knows that a message is
// missing. A cast takes one number for all its members and carries each member's prev.
//
// This package checks; it does not repair. A gap breaks the link for the rest of the sender's
// life, loudly: the receiver refuses everything that follows and tells the sender, again while
// that goes on sending; the sender's sends fail from then on. Order is never silently skipped.
//
// # Contract
//
//   - LINK-1: numbers are assigned in the order messages reach the bus: Send and SendCast publish
//     under the lock that numbers, so no two messages of one process overtake each other.
//   - LINK-2: a message that was not published takes no number: its error leaves no gap.
//   - LINK-3: Accept answers Deliver for each number at most once and in chain order; Duplicate
//     for a number that was there before; Broken from the first gap on.
//   - LINK-4: a sender that was told that its link is broken never publishes on it again.
//   - LINK-5: each side remembers 1,048,576 peers; of more, the one that was silent longest is
//     forgotten. When it speaks again its link breaks, as loudly as by a loss.
//
// Sender and Receiver may be used on any goroutine. Messages of one peer are given to Accept in the
// order in which they arrived.
//
// # Failure
//
// A send over a broken link returns a *BrokenError with the peer and the reason. An error of
// publish is returned as it is. What a peer claims, however wrong, can only break its own link.
package link
