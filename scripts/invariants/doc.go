// Command invariants writes docs/invariants.md: each numbered promise with its title, its package
// and its tests.
//
//	go run ./scripts/invariants > docs/invariants.md
//
// A promise is a list item of a doc.go that begins with a number and a title, such as "ACT-1
// (serial): ".
//
// A test covers a promise if its name has the number without the hyphen, such as
// TestActor_isSerial_ACT1, or if the number stands in a comment of the test. The tests of this
// package compare the page with the code. They refuse a promise of more than 40 words, a promise
// without a test, and a citation of a number without a promise.
package main
