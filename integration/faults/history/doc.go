// Package history records the messages of processes, and checks the records afterwards. The checker
// does not depend on how messages travel.
//
//	log, err := history.Create(filepath.Join(dir, "left.history"))
//	log.Sent(stream, 7)                     // before it is sent
//	log.Handled(stream, 7, self)            // first thing in the handler
//	records, err := history.Read(dir)
//	v := history.Check(records)             // v.Lost, v.Duplicated, …
//
// A stream is the messages of one sender to one receiver, numbered from 1. Each record is one line
// and one write to a file opened with O_APPEND, so written records survive kill -9 of their writer.
// The text of a stream is the IDs of the two actors.
//
// # Contract
//
//   - HIST-1 (durable records): A record whose method has returned is read back, whatever happened
//     to its process. A last line without an end is left out: its method has not returned.
//   - HIST-2 (Lost): Check counts a message as Lost if it was sent, its sender learned of no
//     failure, and its live receiver did not handle it, or was already killed when it was sent.
//   - HIST-3 (Duplicated, Reordered): Every handling after the first counts as Duplicated, and
//     every one of a lower number than one before as Reordered.
//   - HIST-4 (Lies): A message that was reported as Undeliverable and was handled counts as a lie.
//   - HIST-5 (Stale, Invented, Corrupt): A message handled by another actor than its receiver
//     counts as Stale, one that was never sent as Invented, one with other bytes as Corrupt.
//   - HIST-6 (Unsettled): A message counts as Unsettled if its live sender has learned nothing, not
//     even that everything else has arrived.
//
// A returned message does not always have its number (then 0). In that case the checker compares
// counts: of one stream, as many messages must be unhandled as were returned. One lie and one loss
// on the same stream can then hide each other; with numbers they cannot.
//
// A message to a process that was killed before it handled the message is Gone if its sender
// learned of no failure. It may have been delivered.
//
// A Log may be used on any goroutine.
package history
