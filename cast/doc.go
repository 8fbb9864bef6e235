// Package cast sends one message to a region of an actor mesh and brings the answers home: one by
// one, gathered by rank, or folded into one value on the way.
//
// # Use
//
//	sum, err := cast.Reduce(ctx, counters, add, 1, cast.Sum[int64]()) // folded on the way home
//	all, err := cast.Gather(ctx, counters, add, 1)                    // one value per rank
//	top, err := cast.Aggregate(ctx, counters, add, 1, cast.TopK[int64](3)) // of another type than the answers
//	for p := range cast.ReduceStream(ctx, counters, add, 1, cast.Sum[int64](), time.Second) { … } // what is folded so far
//	all, err = cast.Gather(ctx, cast.Watched(counters, time.Second, bar), add, 1) // bar hears how many are settled
//	for pt, r := range cast.Stream(ctx, counters, add, 1) { … }       // as they arrive
//	err = cast.Post(ctx, counters, add, 1)                            // no answer
//	n, err := cast.Choose(ctx, counters, add, 1)                      // any one rank
//
// counters is anything that implements Mesh, such as a slice of a mesh.ActorMesh. A cast to a slice that
// fixes some dimensions and takes the others whole is one publish, whatever the number of ranks; a few
// processes are told one by one; for the rest the cheapest mixture is taken. A proc takes part through a
// router: agent/proc and mesh.Connect start one on every proc (Start). Procs that share a process share it.
//
// Built-in reducers need no declaration; their names say what they were given, such as top(3). A throttled
// cast (Throttled) asks batch by batch, each after the one before it has answered or its time is over; who
// was not asked when it stopped is NotAsked in the coverage.
//
// # Contract
//
//   - CAST-1: each rank of the region that is alive is handed the message exactly once, no other
//     rank ever.
//   - CAST-2: casts and direct messages of one sender reach an actor in the order they were sent
//     (DEL-3).
//   - CAST-3: a handler sees its point in the region that was cast to, dense from rank 0, and the
//     actor that cast as its sender.
//   - CAST-4: a verb that waits always returns: with every answer, or at the deadline (30 s when
//     the context has none) with those there are and a *CoverageError that names every rank that
//     failed or is missing. A rank that dies is failed at once. When nobody waits any more (ctx is
//     cancelled, or the loop over a Stream is left), the contexts of the handlers end, and those that
//     have not begun do not run.
//   - CAST-5: answers fold in rank order: in their process, in the first live process of each host, then
//     in a tree of hosts in which at most 16 answer to one, and at the caller. A reducer must be
//     associative; it need not be commutative.
//   - CAST-6: an answer that reached a live process is folded in once, whichever processes die: who had it
//     to fold is routed around, and dead ranks are failed, not waited for.
//   - CAST-7: of a process in which the answers of a cast could not be folded, because its reducer is none that
//     it knows, no actor handles it.
//   - CAST-8: a process that has to fold for others and is silent, though not known to be dead, takes nobody's
//     answer along: before the deadline those below it are asked to answer past it. Where two are silent, one
//     under the other, those below the lower one are missing with it. An answer counts once, also when they go
//     on.
//   - CAST-9: of a watched cast each process that folds for several ranks sends word of who is settled, as long
//     as not all are and when more are than before; of a ReduceStream, with what it has folded. It is a word only:
//     what counts comes with the answers.
//   - CAST-10: of the procs that had a rank one after another (ACT-11), a cast asks the one that its caller has
//     heard of last; answers, ends and folding are those of that one, whatever others have heard. A proc of a
//     later generation that gets it, as one of many, hands it to no actor: it fails those ranks and tells the
//     caller, who asks it from the next cast on. One of an earlier generation takes no notice.
//   - CAST-11: a message of a plain NATS client reaches the ranks that its subject and its Castnet-Region both speak of, which
//     answer within its Castnet-TTL. One that asks for more, which only a gateway does, is refused by each of those
//     that its subject speaks of.
//   - CAST-12: an answer shares no memory with the actor that gave it (ACT-14). One that cannot be encoded is a failure of
//     its rank.
//
// Verbs may be called on any goroutine, handlers included. The router runs on the proc's data
// pump and never blocks it: folding has a goroutine of its own, which Router.Close waits for.
//
// # Failure
//
// What is wrong with the call itself (a region outside the mesh, a reducer the endpoint does not
// declare, a value that cannot be encoded) is an error before anything is sent. A proc keeps what it has
// folded of the newest 4,096 casts, 32 MiB at most, to send it another way when the one above it dies; of
// older ones the answers are missing at the deadline.
package cast
