// Package integration tests the whole of castnet as its users meet it: hostd and the examples as
// processes, real signals, and a NATS server on loopback. It contains tests only.
//
// # How it works
//
// By an environment variable, TestMain turns the test binary into a proc (proc.Main), or into the
// owner of a mesh that a test kills. Otherwise it builds the programs once, copies them into a
// temporary folder and runs the tests.
//
// # Conditions after every test
//
//   - No process of that folder or of the test binary is left. A zombie whose parent was killed
//     belongs to init, and does not count.
//   - A hostd that was not killed exits with 0 after SIGTERM, and leaves its folder for temporary
//     files empty.
//   - A server has as many subscriptions after a client as before it.
//
// The tests read /proc, so they are for Linux.
package integration
