// Package casts is the two sides that measurements of casts compare: castnet, and the least that
// NATS alone needs to do the same. Each is a caller in one process, and ranks that are spread over
// others.
//
//	shares, err := casts.Spread(4096, casts.Processes)       // the ranks of each process
//	m, err := casts.StartMembers(ctx, srv, shares[0])        // castnet's ranks in one process
//	f, err := casts.StartFanout(ctx, srv, shares[0])         // those of plain NATS
//	caller, err := casts.NewOurs(ctx, srv, shares[0])        // or NewRaw: both are a Caster
//	err = caller.Reduce(ctx, casts.Message(64))
//
// # The sides
//
//   - Ours: a rank is a proc with one actor, and the procs of a process share its connections. Each
//     process is a host, so that its answers are folded in it and go home at once.
//   - Raw: a rank is a goroutine with a channel. A cast is one publish. Each process has one
//     subscription: its callback hands the message to every channel, and the last rank that answers
//     sends the one reply of the process, which its ranks have folded. The caller folds the
//     replies.
//   - Naive: a rank is a subscription with a callback. A cast is a publish and a reply for each.
//
// All processes use one server, in a process of its own or in the caller's.
//
// # Casts
//
//   - Reduce: the ranks answer with the length of the message, the caller has the sum.
//   - Gather: they answer with the message, in which each has put its rank, so that no two are
//     equal; the caller has one slice of bytes for each rank.
//   - Post: no rank answers; the caller returns when it knows that the message is in the mailbox,
//     or the channel, of each rank.
//
// # Contract
//
//   - Results are checked on both sides, because a wrong answer is not worth timing. A wrong one is
//     an error.
//   - A Caster may be used by at most [MaxInFlight] goroutines at a time.
//   - Close stops everything that was started, and waits for it.
package casts
