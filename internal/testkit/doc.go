// Package testkit is what tests of every package share: bounded waits, closing, and how many tests
// run at once.
package testkit
