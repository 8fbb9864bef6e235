// Package testkit is what tests of every package share: bounded waits, closing, and how many tests
// run at once. It imports no package of castnet, so that tests of all of them can use it; what
// starts servers and hosts is in internal/testmesh.
//
// Each helper fails the test, with the line of its caller, when Patience is over. Helpers may be
// called on the goroutine of the test only.
package testkit
