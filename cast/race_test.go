//go:build race

package cast

// raceEnabled reports whether the race detector runs, which makes everything ten times slower.
const raceEnabled = true
