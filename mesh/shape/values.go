package shape

import (
	"fmt"
	"iter"
	"strconv"
)

// ValueMesh is one value for every rank of a region (SHP-6). It is a value that shares its
// values when it is copied; the zero ValueMesh has none.
type ValueMesh[T any] struct {
	region Region
	values []T
}

// NewValueMesh takes values in rank order; it keeps the slice. Their number must be the region's.
func NewValueMesh[T any](r Region, values []T) (ValueMesh[T], error) {
	if r.err != nil {
		return ValueMesh[T]{}, r.err
	}
	if n := r.NumRanks(); len(values) != n {
		return ValueMesh[T]{}, &Error{What: "number of values", Input: strconv.Itoa(len(values)), Want: fmt.Sprintf("%d, the ranks of %s", n, r)}
	}
	return ValueMesh[T]{r, values}, nil
}

// Region is what the values are for.
func (m ValueMesh[T]) Region() Region { return m.region }

// Len is the number of values.
func (m ValueMesh[T]) Len() int { return len(m.values) }

// At is the value at a rank of the region; false when there is no such rank.
func (m ValueMesh[T]) At(rank int) (T, bool) {
	if rank < 0 || rank >= len(m.values) {
		var zero T
		return zero, false
	}
	return m.values[rank], true
}

// Values are all values in rank order. The slice is shared: read it only.
func (m ValueMesh[T]) Values() []T { return m.values }

// All yields every value with its point in the region.
func (m ValueMesh[T]) All() iter.Seq2[Point, T] {
	return func(yield func(Point, T) bool) {
		e := m.region.Extent()
		for rank, v := range m.values {
			if !yield(Point{rank, e}, v) {
				return
			}
		}
	}
}

// Map applies f to every value.
func Map[T, U any](m ValueMesh[T], f func(Point, T) U) ValueMesh[U] {
	out := ValueMesh[U]{m.region, make([]U, 0, len(m.values))}
	for p, v := range m.All() {
		out.values = append(out.values, f(p, v))
	}
	return out
}
