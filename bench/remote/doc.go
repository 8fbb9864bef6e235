// Package remote holds the workloads that compare messaging between two processes: what is sent,
// and what stops the clock. They are written once, for all.
//
// A library takes part as a [Library], which is a thin adapter to its API: a [Receiver] in one
// process, and a [Sender] in the other. [Play] is the main function of either.
//
//	program receive            says the receiver's address, on one line
//	program send "address"     says "ready" when the receiver has answered it
//
// Both then answer lines, in the form of package bench/local/lines, until their stdin ends. The
// sender runs the workload that a line names. Both say what their process has used so far
// ([Usage]).
//
// # Invariants
//
//   - REM-1: a workload is the same code for every library; a library decides only how a message
//     travels.
//   - REM-2: a burst is timed from its first message until the last has been handled and, where the
//     library tells, its sender knows of each what became of it. Setting up is not timed.
//   - REM-3: what arrives is counted where it is handled. Messages that have not arrived
//     when arrivals stop are reported as lost.
//   - REM-4: memory is collected before each measurement, and again after it in both processes, so
//     that nothing of it runs while another program is measured.
//   - REM-5: no wait is longer than [local.Patience], and the end of stdin ends a wait at once.
//
// # Workloads
//
// All messages of a workload are one slice of bytes, which nobody changes; a library that has types
// of its own for messages makes one for each.
//
//   - remote-tell-64B, remote-tell-1KiB: a plain goroutine sends messages of that size as fast as
//     it can, and waits for room where its library has a way to. The results are messages per
//     second, of those that arrived, and how many were lost.
//   - remote-ask: questions of 64 bytes, answered with the same, one in flight. The results are the
//     median and the 99th percentile of the times, in microseconds.
//   - remote-ask-64: the same from 64 goroutines at once. The result is answers per second.
//   - route-burst: the burst of remote-tell-1KiB. The results are how many messages were lost of
//     those that the sender was not refused, and how many it was refused.
//   - flood-rss: messages of 1 KiB for so many milliseconds, to a receiver that reads nothing. The
//     result is the most memory that the sender's process had resident at any time, in MiB.
package remote
