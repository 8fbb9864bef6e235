//go:build race

package wire_test

// raced says that the race detector watches, which takes ten times as long.
const raced = true
