// Package counting counts words with a mesh of actors. It is the working part of the word count
// example; the parent directory holds the program.
//
// # Use
//
//	proc.Main(counting.Def())                                      // in the program the procs run
//	counters, err := mesh.Spawn(ctx, procs, counting.Type, "counters", actor.None{})
//	shares, err := counting.Count(ctx, counters, counting.Job{Folder: dir, Suffix: ".go"})
//	limit := counting.Limit(net.Bus().Data().MaxPayload())
//	total, err := counting.Fold(ctx, counters, counting.Shards(shares, limit), limit)
//
// Count casts the folder, not its file names. Each rank lists and sorts the folder itself, and
// takes the files with an index equal to its rank modulo the number of ranks. During the count a
// rank answers Progress, because the work runs in a task (actor.Context.Go) with a late reply
// (actor.Defer).
//
// # Words
//
// A word is a maximal run of letters, digits (Unicode categories L and Nd) and underscores, in
// lower case. A run that starts with a digit is a number, and one longer than MaxWord bytes is
// data. Both are left out. Bytes that are not UTF-8 separate words.
//
// # Contract
//
//   - WC-1 (exact total): Exactly one rank counts each file, and the total equals that of one
//     process over all files, for any number of ranks. Different lists at the ranks are an error.
//   - WC-3 (bounded messages): No message exceeds the limit. A hash cuts the vocabulary into
//     shards, one cast each. If a shard's fold exceeds the limit, its result is "too large" and the
//     caller doubles the number of shards.
//
// # Details
//
// A rank's memory grows with its vocabulary, not with the size of a file.
//
// # Concurrency
//
// A Counter belongs to its turn, except for the two numbers of Progress.
package counting
