// Package remote holds the workloads that compare messaging between two processes. A workload
// defines the messages and the end of the timing, once for all libraries.
//
// A library takes part as a [Library], which is a thin adapter to its API: a [Receiver] in one
// process, and a [Sender] in the other. [Play] is the main function of either.
//
//	program receive            says the receiver's address, on one line
//	program send "address"     says "ready" when the receiver has answered it
//
// Both then answer lines, in the form of package bench/local/lines, until their stdin ends. A line
// names the workload for the sender. Both report the usage of their process so far ([Usage]).
//
// # Invariants
//
//   - A workload is the same code for every library. A library decides only how a message travels.
//   - A burst is timed from its first message until the last has been handled and, where the
//     library reports fates, its sender knows each. Setup is not timed.
//   - REM-3 (results): Messages are counted where they are handled. Those that have not arrived
//     when arrivals stop are reported as lost. No wait is longer than [local.Patience], and the
//     end of stdin ends a wait at once.
//   - Both processes collect garbage before and after each measurement, so that none of it runs
//     while another program is measured.
//
// # Workloads
//
// All messages of a workload share one slice of bytes, which stays unchanged. A library with its
// own message types makes one for each message.
//
//   - remote-tell-64B, remote-tell-1KiB: a plain goroutine sends messages of that size as fast as
//     it can, and waits for room where its library has a way to. The results are messages per
//     second, of those that arrived, and how many were lost.
//   - remote-tell-64KiB, remote-tell-1MiB, remote-tell-16MiB: the same with large messages.
//   - remote-ask: questions of 64 bytes, answered with the same, one in flight. The results are the
//     median and the 99th percentile of the times, in microseconds.
//   - remote-ask-64KiB, remote-ask-1MiB, remote-ask-16MiB: the same with large questions.
//   - remote-ask-64: the same from 64 goroutines at once. The result is answers per second.
//   - route-burst: the burst of remote-tell-1KiB. The results are the lost messages of those that
//     the sender's library accepted, and the refused ones.
//   - flood-rss: messages of 1 KiB for some milliseconds, to a receiver that reads nothing. The
//     result is the largest resident memory of the sender's process, in MiB.
package remote
