// Package cast sends one message to a region of an actor mesh and collects the replies: one by one,
// gathered by rank, or folded into one value on the way.
//
// # Use
//
//	all, err := cast.Gather(ctx, counters, add, 1) // one value per rank
//	sum := cast.Sum[int64]()
//	n, err := cast.Reduce(ctx, counters, add, 1, sum) // folded on the way home
//	top, err := cast.Aggregate(ctx, counters, add, 1, cast.TopK[int64](3)) // of another type
//	for p := range cast.ReduceStream(ctx, counters, add, 1, sum, time.Second) { … } // partial folds
//	watched := cast.WithProgress(counters, time.Second, bar) // bar gets the settled ranks
//	all, err = cast.Gather(ctx, watched, add, 1)
//	for pt, r := range cast.Stream(ctx, counters, add, 1) { … }       // as they arrive
//	err = cast.Send(ctx, counters, add, 1)                            // no answer
//	n, err = cast.Choose(ctx, counters, add, 1)                       // any one rank
//	n, err = cast.Reduce(ctx, cast.Select(counters, union), add, 1, sum) // any ranks
//
// counters is any Mesh, such as a slice of a mesh.ActorMesh. A slice that fixes some dimensions and
// takes the others whole costs one publish, whatever the number of ranks. A few processes get one
// message each. Otherwise the plan takes the cheapest mixture. So do the parts of a message of more
// than 256 KiB, for the processes that keep pace. A proc takes part through a router
// (Start). agent/proc and mesh.Connect start one on every proc; colocated procs share it.
//
// Built-in reducers need no declaration; their names contain their arguments, such as top(3).
//
// Select, WithProgress and Throttled are options of a mesh, in any order. Select keeps some ranks,
// such as a union. A throttled cast goes batch by batch, each after the replies or the timeout of
// the one before. When it stops early, the remaining ranks are NotAsked in the coverage.
//
// # Contract
//
//   - CAST-1 (delivery): Each live rank of the region, or of the selection in it, gets the message
//     exactly once, in order with its sender's direct messages (DEL-3). No other rank gets it.
//     Handlers see their point, the casting actor and its trace.
//   - CAST-4 (waits end): A waiting verb returns with every reply, or at the deadline (default 30
//     s) with a *CoverageError naming failed and missing ranks. Dead ranks fail at once. Cancelling
//     ctx or leaving a Stream ends handlers' contexts; waiting ones never run.
//   - CAST-5 (fold order): Replies fold in rank order: a reducer must be associative, but need not
//     be commutative. If a process does not know the reducer of a cast, none of its actors handles
//     the cast.
//   - CAST-6 (folded once): A reply that reached a live process is folded once, whichever
//     processes die. Replies bypass a dead folder at once, a silent one before the deadline. Below
//     two silent folders in a row, processes are missing.
//   - CAST-9 (progress): In a watched cast, each folding process reports its settled ranks when
//     there are more than before, until all are settled. In a ReduceStream it reports its partial
//     fold. Reports are hints; only replies count.
//   - CAST-10 (generations): Of a rank's successive procs (ACT-11), a cast addresses the newest
//     one known to its caller. A later generation fails those ranks and tells the caller, whose
//     next cast addresses it. An earlier generation ignores the cast.
//   - CAST-11 (plain clients): A message of a plain NATS client reaches the ranks in both its
//     subject and its Castnet-Region, which reply within its Castnet-TTL. Each addressed rank
//     refuses a message that asks for more; only gateways may.
//   - CAST-12 (copied replies): A reply shares no memory with its actor (ACT-14). A reply that
//     cannot be encoded fails its rank.
//   - CAST-13 (elastic meshes): Caller and ranks may know a mesh before and after its hosts
//     changed. A cast then reaches exactly the ranks of its region that run, with the same fold.
//   - CAST-14 (spans): A sampled cast has a span at its caller, with its coverage, and one in each
//     process, which counts the ranks there. Messages of their handlers are its children.
//
// # Details
//
// A handler's point is that in the region of the cast, dense from rank 0, whichever ranks are
// selected. Replies fold in their process, in the first live process of each host, in a tree of
// hosts (at most 16 children each), and at the caller. If a second folder above a silent one is
// silent too, the processes below the lower one are missing. A reply counts once, even if a silent
// folder resumes.
//
// RunningOf lists the casts that a process folds or gathers, with the fate of its own ranks. It
// reads what a cast needs anyway, so casts pay nothing for it.
//
// Verbs may be called on any goroutine, handlers included. The router runs on the proc's data pump
// and never blocks it. A small fold without code of users runs where the last answer arrives;
// others have a goroutine. Router.Close waits for both.
//
// # Failure
//
// An invalid call (a region outside the mesh, an undeclared reducer, a value without encoding)
// returns an error before anything is sent. A proc keeps its folded replies of the newest 4,096
// casts, 32 MiB at most, to send them another way when its parent dies. Replies of older casts are
// missing at the deadline.
package cast
