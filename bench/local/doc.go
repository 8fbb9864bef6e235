// Package local holds the workloads that compare actor libraries inside one process. A workload
// defines the actors, the messages and the end of the timing, once for all libraries.
//
// A library takes part as a [System], which is a thin adapter to its API. [Serve] is the main loop
// of a program that measures one library. It receives the name of a workload, and replies with one
// value in the workload's unit, or with an error, in the form of package lines.
//
// # Invariants
//
//   - A workload is the same code for every system. A system decides only how its library makes a
//     message, an answer or an actor.
//   - Timing begins with the first message or spawn, and ends when the last one has been handled.
//     Setup and close of the system are not timed, nor are actors of workloads that do not measure
//     spawns.
//   - LOC-3 (results): A workload whose messages do not add up returns an error, not a time. No
//     wait is longer than [Patience], and the end of stdin ends a wait at once.
//   - Garbage is collected before each measurement and before the answer, so that none of it is
//     collected while another program is measured.
//
// # Workloads
//
// The tells are sent by plain goroutines as fast as they can; 0B sends one message again and again,
// 64B allocates and copies one for each. Asks come from plain goroutines, too. The two
// spawn workloads make idle actors. They end when every actor has run its first code: its
// constructor, or its handler of the start message.
//
// The rest are Savina's micro-benchmarks, with its rules and our own sizes:
//
//   - pingpong: two actors pass a ball
//   - counting: one actor counts for another
//   - forkjoin-throughput: rounds of messages to 60 actors
//   - forkjoin-create: actors live for one message
//   - threadring: a token in a ring of 100
//   - chameneos: 100 creatures meet in one place
//   - big: 120 actors ping each other at random
//
// Messages without content share one value.
package local
