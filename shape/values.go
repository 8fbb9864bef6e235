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
	layout layout
	values []T // by rank, or the table
}

// layout tells which value a rank has. It is the part of a ValueMesh without the type of the
// values. Programs compile a ValueMesh for each type, and this part once.
type layout struct {
	region Region
	runs   []tableRun // in order, from rank 0 to the last; none: the values are a list by rank
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
	if err := r.checkCount(len(values)); err != nil {
		return ValueMesh[T]{}, err
	}
	return ValueMesh[T]{layout{region: r}, values}, nil
}

// checkCount returns an error unless the region is good and has n ranks.
func (r Region) checkCount(n int) error {
	if r.err == nil && r.NumRanks() != n {
		return &Error{What: "number of values", Input: strconv.Itoa(n),
			Want: fmt.Sprintf("%d, the ranks of %s", r.NumRanks(), r)}
	}
	return r.err
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
	values := []T{rest}
	for _, run := range runs {
		values = append(values, run.Value)
	}
	p := newPacker(comparerOf(values))
	for i, run := range runs {
		if err := checkRun(r.NumRanks(), run.Begin, run.End, p.end()); err != nil {
			return ValueMesh[T]{}, err
		}
		p.fillTo(run.Begin, 0)
		p.fillTo(run.End, i+1)
	}
	p.fillTo(r.NumRanks(), 0)
	return pick(values, p.build(r)), nil
}

// checkRun returns an error unless a run is within the ranks and begins after another one.
func checkRun(ranks, begin, end, after int) error {
	want := ""
	switch {
	case begin < 0 || end > ranks:
		want = fmt.Sprintf("ranks from 0 to %d", ranks-1)
	case end <= begin:
		want = "an end after the begin"
	case begin < after:
		want = fmt.Sprintf("no overlap with the run that ends at %d", after)
	default:
		return nil
	}
	return &Error{What: "run of values", Input: fmt.Sprintf("%d:%d", begin, end), Want: want}
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
	return ValueMesh[T]{layout{region: r}, values}.Compress(), nil
}

// Region returns the region of the values.
func (m ValueMesh[T]) Region() Region { return m.layout.region }

// Extent is the shape of that.
func (m ValueMesh[T]) Extent() Extent { return m.layout.region.Extent() }

// Len is the number of values.
func (m ValueMesh[T]) Len() int { return m.layout.count(len(m.values)) }

// count is the number of ranks, with so many values.
func (l *layout) count(values int) int {
	if len(l.runs) > 0 {
		return l.runs[len(l.runs)-1].end
	}
	return values
}

// run is the run that a rank is in.
func (l *layout) run(rank int) int {
	return sort.Search(len(l.runs), func(i int) bool { return l.runs[i].end > rank })
}

// place is the place of a rank's value.
func (l *layout) place(rank int) int {
	if len(l.runs) > 0 {
		return int(l.runs[l.run(rank)].value)
	}
	return rank
}

// At is the value at a rank of the region; false when there is no such rank.
func (m ValueMesh[T]) At(rank int) (T, bool) {
	if rank < 0 || rank >= m.Len() {
		var zero T
		return zero, false
	}
	return m.values[m.layout.place(rank)], true
}

// Values are all values in rank order. The slice may be shared: read it only. A run-length mesh
// makes a new one at each call.
func (m ValueMesh[T]) Values() []T {
	if len(m.layout.runs) == 0 {
		return m.values
	}
	values := make([]T, 0, m.Len())
	for _, r := range m.layout.runs {
		for len(values) < r.end {
			values = append(values, m.values[r.value])
		}
	}
	return values
}

// All yields every value with its point in the region.
func (m ValueMesh[T]) All() iter.Seq2[Point, T] {
	return func(yield func(Point, T) bool) {
		e, runs := m.Extent(), m.layout.runs
		for rank := range m.Len() {
			place := rank
			if len(runs) > 0 {
				place = int(runs[0].value)
				if rank == runs[0].end-1 {
					runs = runs[1:]
				}
			}
			if !yield(Point{rank, e}, m.values[place]) {
				return
			}
		}
	}
}

// Runs yields the values as runs, in order and without gaps. Adjacent equal values are one run.
// Incomparable values are never equal, but a given run stays one.
func (m ValueMesh[T]) Runs() iter.Seq[Run[T]] {
	return func(yield func(Run[T]) bool) {
		begin := 0
		for r := range m.layout.runsOf(comparerOf(m.values)) {
			if !yield(Run[T]{begin, r.end, m.values[r.value]}) {
				return
			}
			begin = r.end
		}
	}
}

// Map applies f to every value.
func Map[T, U any](m ValueMesh[T], f func(Point, T) U) ValueMesh[U] {
	out := ValueMesh[U]{layout{region: m.layout.region}, make([]U, 0, m.Len())}
	for p, v := range m.All() {
		out.values = append(out.values, f(p, v))
	}
	return out
}

// MapValues applies f to every value, once for all ranks that share one in a run-length mesh: such
// a mesh stays one.
func MapValues[T, U any](m ValueMesh[T], f func(T) U) ValueMesh[U] {
	values := make([]U, len(m.values))
	for i, v := range m.values {
		values[i] = f(v)
	}
	out := ValueMesh[U]{m.layout, values}
	if len(m.layout.runs) == 0 {
		return out
	}
	return repack(out)
}
