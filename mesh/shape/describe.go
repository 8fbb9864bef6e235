package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Describe names a set of base ranks of an extent in the syntax of Select, in terms joined by
// ` | `: each stands for ranks of the set only, and together for all of them (SHP-4). All ranks are
// `*`, none are the empty text. Ranks outside the extent are left out.
//
// It is greedy, not minimal: from the lowest rank left it takes the largest box it can grow.
func Describe(base Extent, ranks []int) string {
	left := map[int]bool{}
	for _, r := range ranks {
		if r >= 0 && r < base.NumRanks() {
			left[r] = true
		}
	}
	if len(left) > 0 && len(left) == base.NumRanks() {
		return "*"
	}
	var terms []string
	for _, rank := range slices.Sorted(maps.Keys(left)) {
		if left[rank] {
			terms = append(terms, base.term(base.grow(left, rank)))
		}
	}
	return strings.Join(terms, " | ")
}

// box is the part of an extent from coordinates low to below coordinates high.
type box struct{ low, high []int }

// region is the box as a region of its extent.
func (b box) region(e Extent) Region {
	r := e.Region()
	for i := range r.dims {
		r.offset += b.low[i] * r.dims[i].stride
		r.dims[i].size = b.high[i] - b.low[i]
	}
	return r
}

// grow takes a box out of the set: from a rank as far as the set allows, the fastest dimension
// first. Each step looks at the slab it would add only, so the work is that of the box's ranks.
func (e Extent) grow(left map[int]bool, rank int) box {
	low := Point{rank, e}.Coords()
	b := box{low, slices.Clone(low)}
	for i := range b.high {
		b.high[i]++
	}
	for i, d := range slices.Backward(e.dims) {
		for slab := (box{slices.Clone(b.low), slices.Clone(b.high)}); b.high[i] < d.Size; b.high[i]++ {
			slab.low[i], slab.high[i] = b.high[i], b.high[i]+1
			if !within(slab.region(e), left) {
				break
			}
		}
	}
	for _, taken := range b.region(e).Ranks() {
		delete(left, taken)
	}
	return b
}

// term is a box in the syntax of Select.
func (e Extent) term(b box) string {
	parts := make([]string, len(e.dims))
	for i, d := range e.dims {
		switch size := b.high[i] - b.low[i]; {
		case size == 1:
			parts[i] = fmt.Sprintf("%s=%d", d.Label, b.low[i])
		case size == d.Size:
			parts[i] = d.Label + "=*"
		default:
			parts[i] = fmt.Sprintf("%s=%d:%d", d.Label, b.low[i], b.high[i])
		}
	}
	return strings.Join(parts, ",")
}

// within reports whether all ranks of a region are in a set.
func within(r Region, set map[int]bool) bool {
	for _, base := range r.Ranks() {
		if !set[base] {
			return false
		}
	}
	return true
}
