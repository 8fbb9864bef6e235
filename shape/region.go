package shape

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
)

// Region is a rectangular, possibly strided part of an extent. Its ranks are dense from 0 (view
// ranks); each stands for a rank of the extent it was cut from (base ranks), however often it was
// sliced (SHP-1). It is an immutable value; the zero Region is the whole of the unit extent.
type Region struct {
	offset int
	dims   []regionDim
	err    error
}

type regionDim struct {
	label  string
	size   int
	stride int
}

// Err returns the reason why the region is unusable, or nil.
func (r Region) Err() error { return r.err }

// Extent is the region's own shape.
func (r Region) Extent() Extent {
	if r.err != nil {
		return Extent{err: r.err}
	}
	if len(r.dims) == 0 {
		return Extent{}
	}
	e := Extent{dims: make([]Dim, len(r.dims))}
	for i, d := range r.dims {
		e.dims[i] = Dim{d.label, d.size}
	}
	return e
}

// NumRanks is the number of ranks in the region.
func (r Region) NumRanks() int {
	if r.err != nil {
		return 0
	}
	n := 1
	for _, d := range r.dims {
		n *= d.size
	}
	return n
}

// Slice keeps the indices begin to end-1 along a dimension. An end beyond the size means the size.
func (r Region) Slice(label string, begin, end int) (Region, error) {
	return r.SliceStep(label, begin, end, 1)
}

// Index keeps one index along a dimension; the dimension stays, with size 1.
func (r Region) Index(label string, i int) (Region, error) {
	at, err := r.dim(label)
	if err != nil {
		return Region{}, err
	}
	if i < 0 || i >= r.dims[at].size {
		return Region{}, &Error{What: "index of " + label, Input: strconv.Itoa(i),
			Want: fmt.Sprintf("0 to %d", r.dims[at].size-1)}
	}
	return r.SliceStep(label, i, i+1, 1)
}

// Single returns the region of one rank of the region.
func (r Region) Single(view int) (Region, error) {
	p, err := r.Extent().Point(view)
	for _, d := range p.extent.dims {
		i, _ := p.Coord(d.Label)
		r, err = r.Index(d.Label, i)
	}
	return r, err
}

// At keeps one index along a dimension, and drops the dimension.
func (r Region) At(label string, i int) (Region, error) {
	out, err := r.Index(label, i)
	if err == nil {
		at, _ := out.dim(label)
		out.dims = slices.Delete(out.dims, at, at+1)
	}
	return out, err
}

// SliceStep keeps every step-th index from begin up to before end along a dimension.
func (r Region) SliceStep(label string, begin, end, step int) (Region, error) {
	at, err := r.dim(label)
	if err != nil {
		return Region{}, err
	}
	d := r.dims[at]
	s, err := Dim{label, d.size}.span(begin, end, step)
	if err != nil {
		return Region{}, err
	}
	out := Region{offset: r.offset + d.stride*s.begin, dims: slices.Clone(r.dims)}
	out.dims[at] = regionDim{label, s.count, d.stride * s.step}
	return out, nil
}

func (r Region) dim(label string) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	at := slices.IndexFunc(r.dims, func(d regionDim) bool { return d.label == label })
	if at < 0 {
		return 0, &Error{What: "dimension", Input: label, Want: "one of: " + r.Extent().labels()}
	}
	return at, nil
}

// BaseRank returns the base rank of a view rank.
func (r Region) BaseRank(view int) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if n := r.NumRanks(); view < 0 || view >= n {
		return 0, &Error{What: "rank", Input: strconv.Itoa(view), Want: fmt.Sprintf("0 to %d", n-1)}
	}
	return r.base(view), nil
}

func (r Region) base(view int) int {
	base := r.offset
	for i := len(r.dims) - 1; i >= 0; i-- {
		d := r.dims[i]
		base += view % d.size * d.stride
		view /= d.size
	}
	return base
}

// ViewRank finds a base rank in the region; false when it is not in it (SHP-1). The strides of a
// region nest, so the coordinates come off one by one, the largest stride first.
func (r Region) ViewRank(base int) (int, bool) {
	if r.err != nil || base < r.offset {
		return 0, false
	}
	view, rest := 0, base-r.offset
	for _, d := range r.dims {
		c := 0
		if d.size > 1 {
			c = min(rest/d.stride, d.size-1)
		}
		rest -= c * d.stride
		view = view*d.size + c
	}
	return view, rest == 0
}

// Contains reports whether a base rank is in the region.
func (r Region) Contains(base int) bool {
	_, in := r.ViewRank(base)
	return in
}

// Ranks yields every view rank with its base rank, in order.
func (r Region) Ranks() iter.Seq2[int, int] {
	return func(yield func(view, base int) bool) {
		for view := range r.NumRanks() {
			if !yield(view, r.base(view)) {
				return
			}
		}
	}
}

// Equal reports whether two regions are the same part of the same space.
func (r Region) Equal(o Region) bool {
	return r.err == nil && o.err == nil && r.offset == o.offset && slices.Equal(r.dims, o.dims)
}
