package shape

import "slices"

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

// SelectionOfRegion selects the base ranks of a region from its first extent. A region that is no
// box of the extent, such as a flattened part of it, takes a term for each of its boxes, and a look
// at each rank.
func SelectionOfRegion(base Extent, r Region) (Selection, error) {
	switch {
	case base.err != nil:
		return Selection{}, base.err
	case r.err != nil:
		return Selection{}, r.err
	case r.offset+r.rankSpan() >= base.NumRanks():
		return Selection{}, &Error{What: "region", Input: r.String(), Want: "a part of " + base.String()}
	}
	if b, ok := base.box(r); ok {
		return normalize(base, []box{b}), nil
	}
	if r.NumRanks() > maxWalk {
		return Selection{}, &Error{What: "region", Input: r.String(), Want: "a box of " + base.String() + ", for it is too large to go through"}
	}
	ranks := make([]int, 0, r.NumRanks())
	for _, rank := range r.Ranks() {
		ranks = append(ranks, rank)
	}
	return ofRanks(base, ranks), nil
}

// box is a region as a box of the extent's grid; false when it is none. Each dimension of the
// region is an even step through one of the grid, or runs through the whole of one and on along
// the next slower one.
func (e Extent) box(r Region) (box, bool) {
	grid := e.grid()
	steps, b := strides(grid), make(box, len(grid))
	for i, d := range grid {
		b[i] = span{r.offset / steps[i] % d.Size, 1, 1}
	}
	for _, d := range r.dims {
		stride, left := d.stride, d.size
		for i := len(grid) - 1; i >= 0 && left > 1; i-- {
			size, hop := grid[i].Size, stride/steps[i]
			if size == 1 || hop == 0 || hop >= size {
				continue
			}
			if stride%steps[i] != 0 || b[i].count > 1 {
				return nil, false
			}
			take := min(left, (size-b[i].begin-1)/hop+1)
			if take < left && (b[i].begin >= hop || size%hop != 0 || left%take != 0) {
				return nil, false // the next turn would not begin where this one did
			}
			b[i] = newSpan(b[i].begin, take, hop)
			stride, left = steps[i]*size, left/take
		}
		if left > 1 {
			return nil, false
		}
	}
	return b, true
}
