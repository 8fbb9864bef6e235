//go:build !race

package wire_test

// raced reports whether the race detector runs, which is ten times slower.
const raced = false
