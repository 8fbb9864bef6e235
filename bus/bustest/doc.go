// Package bustest gives tests a NATS server and connections to it.
//
//	srv := bustest.Server(t)
//	b := bustest.Open(t, srv)
//
// Server and Open work inside a testing/synctest bubble, where an hour of heartbeats takes
// milliseconds; there is no socket involved. An [Address] has sockets, for tests that replace a
// listening server by another one. Servers and connections end with the test, connections
// first.
//
// # Invariants
//
//   - BTS-1 (clean end): Nothing started here outlives the test: no goroutine, no connection, no
//     file.
//   - BTS-2 (memory): CheckAllocBound limits a decoder of bytes from the bus to 64 times their size
//     plus 1 MiB.
//
// # Failure
//
// A failed start or close fails the test. Call all functions from the test's own goroutine.
package bustest
