package shape

import (
	"cmp"
	"slices"
)

// span is the indices begin, begin+step, … along one dimension, count of them and at least one.
// A single index has step 1, so that equal spans are equal values.
type span struct{ begin, count, step int }

func newSpan(begin, count, step int) span {
	if count == 1 {
		step = 1
	}
	return span{begin, count, step}
}

func (s span) last() int { return s.begin + (s.count-1)*s.step }

func (s span) contains(i int) bool {
	return i >= s.begin && i <= s.last() && (i-s.begin)%s.step == 0
}

// covers reports whether every index of o is one of s.
func (s span) covers(o span) bool {
	return s.contains(o.begin) && s.contains(o.last()) && (o.count == 1 || o.step%s.step == 0)
}

// intersect is the indices in both; false when there are none. The common progression has the least
// common multiple of the steps, and begins at the Chinese remainder of the two begins.
func (s span) intersect(o span) (span, bool) {
	a, b := int64(s.step), int64(o.step)
	gcd, inverse := euclid(a, b)
	apart := int64(o.begin - s.begin)
	if apart%gcd != 0 {
		return span{}, false
	}
	turns := b / gcd
	steps := (apart/gcd%turns*inverse%turns + turns) % turns
	begin, step := int64(s.begin)+steps*a, a*turns
	low, high := int64(max(s.begin, o.begin)), int64(min(s.last(), o.last()))
	if begin < low {
		begin += (low - begin + step - 1) / step * step
	}
	if begin > high {
		return span{}, false
	}
	return newSpan(int(begin), int((high-begin)/step)+1, int(step)), true
}

// euclid is the greatest common divisor g of two positive numbers, and x with a·x ≡ g modulo b,
// below b in size.
func euclid(a, b int64) (g, x int64) {
	x, next := int64(1), int64(0)
	for b != 0 {
		q := a / b
		a, b = b, a-q*b
		x, next = next, x-q*next
	}
	return a, x
}

// box is one span for each dimension of a grid: the points whose coordinates are all in them.
type box []span

// grid is the dimensions of an extent as selections see them: an extent without any has one of
// size 1, so that its only rank can be written down.
func (e Extent) grid() []Dim {
	if len(e.dims) == 0 && e.err == nil {
		return []Dim{{Size: 1}}
	}
	return e.dims
}

// strides are the distances of neighbours along each dimension.
func strides(grid []Dim) []int {
	out := make([]int, len(grid))
	stride := 1
	for i, d := range slices.Backward(grid) {
		out[i] = stride
		stride *= d.Size
	}
	return out
}

// wholeBox is every point of a grid.
func wholeBox(grid []Dim) box {
	b := make(box, len(grid))
	for i, d := range grid {
		b[i] = span{0, d.Size, 1}
	}
	return b
}

func (b box) isWhole(grid []Dim) bool {
	for i, d := range grid {
		if b[i].count != d.Size {
			return false
		}
	}
	return true
}

// firstRank is the lowest rank of a box.
func (b box) firstRank(strides []int) int {
	rank := 0
	for i, s := range b {
		rank += s.begin * strides[i]
	}
	return rank
}

func (b box) contains(coords []int) bool {
	for i, s := range b {
		if !s.contains(coords[i]) {
			return false
		}
	}
	return true
}

func (b box) covers(o box) bool {
	for i, s := range b {
		if !s.covers(o[i]) {
			return false
		}
	}
	return true
}

// intersect is the points in both; false when there are none.
func (b box) intersect(o box) (box, bool) {
	spans := [MaxDims]span{} // most pairs do not meet: no garbage for those
	for i, s := range b {
		both, ok := s.intersect(o[i])
		if !ok {
			return nil, false
		}
		spans[i] = both
	}
	return slices.Clone(spans[:len(b)]), true
}

// compareBoxes orders boxes by their first rank. Among boxes with the same first point, a covering
// box comes first.
func compareBoxes(a, b box) int {
	for i := range a {
		if c := cmp.Compare(a[i].begin, b[i].begin); c != 0 {
			return c
		}
	}
	for i := range a {
		if c := cmp.Or(cmp.Compare(b[i].count, a[i].count), cmp.Compare(a[i].step, b[i].step)); c != 0 {
			return c
		}
	}
	return 0
}

// sortUnique orders boxes, and drops repeated ones; it takes the slice.
func sortUnique(boxes []box) []box {
	slices.SortFunc(boxes, compareBoxes)
	return slices.CompactFunc(boxes, func(a, b box) bool { return slices.Equal(a, b) })
}

// subRegion is the part of a region that a box of its grid stands for.
func (r Region) subRegion(b box) Region {
	out := Region{offset: r.offset, dims: slices.Clone(r.dims)}
	for i, d := range r.dims {
		out.offset += b[i].begin * d.stride
		out.dims[i] = regionDim{d.label, b[i].count, d.stride * b[i].step}
	}
	return out
}
