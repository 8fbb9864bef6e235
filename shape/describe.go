package shape

import (
	"slices"
	"strconv"
	"strings"
)

// Describe names a set of base ranks of an extent in the selection language, in terms joined by ` |
// `. The terms are disjoint and together exactly the set (SHP-4). All ranks are `*`, none are the
// empty text. It omits ranks outside the extent.
//
// It is greedy, not minimal: from the lowest rank left it takes the largest box it can grow.
func Describe(base Extent, ranks []int) string {
	n := base.NumRanks()
	outside := func(r int) bool { return r < 0 || r >= n }
	if slices.ContainsFunc(ranks, outside) {
		ranks = slices.DeleteFunc(slices.Clone(ranks), outside)
	}
	if len(ranks) == 0 {
		return ""
	}
	return ofRanks(base, ranks).String()
}

// DescribeRank names the point of a rank, such as host=0,gpu=3. A rank outside the extent, and that
// of the unit extent, is its number.
func DescribeRank(base Extent, rank int) string {
	at, err := base.Point(rank)
	if err != nil || len(base.Dims()) == 0 {
		return strconv.Itoa(rank)
	}
	parts := make([]string, len(base.Dims()))
	for i, d := range base.Dims() {
		parts[i] = d.Label + "=" + strconv.Itoa(at.Coords()[i])
	}
	return strings.Join(parts, ",")
}

// SelectionOfRanks selects exactly these ranks of an extent, in any order, in the terms of
// Describe.
func SelectionOfRanks(base Extent, ranks []int) (Selection, error) {
	if base.err != nil {
		return Selection{}, base.err
	}
	for _, r := range ranks {
		if _, err := base.Point(r); err != nil {
			return Selection{}, err
		}
	}
	return ofRanks(base, ranks), nil
}

// ofRanks is the selection of ranks that are in the extent.
func ofRanks(base Extent, ranks []int) Selection {
	for i := 1; i < len(ranks); i++ {
		if ranks[i] <= ranks[i-1] {
			ranks = slices.Compact(slices.Sorted(slices.Values(ranks)))
			break
		}
	}
	grid := base.grid()
	g := boxGrower{grid: grid, strides: strides(grid), ranks: ranks, taken: make([]bool, len(ranks))}
	var boxes []box
	for i, r := range ranks {
		if !g.taken[i] {
			boxes = append(boxes, g.grow(r))
		}
	}
	return normalize(base, boxes)
}

// boxGrower takes boxes out of a set of ranks. It allocates by the thousand boxes.
type boxGrower struct {
	grid      []Dim
	strides   []int
	ranks     []int  // ascending, each once
	taken     []bool // by position in ranks
	lastFound int    // the position found last: the next one is often asked for next
	spans     []span // room for boxes to come
	slab      [MaxDims]span
	cursor    cursor
}

// find is the position of a remaining rank; false when there is none.
func (g *boxGrower) find(rank int) (int, bool) {
	at := g.lastFound + 1
	if at >= len(g.ranks) || g.ranks[at] != rank {
		i, ok := slices.BinarySearch(g.ranks, rank)
		if !ok {
			return 0, false
		}
		at = i
	}
	g.lastFound = at
	return at, !g.taken[at]
}

// grow takes a box from a rank as far as the set allows, the fastest dimension first. Each step
// looks at the slab it would add only, so the work is that of the box's ranks.
func (g *boxGrower) grow(rank int) box {
	b := g.newBox()
	for i, d := range slices.Backward(g.grid) {
		b[i] = span{rank % d.Size, 1, 1}
		rank /= d.Size
	}
	slab := box(g.slab[:len(b)])
	for i := range slices.Backward(b) {
		copy(slab, b)
		for slab[i].begin++; slab[i].begin < g.grid[i].Size && g.allFree(slab); slab[i].begin++ {
			b[i].count++
		}
	}
	g.cursor.start(b, g.strides)
	for more := true; more; more = g.cursor.step() {
		at, _ := g.find(g.cursor.rank)
		g.taken[at] = true
	}
	return b
}

// newBox is memory for one box.
func (g *boxGrower) newBox() box {
	const boxes = 1000
	n := len(g.grid)
	if len(g.spans) < n {
		g.spans = make([]span, n*min(boxes, len(g.ranks)))
	}
	b := g.spans[:n:n]
	g.spans = g.spans[n:]
	return b
}

// allFree reports whether every rank of a box is still to be had.
func (g *boxGrower) allFree(b box) bool {
	g.cursor.start(b, g.strides)
	for more := true; more; more = g.cursor.step() {
		if _, ok := g.find(g.cursor.rank); !ok {
			return false
		}
	}
	return true
}
