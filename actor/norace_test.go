//go:build !race

package actor_test

// raceEnabled says that the race detector watches: everything takes ten times as long.
const raceEnabled = false
