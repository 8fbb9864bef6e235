// Package counting counts words with a mesh of actors. It is the part of the word count example
// that does the work; its parent is the program around it.
//
// # Use
//
//	proc.Main(counting.Def())                                      // in the program the procs run
//	counters, err := mesh.Spawn(ctx, procs, counting.Type, "counters", actor.None{})
//	shares, err := counting.Count(ctx, counters, counting.Job{Folder: dir, Suffix: ".go"})
//	limit := counting.Limit(net.Bus().Data().MaxPayload())
//	total, err := counting.Fold(ctx, counters, counting.Shards(shares, limit), limit)
//
// Count casts the folder, not its file names: each rank lists the folder itself, sorts the list and
// takes the files whose place in it is its own rank modulo the number of ranks. While it counts, a
// rank answers Progress, because the work is done off its turn (actor.Context.Go) and answered
// later (actor.Defer).
//
// # What a word is
//
// A maximal run of letters, digits (Unicode categories L and Nd) and underscores, in lower case. One
// that starts with a digit is a number, one that is longer than MaxWord bytes is data somebody wrote
// down: both are left out. Bytes that are not UTF-8 separate words.
//
// # Contract
//
//   - WC-1: every file is counted by exactly one rank. Ranks whose lists differ are an error, not a
//     wrong number.
//   - WC-2: the total is that of one process that reads every file, whatever the number of ranks.
//   - WC-3: no message is larger than the limit. A bus carries 1 MiB in one message unless it is
//     told otherwise, and the words of a corpus are more than that. So the vocabulary is cut into
//     shards by a hash of the word, and each shard is folded by a cast of its own. How many are
//     needed is guessed from what the ranks know of their own words; a shard whose fold outgrows the
//     limit becomes the answer "too large", and the caller cuts twice as fine.
//   - WC-4: a rank's memory grows with its vocabulary, never with the size of a file.
//
// # Concurrency
//
// A Counter belongs to its turn, except for the two numbers of Progress.
package counting
