package shape

import "slices"

// Describe names a set of base ranks of an extent in the selection language, in terms joined by
// ` | `: each stands for ranks of the set only, no two for the same rank, and together for all of
// them (SHP-4). All ranks are `*`, none are the empty text. Ranks outside the extent are left out.
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
	g := grower{grid: grid, strides: strides(grid), ranks: ranks, taken: make([]bool, len(ranks))}
	var boxes []box
	for i, r := range ranks {
		if !g.taken[i] {
			boxes = append(boxes, g.grow(r))
		}
	}
	return normal(base, boxes)
}

// grower takes boxes out of a set of ranks. It allocates by the thousand boxes.
type grower struct {
	grid    []Dim
	strides []int
	ranks   []int  // ascending, each once
	taken   []bool // by position in ranks
	found   int    // the position found last: the next one is often asked for next
	spans   []span // room for boxes to come
	slab    [MaxDims]span
	walk    cursor
}

// find is the position of a rank that is still to be had; false when there is none.
func (g *grower) find(rank int) (int, bool) {
	at := g.found + 1
	if at >= len(g.ranks) || g.ranks[at] != rank {
		var ok bool
		if at, ok = slices.BinarySearch(g.ranks, rank); !ok {
			return 0, false
		}
	}
	g.found = at
	return at, !g.taken[at]
}

// grow takes a box from a rank as far as the set allows, the fastest dimension first. Each step
// looks at the slab it would add only, so the work is that of the box's ranks.
func (g *grower) grow(rank int) box {
	b := g.room()
	for i, d := range slices.Backward(g.grid) {
		b[i] = span{rank % d.Size, 1, 1}
		rank /= d.Size
	}
	slab := box(g.slab[:len(b)])
	for i := range slices.Backward(b) {
		copy(slab, b)
		for slab[i].begin++; slab[i].begin < g.grid[i].Size && g.all(slab); slab[i].begin++ {
			b[i].count++
		}
	}
	g.walk.start(b, g.strides)
	for more := true; more; more = g.walk.step() {
		at, _ := g.find(g.walk.rank)
		g.taken[at] = true
	}
	return b
}

// room is memory for one box.
func (g *grower) room() box {
	const boxes = 1000
	n := len(g.grid)
	if len(g.spans) < n {
		g.spans = make([]span, n*min(boxes, len(g.ranks)))
	}
	b := g.spans[:n:n]
	g.spans = g.spans[n:]
	return b
}

// all reports whether every rank of a box is still to be had.
func (g *grower) all(b box) bool {
	g.walk.start(b, g.strides)
	for more := true; more; more = g.walk.step() {
		if _, ok := g.find(g.walk.rank); !ok {
			return false
		}
	}
	return true
}

// SelectionOfRegion selects the base ranks of a region from the extent that it was cut from. A
// region that no box of the extent is, such as a flattened part of it, takes a term for each box
// that is in it, and a look at each rank.
func SelectionOfRegion(base Extent, r Region) (Selection, error) {
	switch {
	case base.err != nil:
		return Selection{}, base.err
	case r.err != nil:
		return Selection{}, r.err
	case r.offset+r.span() >= base.NumRanks():
		return Selection{}, &Error{What: "region", Input: r.String(), Want: "a part of " + base.String()}
	}
	if b, ok := base.box(r); ok {
		return normal(base, []box{b}), nil
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
