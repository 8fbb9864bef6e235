package main

import (
	"fmt"
	"slices"
)

// score is what one contender of a row did: a value for each repeat.
type score struct {
	name   string
	values []float64
}

func (s score) median() float64 { return quantile(s.values, 0.5) }

// best is the base a row is measured against: the one whose median is the best (BENCH-6). There
// must be one at least.
func (r row) best(bases []score) score {
	better := func(a, b score) int {
		x, y := a.median(), b.median()
		if x == y {
			return 0
		}
		if x < y == r.more {
			return 1
		}
		return -1
	}
	return slices.MinFunc(bases, better)
}

// line is a row of the report.
func (r row) line(ours score, bases []score) string {
	base := r.best(bases)
	o, b := ours.median(), base.median()
	return fmt.Sprintf("row=%s ours=%.2f base=%.2f base_name=%s unit=%s ratio=%.3f n=%d",
		r.name, o, b, base.name, r.unit, ratio(o, b), len(ours.values))
}

// ratio is a over b. Two that are nothing, as messages lost may be, are level.
func ratio(a, b float64) float64 {
	if a == b {
		return 1
	}
	return a / b
}

// note is what a person sees of one contender, the best and the others.
func (r row) note(s score) string {
	return fmt.Sprintf("%s: %s median=%.2f min=%.2f max=%.2f unit=%s n=%d",
		r.name, s.name, s.median(), slices.Min(s.values), slices.Max(s.values), r.unit, len(s.values))
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
