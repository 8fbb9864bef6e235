//go:build race

package cast

// raceEnabled says that the race detector watches: everything takes ten times as long.
const raceEnabled = true
