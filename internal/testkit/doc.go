// Package testkit holds helpers for the tests of every package: bounded waits, closing, processes,
// and the number of parallel tests. It imports no package of castnet, so all tests can use it.
// Helpers that start servers and hosts are in internal/testmesh.
//
// After Patience each helper fails the test at the line of its caller. Helpers must be called on
// the goroutine of the test.
package testkit
