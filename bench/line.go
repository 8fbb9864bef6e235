package main

import (
	"fmt"
	"slices"
)

// line is a row of the report (BENCH-3).
func (r row) line(ours, base []float64) string {
	o, b := quantile(ours, 0.5), quantile(base, 0.5)
	return fmt.Sprintf("row=%s ours=%.2f base=%.2f base_name=%s unit=%s ratio=%.3f n=%d",
		r.name, o, b, r.base, r.unit, o/b, len(ours))
}

// quantile is the value below which the part q of the values lies, between two of them in
// proportion. There must be one at least.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	part := at - float64(below)
	return sorted[below]*(1-part) + sorted[above]*part
}
