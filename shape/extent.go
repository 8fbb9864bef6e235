package shape

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxDims is the largest number of dimensions of an extent.
	MaxDims = 16
	// MaxRanks is the largest number of ranks of an extent.
	MaxRanks = math.MaxInt32
)

// Dim is one dimension: a label and a size of at least 1.
type Dim struct {
	Label string
	Size  int
}

// Extent is an ordered list of dimensions, the last one running fastest (SHP-1). It is an
// immutable value; the zero Extent has no dimensions and one rank. An extent built from bad parts
// carries the error and has no ranks.
type Extent struct {
	dims []Dim
	err  error
}

// Of is an extent of one dimension.
func Of(label string, size int) Extent { return Extent{}.With(label, size) }

// Unit is the extent without dimensions: one rank.
func Unit() Extent { return Extent{} }

// With adds a dimension that runs faster than those before it.
func (e Extent) With(label string, size int) Extent {
	if e.err != nil {
		return e
	}
	switch {
	case !isLabel(label):
		return Extent{err: &Error{What: "dimension", Input: label, Want: wantLabel}}
	case e.index(label) >= 0:
		return Extent{err: &Error{What: "dimension", Input: label, Want: "a label that is not in " +
			e.String() + " yet"}}
	case size < 1:
		return Extent{err: &Error{What: "size of dimension " + label, Input: strconv.Itoa(size),
			Want: "at least 1"}}
	case len(e.dims) == MaxDims:
		return Extent{err: &Error{What: "dimension", Input: label,
			Want: fmt.Sprintf("at most %d dimensions", MaxDims)}}
	case e.NumRanks() > MaxRanks/size:
		return Extent{err: &Error{What: "size of dimension " + label, Input: strconv.Itoa(size),
			Want: fmt.Sprintf("at most %d ranks in all", MaxRanks)}}
	}
	return Extent{dims: append(slices.Clone(e.dims), Dim{label, size})}
}

// Err returns the reason why the extent is unusable, or nil.
func (e Extent) Err() error { return e.err }

// Dims are the dimensions in order. The slice is the caller's own.
func (e Extent) Dims() []Dim { return slices.Clone(e.dims) }

// NumRanks is the product of the sizes; 0 for a broken extent.
func (e Extent) NumRanks() int {
	if e.err != nil {
		return 0
	}
	n := 1
	for _, d := range e.dims {
		n *= d.Size
	}
	return n
}

// index is the position of a label, -1 when there is none.
func (e Extent) index(label string) int {
	return slices.IndexFunc(e.dims, func(d Dim) bool { return d.Label == label })
}

// labels lists the labels for errors.
func (e Extent) labels() string {
	if len(e.dims) == 0 {
		return "none, it has no dimensions"
	}
	var ls []string
	for _, d := range e.dims {
		ls = append(ls, d.Label)
	}
	return strings.Join(ls, ", ")
}

// Rank is the rank of a point given by one coordinate per dimension.
func (e Extent) Rank(coords ...int) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	if len(coords) != len(e.dims) {
		return 0, &Error{What: "coordinates", Input: fmt.Sprint(coords),
			Want: fmt.Sprintf("%d of them, for %s", len(e.dims), e)}
	}
	rank := 0
	for i, d := range e.dims {
		if coords[i] < 0 || coords[i] >= d.Size {
			return 0, &Error{What: "coordinate of " + d.Label, Input: strconv.Itoa(coords[i]),
				Want: fmt.Sprintf("0 to %d", d.Size-1)}
		}
		rank = rank*d.Size + coords[i]
	}
	return rank, nil
}

// Point is the point of a rank.
func (e Extent) Point(rank int) (Point, error) {
	if e.err != nil {
		return Point{}, e.err
	}
	if n := e.NumRanks(); rank < 0 || rank >= n {
		return Point{}, &Error{What: "rank", Input: strconv.Itoa(rank), Want: fmt.Sprintf("0 to %d, in %s", n-1, e)}
	}
	return Point{rank: rank, extent: e}, nil
}

// Points yields every point in rank order.
func (e Extent) Points() iter.Seq[Point] {
	return func(yield func(Point) bool) {
		for rank := range e.NumRanks() {
			if !yield(Point{rank, e}) {
				return
			}
		}
	}
}

// Concat is the dimensions of e followed by those of o; a label in both is an error.
func (e Extent) Concat(o Extent) (Extent, error) {
	if o.err != nil {
		return Extent{}, o.err
	}
	for _, d := range o.dims {
		e = e.With(d.Label, d.Size)
	}
	return e, e.err
}

// Equal reports whether two extents have the same dimensions in the same order.
func (e Extent) Equal(o Extent) bool {
	return e.err == nil && o.err == nil && slices.Equal(e.dims, o.dims)
}

// Region is the whole of the extent.
func (e Extent) Region() Region {
	r := Region{err: e.err}
	stride := e.NumRanks()
	for _, d := range e.dims {
		stride /= d.Size
		r.dims = append(r.dims, regionDim{d.Label, d.Size, stride})
	}
	return r
}

// String is the text form, such as `host=2,gpu=4`; empty for the unit extent.
func (e Extent) String() string {
	if e.err != nil {
		return "broken extent: " + e.err.Error()
	}
	var b []byte
	for i, d := range e.dims {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, d.Label...), '=')
		b = strconv.AppendInt(b, int64(d.Size), 10)
	}
	return string(b)
}

// ParseExtent reads the text form (SHP-4).
func ParseExtent(text string) (Extent, error) {
	e := Extent{}
	for part := range splitList(text) {
		label, size, ok := strings.Cut(part, "=")
		n, good := parseInt(size)
		if !ok || !good {
			return Extent{}, &Error{What: "extent", Input: text,
				Want: "label=size,label=size…, such as host=2,gpu=4, sizes from 1 to 2147483647"}
		}
		e = e.With(label, n)
		if e.err != nil {
			return Extent{}, fmt.Errorf("extent %.200q: %w", text, e.err)
		}
	}
	return e, nil
}

// MarshalText is the text form.
func (e Extent) MarshalText() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	return []byte(e.String()), nil
}

// UnmarshalText reads the text form.
func (e *Extent) UnmarshalText(text []byte) (err error) {
	*e, err = ParseExtent(string(text))
	return err
}
