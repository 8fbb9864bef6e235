package main

import "slices"

// seam drops from live what tail shows already. tail is the end of an output as its file was read;
// live are the lines published since a moment before that, so the two overlap or touch: no line is
// lost, and none is shown twice.
func seam(tail, live []string) []string {
	// More was published meanwhile than the tail is long: the tail lies within.
	for k := 0; len(tail) > 0 && k+len(tail) <= len(live); k++ {
		if slices.Equal(live[k:k+len(tail)], tail) {
			return live[k+len(tail):]
		}
	}
	for k := min(len(tail), len(live)); k > 0; k-- {
		if slices.Equal(tail[len(tail)-k:], live[:k]) {
			return live[k:]
		}
	}
	return live
}
