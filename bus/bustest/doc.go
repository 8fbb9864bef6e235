// Package bustest gives tests a NATS server and connections to it.
//
//	srv := bustest.Server(t)
//	b := bustest.Open(t, srv)
//
// Server and Open work inside a testing/synctest bubble, where an hour of heartbeats takes
// milliseconds; there is no socket involved. What they start ends with the
// test, connections before the server.
//
// # Invariants
//
//   - BTS-1: nothing started here outlives the test: no goroutine, no
//     connection, no file.
//   - BTS-2: Bounded holds who reads bytes of the bus to 64 times their size and 1 MiB.
//
// # Failure
//
// What cannot be started or closed fails the test. Call all of them from the
// test's own goroutine.
package bustest
