//go:build race

package link

// raced says that the race detector watches, which takes ten times as long.
const raced = true
