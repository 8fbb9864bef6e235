package shape

import (
	"iter"
	"reflect"
)

// Compress is the mesh in whichever form takes less memory. It is idempotent.
func (m ValueMesh[T]) Compress() ValueMesh[T] {
	if len(m.layout.runs) > 0 { // pick has chosen the form
		return m
	}
	return repack(m)
}

// repack chooses the form again.
func repack[T any](m ValueMesh[T]) ValueMesh[T] {
	packed := m.layout.compress(comparerOf(m.values))
	if packed.asList && len(m.layout.runs) == 0 {
		return m
	}
	return pick(m.values, packed)
}

// comparer is the part of a list of values that their packing needs.
type comparer struct {
	count int
	size  uint64              // of a value, without what it refers to
	same  func(i, j int) bool // an incomparable value equals nothing
	key   func(i int) any     // a value that equals itself
}

// comparerOf compares values by ==. It checks them first if they may be incomparable.
func comparerOf[T any](values []T) comparer {
	t := reflect.TypeFor[T]()
	c := comparer{count: len(values), size: uint64(max(1, t.Size()))} // values without size still cost time
	c.key = func(i int) any { return values[i] }
	switch {
	case !t.Comparable():
		c.same = func(int, int) bool { return false }
	case holdsInterface(t):
		c.same = func(i, j int) bool {
			a, b := &values[i], &values[j]
			return reflect.ValueOf(a).Elem().Comparable() && reflect.ValueOf(b).Elem().Comparable() &&
				any(*a) == any(*b)
		}
	default:
		c.same = func(i, j int) bool { return any(values[i]) == any(values[j]) }
	}
	return c
}

// runsOf yields the runs of a layout's values, with the place of each value. Adjacent equal values
// of a list are one run.
func (l *layout) runsOf(c comparer) iter.Seq[tableRun] {
	return func(yield func(tableRun) bool) {
		for _, r := range l.runs {
			if !yield(r) {
				return
			}
		}
		if len(l.runs) > 0 {
			return
		}
		begin := 0
		for end := 1; end <= c.count; end++ {
			if end < c.count && c.same(begin, end) {
				continue
			}
			if !yield(tableRun{end, uint32(begin)}) {
				return
			}
			begin = end
		}
	}
}

// compress packs the values of a layout.
func (l *layout) compress(c comparer) packed {
	if len(l.runs) == 0 {
		runs := 0
		for range l.runsOf(c) {
			runs++
			if c.runsSize(runs, 1) >= c.listSize(c.count) {
				return packed{asList: true}
			}
		}
	}
	p := newPacker(c)
	for r := range l.runsOf(c) {
		p.fillTo(r.end, int(r.value))
	}
	return p.build(l.region)
}

// listSize and runsSize are what the two forms take, without what the values refer to.
func (c comparer) listSize(n int) uint64 { return uint64(n) * c.size }

func (c comparer) runsSize(runs, values int) uint64 {
	return uint64(runs)*uint64(reflect.TypeFor[tableRun]().Size()) + c.listSize(values)
}

// packer makes the run-length form from the places of values in rank order.
type packer struct {
	comparer
	table   []int // places
	runs    []tableRun
	indexOf map[any]uint32 // of values in the table
}

func newPacker(c comparer) *packer { return &packer{comparer: c, indexOf: map[any]uint32{}} }

func (p *packer) end() int {
	if len(p.runs) == 0 {
		return 0
	}
	return p.runs[len(p.runs)-1].end
}

// fillTo gives the value of a place to the ranks from the end of the last run up to before another.
func (p *packer) fillTo(end, place int) {
	last := len(p.runs) - 1
	switch {
	case end <= p.end():
	case last >= 0 && p.same(p.table[p.runs[last].value], place):
		p.runs[last].end = end
	default:
		p.runs = append(p.runs, tableRun{end, p.tableIndex(place)})
	}
}

// tableIndex finds a value in the table, or adds it.
func (p *packer) tableIndex(place int) uint32 {
	at := uint32(len(p.table))
	if p.same(place, place) { // neither NaN nor what cannot be a key
		if known, ok := p.indexOf[p.key(place)]; ok {
			return known
		}
		p.indexOf[p.key(place)] = at
	}
	p.table = append(p.table, place)
	return at
}

// packed is a layout with the places of the values in its table.
type packed struct {
	layout
	table  []int
	asList bool // a list takes less memory
}

// build is the layout of what was packed.
func (p *packer) build(r Region) packed {
	asList := p.runsSize(len(p.runs), len(p.table)) >= p.listSize(p.end())
	return packed{layout{r, p.runs}, p.table, asList}
}

// pick is the mesh of a packed layout, in the smaller form.
func pick[T any](values []T, p packed) ValueMesh[T] {
	m := ValueMesh[T]{p.layout, make([]T, len(p.table))}
	for i, place := range p.table {
		m.values[i] = values[place]
	}
	if p.asList {
		return ValueMesh[T]{layout{region: p.region}, m.Values()}
	}
	return m
}

// holdsInterface reports whether a value of a comparable type may hold one of another type.
func holdsInterface(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Array:
		return holdsInterface(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsInterface(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}
