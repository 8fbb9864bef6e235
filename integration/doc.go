// Package integration tests the whole of castnet as its users meet it: hostd and the examples as
// processes, real signals, a NATS server on loopback. It has no code of its own; all of it is
// tests.
//
// # How it works
//
// TestMain first makes the test binary what a host starts (proc.Main), or the owner of a mesh that
// a test will kill, when the environment says so. Otherwise it builds the programs once, copies
// them into a temporary folder and runs the tests.
//
// # Conditions after every test
//
//   - INT-1: no process that runs from that folder or from the test binary is left; a zombie whose
//     parent was killed is init's to bury and does not count.
//   - INT-2: hostds that were not killed exit 0 when told to stop, and their folder for temporary
//     files is empty then.
//   - INT-3: a server has as many subscriptions after a client as before it.
//
// The tests look into /proc, so they are for Linux.
package integration
