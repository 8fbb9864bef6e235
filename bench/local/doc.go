// Package local holds the workloads that compare actor libraries inside one process: what is sent,
// by whom, to whom, and what stops the clock. They are written once, for all.
//
// A library takes part as a [System], which is a thin adapter to its API. [Serve] is the main loop
// of a program that measures one: it is asked for a workload and answers with one value, in the
// workload's unit, or with an error, in the form of package lines.
//
// # Invariants
//
//   - LOC-1: a workload is the same code for every system; a system decides only how a message, an
//     answer or an actor is made in its library.
//   - LOC-2: what is timed begins with the first message or the first spawn and ends when the last
//     has been handled, not when it has been sent. Making and closing the system, and the actors of
//     workloads that are not about spawning, is not timed.
//   - LOC-3: a result is checked before it counts: a workload whose messages do not add up is an
//     error, not a time.
//   - LOC-4: memory is collected before each measurement and again before the answer, so that
//     nothing of it runs while another program is measured.
//   - LOC-5: no wait is longer than [Patience], and the end of stdin ends a wait at once.
//
// # Workloads
//
// The tells are sent by plain goroutines as fast as they can; 0B sends one message again and again,
// 64B allocates and copies one for each. Asks come from plain goroutines, too. The two about
// spawning make actors that have nothing to do, and are done when every one has run its first code
// (its constructor, or its handler of the message that says it has started).
//
// The rest are Savina's micro-benchmarks with its rules and sizes of our own: two actors that pass
// a ball (pingpong), one that counts for another (counting), rounds of messages to 60 actors
// (forkjoin-throughput), actors that live for one message (forkjoin-create), a token in a ring of
// 100 (threadring), 100 creatures that meet in one place (chameneos), and 120 actors that ping each
// other at random (big). A message that says nothing but its type is one value that all share.
package local
