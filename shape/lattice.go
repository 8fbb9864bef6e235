package shape

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
)

// maxWalk bounds how many ranks are looked at one by one where arithmetic does not decide.
const maxWalk = 1 << 22

// lattice describes a region within another: its ranks are start + Σ index·step of the other's.
type lattice struct {
	start int
	dims  []latticeDim // the slowest first, none of size 1
}

type latticeDim struct{ size, stride int }

// rankSpan is the distance from the first rank to the last.
func (l lattice) rankSpan() int {
	span := 0
	for _, d := range l.dims {
		span += (d.size - 1) * d.stride
	}
	return span
}

// coalesced is a region's dimensions with neighbours made one where the ranks run on evenly. It
// leaves view ranks as they are. Labels are dropped.
func (r Region) coalesced() []regionDim {
	var out []regionDim
	for _, d := range slices.Backward(r.dims) {
		if n := len(out); n > 0 && d.stride == out[n-1].stride*out[n-1].size {
			out[n-1].size *= d.size
		} else if d.size > 1 {
			out = append(out, regionDim{size: d.size, stride: d.stride})
		}
	}
	slices.Reverse(out)
	return out
}

// latticeIn finds the lattice of r in o: each stride of r is a fixed number of steps along each
// dimension of o, always within it. False means that r is no part of o, or that it spans a gap of
// o; only a look at each rank can tell.
func (r Region) latticeIn(o Region) (lattice, bool) {
	start, ok := o.ViewRank(r.offset)
	if !ok || r.err != nil {
		return lattice{}, false
	}
	dims := o.coalesced()
	views, reach := make([]int, len(dims)), make([]int, len(dims))
	view, rest := 1, start
	for j, d := range slices.Backward(dims) {
		views[j], reach[j] = view, rest%d.size
		view, rest = view*d.size, rest/d.size
	}
	out := lattice{start: start}
	for _, d := range r.dims {
		if d.size == 1 {
			continue
		}
		step, rest := 0, d.stride
		for j, along := range dims {
			n := min(rest/along.stride, along.size-1)
			rest -= n * along.stride
			step += n * views[j]
			reach[j] += n * (d.size - 1)
		}
		if rest != 0 {
			return lattice{}, false
		}
		out.dims = append(out.dims, latticeDim{d.size, step})
	}
	for j, d := range dims {
		if reach[j] >= d.size {
			return lattice{}, false
		}
	}
	return out, true
}

// SubsetOf checks that every base rank of r is one of o; the error names the first that is not.
func (r Region) SubsetOf(o Region) error {
	if r.err != nil {
		return r.err
	}
	if o.err != nil {
		return o.err
	}
	if _, ok := r.latticeIn(o); ok {
		return nil
	}
	n := r.NumRanks()
	first := sort.Search(n-1, func(view int) bool { return !r.startsWithin(view+1, o) })
	for view := first; view < n; view++ {
		if view-first == maxWalk {
			return &Error{What: "region", Input: r.String(),
				Want: fmt.Sprintf("a part of %s that can be told without going through all ranks", o)}
		}
		if base := r.base(view); !o.Contains(base) {
			return &Error{What: "base rank", Input: strconv.Itoa(base),
				Want: fmt.Sprintf("one of %s, where %s is to be a part of it", o, r)}
		}
	}
	return nil
}

// startsWithin reports whether the first count ranks of r, a proper part of it, are in o: those of
// whole indices along the slowest dimension, then those of the next, and so on.
func (r Region) startsWithin(count int, o Region) bool {
	block, offset := r.NumRanks(), r.offset
	for i, d := range r.dims {
		block /= d.size
		whole := count / block
		count %= block
		if whole == 0 {
			continue
		}
		part := Region{offset: offset, dims: slices.Clone(r.dims[i:])}
		part.dims[0].size = whole
		if _, ok := part.latticeIn(o); !ok {
			return false
		}
		offset += whole * d.stride
	}
	return true
}

// Remap yields every rank of r with the rank in o of the same base rank. r must be a part of o.
func (r Region) Remap(o Region) (iter.Seq2[int, int], error) {
	if err := r.SubsetOf(o); err != nil {
		return nil, err
	}
	return func(yield func(view, other int) bool) {
		for view, base := range r.Ranks() {
			if other, _ := o.ViewRank(base); !yield(view, other) {
				return
			}
		}
	}, nil
}

// GroupBy yields one region for each combination of indices along the dimensions before a label,
// in rank order. They have the dimensions from the label on.
func (r Region) GroupBy(label string) (iter.Seq[Region], error) {
	at, err := r.dim(label)
	if err != nil {
		return nil, err
	}
	outer, inner := Region{offset: r.offset, dims: r.dims[:at]}, slices.Clip(r.dims[at:])
	return func(yield func(Region) bool) {
		for _, base := range outer.Ranks() {
			if !yield(Region{offset: base, dims: inner}) {
				return
			}
		}
	}, nil
}

// PointOf is the point of the region that stands for a base rank.
func (r Region) PointOf(base int) (Point, error) {
	if r.err != nil {
		return Point{}, r.err
	}
	view, ok := r.ViewRank(base)
	if !ok {
		return Point{}, &Error{What: "base rank", Input: strconv.Itoa(base), Want: "one of " + r.String()}
	}
	return Point{view, r.Extent()}, nil
}

// BaseOf is the base rank that a point of the region stands for.
func (r Region) BaseOf(p Point) (int, error) {
	if e := r.Extent(); !e.Equal(p.extent) {
		if r.err != nil {
			return 0, r.err
		}
		return 0, &Error{What: "point", Input: p.String(), Want: "one of " + e.String()}
	}
	return r.BaseRank(p.rank)
}
