// Package history is what processes write down about their messages, and the checker that judges it
// afterwards. The checker knows nothing of how messages travel.
//
//	log, err := history.Create(filepath.Join(dir, "left.history"))
//	log.Sent(stream, 7)                     // before it is sent
//	log.Handled(stream, 7, self)            // first thing in the handler
//	records, err := history.Read(dir)
//	v := history.Check(records)             // v.Lost, v.Duplicated, …
//
// A stream is what one sender says to one receiver; the sender numbers its messages from 1. Each
// record is one line and one write to a file opened with O_APPEND, so what was written survives
// kill -9 of its writer. Streams are told apart by text: the IDs of the two actors.
//
// # Contract
//
//   - HIST-1: a record whose method has returned is read back, whatever happened to its process. A
//     last line without an end is left out: its method has not returned.
//   - HIST-2: Check counts a message as Lost when it was sent, nobody was told that it did not
//     arrive, and a receiver that lives did not handle it; or when it was sent after its receiver
//     had been killed, and nobody was told.
//   - HIST-3: it counts every handling after the first as Duplicated, and every one of a lower
//     number than one before as Reordered.
//   - HIST-4: it counts as Lies those that were said to be undeliverable and were handled.
//   - HIST-5: it counts as Stale those that another actor handled than they were addressed to, as
//     Invented those that nobody sent, as Corrupt those with other bytes than were sent.
//   - HIST-6: it counts as Unsettled those whose sender lives and was told nothing, not even that
//     everything else has arrived.
//
// A message that comes back does not always say which one it is (number 0). Then the checker
// counts: of one stream, as many must be unhandled as came back. One lie and one loss on the same
// stream can hide each other there; with a number they cannot.
//
// A message that was sent to a process and not handled before that was killed is Gone when nobody
// was told: it may have been delivered, and nobody promised more.
//
// A Log may be used on any goroutine.
package history
