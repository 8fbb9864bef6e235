package shape

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
)

// ValueMesh is one value for every rank of a region (SHP-6). Inside it is either a list by rank, or
// a table of distinct values and their runs of ranks; reads are the same. Copies share the values;
// the zero ValueMesh has none.
type ValueMesh[T any] struct {
	region Region
	dense  []T // by rank; or else:
	table  []T
	runs   []tableRun // in order, from rank 0 to the last
}

// tableRun is the ranks from the end of the run before to its own that have one value.
type tableRun struct {
	end   int
	value uint32 // in the table
}

// Run is one value for the ranks from Begin up to before End.
type Run[T any] struct {
	Begin, End int
	Value      T
}

// NewValueMesh takes values in rank order; it keeps the slice. Their number must be the region's.
func NewValueMesh[T any](r Region, values []T) (ValueMesh[T], error) {
	if r.err != nil {
		return ValueMesh[T]{}, r.err
	}
	if n := r.NumRanks(); len(values) != n {
		return ValueMesh[T]{}, &Error{What: "number of values", Input: strconv.Itoa(len(values)),
			Want: fmt.Sprintf("%d, the ranks of %s", n, r)}
	}
	return ValueMesh[T]{region: r, dense: values}, nil
}

// UniformMesh is one value for all ranks, however many.
func UniformMesh[T any](r Region, value T) (ValueMesh[T], error) { return MeshOfRuns(r, value) }

// MeshOfRuns is the values of runs, in any order, and rest for all other ranks. A run that is
// empty, leaves the region or overlaps another is an error.
func MeshOfRuns[T any](r Region, rest T, runs ...Run[T]) (ValueMesh[T], error) {
	if r.err != nil {
		return ValueMesh[T]{}, r.err
	}
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Run[T]) int { return cmp.Compare(a.Begin, b.Begin) })
	p := newPacker[T]()
	for _, run := range runs {
		want := ""
		switch {
		case run.Begin < 0 || run.End > r.NumRanks():
			want = fmt.Sprintf("ranks from 0 to %d", r.NumRanks()-1)
		case run.End <= run.Begin:
			want = "an end after the begin"
		case run.Begin < p.end():
			want = fmt.Sprintf("no overlap with the run that ends at %d", p.end())
		}
		if want != "" {
			return ValueMesh[T]{}, &Error{What: "run of values",
				Input: fmt.Sprintf("%d:%d", run.Begin, run.End), Want: want}
		}
		p.fillTo(run.Begin, rest)
		p.fillTo(run.End, run.Value)
	}
	p.fillTo(r.NumRanks(), rest)
	return p.build(r), nil
}

// MeshOfPairs collects a value for each rank, in any order. Of two for one rank the later counts;
// a rank without a value is an error, and so is one outside.
func MeshOfPairs[T any](r Region, pairs iter.Seq2[int, T]) (ValueMesh[T], error) {
	if r.err != nil {
		return ValueMesh[T]{}, r.err
	}
	n := r.NumRanks()
	var all []Run[T]
	for rank, v := range pairs {
		if rank < 0 || rank >= n {
			return ValueMesh[T]{}, &Error{What: "rank of a value", Input: strconv.Itoa(rank),
				Want: fmt.Sprintf("0 to %d, in %s", n-1, r)}
		}
		all = append(all, Run[T]{Begin: rank, Value: v})
	}
	slices.SortStableFunc(all, func(a, b Run[T]) int { return cmp.Compare(a.Begin, b.Begin) })
	values := make([]T, 0, min(n, len(all)))
	missing := func() error {
		return &Error{What: "values", Input: fmt.Sprintf("none for rank %d", len(values)),
			Want: fmt.Sprintf("one for each of the %d ranks of %s", n, r)}
	}
	for i, pair := range all {
		if i+1 < len(all) && all[i+1].Begin == pair.Begin {
			continue
		}
		if pair.Begin != len(values) {
			return ValueMesh[T]{}, missing()
		}
		values = append(values, pair.Value)
	}
	if len(values) != n {
		return ValueMesh[T]{}, missing()
	}
	return ValueMesh[T]{region: r, dense: values}.Compress(), nil
}

// Region returns the region of the values.
func (m ValueMesh[T]) Region() Region { return m.region }

// Extent is the shape of that.
func (m ValueMesh[T]) Extent() Extent { return m.region.Extent() }

// Len is the number of values.
func (m ValueMesh[T]) Len() int {
	if len(m.runs) > 0 {
		return m.runs[len(m.runs)-1].end
	}
	return len(m.dense)
}

// At is the value at a rank of the region; false when there is no such rank.
func (m ValueMesh[T]) At(rank int) (T, bool) {
	if rank < 0 || rank >= m.Len() {
		var zero T
		return zero, false
	}
	if len(m.runs) > 0 {
		return m.table[m.runs[m.run(rank)].value], true
	}
	return m.dense[rank], true
}

// run is the run that a rank is in.
func (m ValueMesh[T]) run(rank int) int {
	return sort.Search(len(m.runs), func(i int) bool { return m.runs[i].end > rank })
}

// Values are all values in rank order. The slice may be shared: read it only. A run-length mesh
// makes a new one at each call.
func (m ValueMesh[T]) Values() []T {
	if len(m.runs) == 0 {
		return m.dense
	}
	values := make([]T, 0, m.Len())
	for _, r := range m.runs {
		for len(values) < r.end {
			values = append(values, m.table[r.value])
		}
	}
	return values
}

// All yields every value with its point in the region.
func (m ValueMesh[T]) All() iter.Seq2[Point, T] {
	return func(yield func(Point, T) bool) {
		e := m.region.Extent()
		for rank, v := range m.dense {
			if !yield(Point{rank, e}, v) {
				return
			}
		}
		rank := 0
		for _, r := range m.runs {
			for ; rank < r.end; rank++ {
				if !yield(Point{rank, e}, m.table[r.value]) {
					return
				}
			}
		}
	}
}

// Runs yields the values as runs, in order and without gaps. Adjacent equal values are one run.
// Incomparable values are never equal, but a given run stays one.
func (m ValueMesh[T]) Runs() iter.Seq[Run[T]] {
	return func(yield func(Run[T]) bool) {
		begin := 0
		for _, r := range m.runs {
			if !yield(Run[T]{begin, r.end, m.table[r.value]}) {
				return
			}
			begin = r.end
		}
		same := equality[T]()
		for end := 1; end <= len(m.dense); end++ {
			if end < len(m.dense) && same(&m.dense[begin], &m.dense[end]) {
				continue
			}
			if !yield(Run[T]{begin, end, m.dense[begin]}) {
				return
			}
			begin = end
		}
	}
}

// Map applies f to every value.
func Map[T, U any](m ValueMesh[T], f func(Point, T) U) ValueMesh[U] {
	out := ValueMesh[U]{region: m.region, dense: make([]U, 0, m.Len())}
	for p, v := range m.All() {
		out.dense = append(out.dense, f(p, v))
	}
	return out
}

// MapValues applies f to every value, once for all ranks that share one in a run-length mesh: such
// a mesh stays one.
func MapValues[T, U any](m ValueMesh[T], f func(T) U) ValueMesh[U] {
	if len(m.runs) == 0 {
		return Map(m, func(_ Point, v T) U { return f(v) })
	}
	table := make([]U, len(m.table))
	for i, v := range m.table {
		table[i] = f(v)
	}
	p := newPacker[U]()
	for _, r := range m.runs {
		p.fillTo(r.end, table[r.value])
	}
	return p.build(m.region)
}
