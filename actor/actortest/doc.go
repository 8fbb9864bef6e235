// Package actortest tests one actor alone. It runs the actor, stands in for its peers, and records
// its messages, children and failures.
//
//	rig := actortest.New(t, tills())             // a server without a socket, and a proc
//	ledger := actortest.NewProbe[*Ledger](rig)   // stands in for a ledger
//	booked := actortest.On(ledger, book)         // records the messages to its endpoint
//	ref := actortest.Spawn(rig, till, ledger.Ref())
//	err := deposit.Send(rig.Context(), ref, 5)
//	require.EqualValues(t, 5, booked.Next().Value)
//	booked.None()
//
// A Rig works with and without a testing/synctest bubble; in one, a restart after an hour takes no
// time. Make probes before anything runs: a proc knows its actor types from the start. ReplaceType
// puts a probe in the place of an actor's children. Peer is a second proc, so that messages cross
// the bus. Actors returns the actors of castnet's own system tests, with faults on demand.
//
// # Invariants
//
//   - KIT-1 (clean end): Nothing started here outlives the test. An actor that does not stop fails
//     the test, and so does an unexpected failure of an actor without a parent. A wait ends after
//     Timeout, with the missing event.
//   - KIT-3 (recorders): A Recorder has every message to its endpoint once, with its sender, and
//     those of one sender in order. A probe is an ordinary actor; in the sender's proc it gets the
//     message itself.
//   - KIT-4 (settling): Results after settling (None, All, Spawned, Children, DeadLetters) are
//     complete in a bubble until its clock moves. Otherwise mail is handled and bus messages have
//     arrived; Context.Go, timers, ends of children and dead letters may be outstanding.
//
// # Concurrency
//
// Call everything from the goroutine of the test, unless a comment says otherwise. A test's
// functions for Reply run on the probe's turn.
//
// # Failure
//
// A failed operation ends the test with FailNow. A Recorder and the list of events hold 65,536
// entries; one more fails the test and is dropped. Actors log to the test's own log.
package actortest
