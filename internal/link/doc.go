// Package link keeps the order of messages between two castnet processes, and notices when the
// bus lost one.
//
// A link is one direction between two OS processes. A sender numbers everything it sends with one
// sequence; each link is a chain through it: a message carries its number n and prev, the number
// before it on that link. A receiver that sees a prev it has not seen knows that a message is
// missing. A cast takes one number for all its members and carries each member's prev.
//
// This package checks; it does not repair. A gap breaks the link for the rest of the sender's
// life, loudly: the receiver refuses everything that follows and tells the sender, whose sends
// from then on fail. Order is never silently skipped.
//
// # Contract
//
//   - LINK-1: numbers are assigned in the order messages reach the bus: Send and SendCast publish
//     under the lock that numbers, so no two messages of one process overtake each other.
//   - LINK-2: a message that was not published takes no number: its error leaves no gap.
//   - LINK-3: Accept answers Deliver for each number at most once and in chain order; Duplicate
//     for a number that was there before; Broken from the first gap on.
//   - LINK-4: a sender that was told that its link is broken never publishes on it again.
//
// Sender may be used on any goroutine. Receiver belongs to the pump of the data connection, except
// for Forget.
package link
