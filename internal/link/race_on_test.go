//go:build race

package link

// raced reports whether the race detector runs, which is ten times slower.
const raced = true
