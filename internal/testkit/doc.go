// Package testkit holds helpers for the tests of every package: bounded waits, closing, processes,
// virtual time, and the number of parallel tests. It imports no package of castnet, so all tests
// can use it. Helpers that start procs are in internal/testproc, those that start hosts in
// internal/testmesh.
//
// After Patience each helper fails the test at the line of its caller. Helpers must be called on
// the goroutine of the test.
package testkit
