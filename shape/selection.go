package shape

import (
	"container/heap"
	"fmt"
	"iter"
	"slices"
	"strconv"
)

// Selection is a set of ranks of an extent, held as the union of strided boxes: a few numbers,
// however many ranks they select. It is an immutable value; the zero Selection is no rank of the
// unit extent.
type Selection struct {
	base  Extent
	boxes []box // normal (SHP-7)
}

// maxAbsorbed bounds the boxes that are compared each with each. A set with more is one that was
// counted out rank by rank, whose boxes are apart anyway.
const maxAbsorbed = 1024

// normalize makes a selection of boxes of a base, in any order; it takes the slice.
//   - flatten: however they were nested, what is left is one list, ordered by first rank;
//   - dedupe and absorption: a box within another one is dropped;
//   - identity: everything absorbs all; nothing is no box at all.
func normalize(base Extent, boxes []box) Selection {
	boxes = sortUnique(boxes)
	switch {
	case len(boxes) > 0 && boxes[0].isWhole(base.grid()):
		boxes = boxes[:1]
	case len(boxes) <= maxAbsorbed:
		kept := boxes[:0]
		for _, b := range boxes { // what covers b has come before it
			if !slices.ContainsFunc(kept, func(k box) bool { return k.covers(b) }) {
				kept = append(kept, b)
			}
		}
		boxes = kept
	}
	return Selection{base, slices.Clip(boxes)}
}

// Everything selects all ranks of an extent; of a broken one there are none.
func Everything(base Extent) Selection {
	if base.err != nil {
		return Selection{base: base}
	}
	return Selection{base, []box{wholeBox(base.grid())}}
}

// Extent returns the extent of the selection.
func (s Selection) Extent() Extent { return s.base }

// IsEmpty reports whether no rank is selected.
func (s Selection) IsEmpty() bool { return len(s.boxes) == 0 }

// Equal reports whether two selections have the same text over equal extents. Selections of the
// same ranks may still be put in other terms: without each other, those leave nothing.
func (s Selection) Equal(o Selection) bool {
	return s.base.Equal(o.base) &&
		slices.EqualFunc(s.boxes, o.boxes, func(a, b box) bool { return slices.Equal(a, b) })
}

// Contains reports whether the point with these coordinates is selected. There must be one
// coordinate for each dimension, and within it.
func (s Selection) Contains(coords ...int) (bool, error) {
	rank, err := s.base.Rank(coords...)
	return err == nil && s.ContainsRank(rank), err
}

// ContainsRank reports whether a rank is selected; one outside the extent never is.
func (s Selection) ContainsRank(rank int) bool {
	if rank < 0 || rank >= s.base.NumRanks() {
		return false
	}
	at := [MaxDims]int{}
	grid := s.base.grid()
	for i, d := range slices.Backward(grid) {
		at[i], rank = rank%d.Size, rank/d.Size
	}
	return slices.ContainsFunc(s.boxes, func(b box) bool { return b.contains(at[:]) })
}

// Ranks yields the selected ranks, ascending, each once (SHP-7). It visits selected ranks only and
// stores none, so the first of 2·10⁹ ranks costs as much as the first of two.
func (s Selection) Ranks() iter.Seq[int] {
	return func(yield func(int) bool) {
		steps := strides(s.base.grid())
		var walks, idle cursors // those under way, lowest rank first, and those to use again
		for last, next := -1, 0; next < len(s.boxes) || len(walks) > 0; {
			for next < len(s.boxes) && (len(walks) == 0 || s.boxes[next].firstRank(steps) <= walks[0].rank) {
				if len(idle) == 0 {
					idle = append(idle, &cursor{})
				}
				idle[len(idle)-1].start(s.boxes[next], steps)
				heap.Push(&walks, idle.Pop())
				next++
			}
			if rank := walks[0].rank; rank != last {
				last = rank
				if !yield(rank) {
					return
				}
			}
			switch more := walks[0].step(); {
			case !more:
				idle.Push(heap.Pop(&walks))
			case len(walks) > 1:
				heap.Fix(&walks, 0)
			}
		}
	}
}

// cursor walks through the ranks of a box, ascending.
type cursor struct {
	box     box
	strides []int
	at      [MaxDims]int // how far along each span
	rank    int
}

func (c *cursor) start(b box, strides []int) {
	*c = cursor{box: b, strides: strides, rank: b.firstRank(strides)}
}

// step goes on to the next rank; false after the last one.
func (c *cursor) step() bool {
	for i := len(c.box) - 1; i >= 0; i-- {
		jump := c.box[i].step * c.strides[i]
		if c.at[i]++; c.at[i] < c.box[i].count {
			c.rank += jump
			return true
		}
		c.rank -= (c.box[i].count - 1) * jump
		c.at[i] = 0
	}
	return false
}

// cursors is a heap, the lowest rank on top.
type cursors []*cursor

func (c cursors) Len() int           { return len(c) }
func (c cursors) Less(i, j int) bool { return c[i].rank < c[j].rank }
func (c cursors) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *cursors) Push(x any)        { *c = append(*c, x.(*cursor)) }
func (c *cursors) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// Regions yields the strided boxes that the selection is the union of, by their first ranks. They
// may overlap.
func (s Selection) Regions() iter.Seq[Region] {
	return func(yield func(Region) bool) {
		whole := s.base.Region()
		for _, b := range s.boxes {
			if !yield(whole.subRegion(b)) {
				return
			}
		}
	}
}

// Region is a selection of a single box as a region of its extent, which a cast reaches in one
// publish. The error of any other wraps ErrNotRegion.
func (s Selection) Region() (Region, error) {
	if s.base.err != nil {
		return Region{}, s.base.err
	}
	if len(s.boxes) != 1 {
		return Region{}, &Error{
			What: "selection", Input: s.String(), cause: ErrNotRegion,
			Want: fmt.Sprintf("one index, range or * for each dimension; these are %d regions", len(s.boxes)),
		}
	}
	return s.base.Region().subRegion(s.boxes[0]), nil
}

// emptyText is the text of the empty selection. No label has it, because a label stands before `=`.
const emptyText = "none"

// String is the text form: for each box the indices along every dimension, such as `host=0,gpu=1:4
// | host=1,gpu=*`. All ranks are `*`, no ranks `none`. It reads back (SHP-4).
func (s Selection) String() string {
	grid := s.base.grid()
	switch {
	case s.base.err != nil:
		return "selection of a " + s.base.String()
	case len(s.boxes) == 0:
		return emptyText
	case s.boxes[0].isWhole(grid):
		return "*"
	}
	var text []byte
	for i, b := range s.boxes {
		if i > 0 {
			text = append(text, " | "...)
		}
		text = b.append(text, grid)
	}
	return string(text)
}

// append writes a box in the selection language.
func (b box) append(text []byte, grid []Dim) []byte {
	number := func(n int) { text = strconv.AppendInt(text, int64(n), 10) }
	for i, s := range b {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, grid[i].Label...), '=')
		if s.count == grid[i].Size && s.count > 1 {
			text = append(text, '*')
			continue
		}
		number(s.begin)
		if s.count > 1 {
			text = append(text, ':')
			number(s.last() + 1)
		}
		if s.step > 1 {
			text = append(text, ':')
			number(s.step)
		}
	}
	return text
}
