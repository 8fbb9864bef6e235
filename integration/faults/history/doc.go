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
//   - HIST-2 (verdict): Check counts each message that was lost, duplicated, reordered, stale,
//     invented, corrupt or unsettled, and each that was reported as Undeliverable and was handled.
//     It counts no other.
//
// # Details
//
// A message is Lost if it was sent, its sender learned of no failure, and its live receiver did
// not handle it, or was already killed when it was sent. Every handling after the first is
// Duplicated, and every one of a lower number than one before is Reordered. A message that was
// reported as Undeliverable and was handled is a lie. A message handled by another actor than its
// receiver is Stale, one that was never sent is Invented, one with other bytes is Corrupt. A
// message is Unsettled if its live sender has learned nothing, not even that everything else has
// arrived.
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
