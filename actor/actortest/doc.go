// Package actortest tests one actor alone: it gives a test a place to run it, stand-ins for those it
// speaks to, and what it sent, spawned and failed with.
//
//	rig := actortest.New(t, tills())             // a server without a socket, and a proc
//	ledger := actortest.NewProbe[*Ledger](rig)   // stands in for a ledger
//	booked := actortest.On(ledger, book)         // keeps what is sent to its endpoint
//	ref := actortest.Spawn(rig, till, ledger.Ref())
//	err := deposit.Post(rig.Context(), ref, 5)
//	require.EqualValues(t, 5, booked.Next().Value)
//	booked.None()
//
// A Rig works in a testing/synctest bubble, where a restart after an hour takes no time, and without
// one. Make probes before anything runs: a proc knows its actor types from the start. InPlaceOf puts
// a probe in the place of the children that an actor spawns; Peer is a second proc, so that messages
// cross the bus. Actors returns the actors of castnet's own system tests, which do on demand what
// actors do wrong.
//
// # Invariants
//
//   - KIT-1: nothing started here outlives the test, and an actor that does not stop fails it.
//   - KIT-2: the failure of an actor without a parent fails the test with its report, unless the test
//     expects it.
//   - KIT-3: a Recorder has every message to its endpoint once, with its sender, and those of one
//     sender in order.
//   - KIT-4: what is asked for after the rig has settled (None, All, Spawned, Children,
//     Returned) is complete. In a bubble nothing can come any more before the clock moves.
//     Without one, every actor has handled its mail, and what was sent over the bus has arrived;
//     work of Context.Go, timers, ends of children and mail on its way back are not waited for.
//   - KIT-5: every wait ends, after Patience at most, and then says what did not come.
//   - KIT-6: a probe is an ordinary actor. In the proc of the sender it gets the message itself.
//
// # Concurrency
//
// Call everything from the goroutine of the test, except where a comment says otherwise. The
// functions that a test gives to Reply run on the probe's turn.
//
// # Failure
//
// What cannot be done ends the test with FailNow. A Recorder and the list of events hold 65,536
// entries; one more fails the test and is dropped. What actors log is in the test's own log.
package actortest
