//go:build !race

package actor_test

// raceEnabled reports whether the race detector runs, which makes everything ten times slower.
const raceEnabled = false
