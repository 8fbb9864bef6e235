package logs

import (
	"slices"
)

// dedupeTail removes from live the lines already in tail. tail is the end of an output's file; live
// holds the lines published since shortly before. The two overlap or touch, so no line is lost or
// repeated.
func dedupeTail(tail, live []string) []string {
	// live has more lines than the tail: the tail lies within.
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
