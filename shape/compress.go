package shape

import "reflect"

// Compress is the mesh in whichever form takes less memory. It is idempotent.
func (m ValueMesh[T]) Compress() ValueMesh[T] {
	if len(m.runs) > 0 {
		return (&packer[T]{table: m.table, runs: m.runs}).build(m.region)
	}
	runs, same := 1, equality[T]()
	for i := 1; i < len(m.dense); i++ {
		if !same(&m.dense[i-1], &m.dense[i]) {
			runs++
			if runsSize[T](runs, 1) >= denseSize[T](len(m.dense)) {
				return m
			}
		}
	}
	p := newPacker[T]()
	for run := range m.Runs() {
		p.fillTo(run.End, run.Value)
	}
	if packed := p.build(m.region); len(packed.runs) > 0 {
		return packed
	}
	return m
}

// denseSize and runsSize are what the two forms take, without what the values refer to.
func denseSize[T any](n int) uint64 {
	return uint64(n) * uint64(max(1, reflect.TypeFor[T]().Size())) // values without size still cost time
}

func runsSize[T any](runs, values int) uint64 {
	return uint64(runs)*uint64(reflect.TypeFor[tableRun]().Size()) + denseSize[T](values)
}

// packer makes the run-length form from values in rank order.
type packer[T any] struct {
	table   []T
	runs    []tableRun
	indexOf map[any]uint32 // places in the table
	same    func(a, b *T) bool
}

func newPacker[T any]() *packer[T] {
	return &packer[T]{indexOf: map[any]uint32{}, same: equality[T]()}
}

func (p *packer[T]) end() int {
	if len(p.runs) == 0 {
		return 0
	}
	return p.runs[len(p.runs)-1].end
}

// fillTo gives one value to the ranks from the end of the last run up to before another.
func (p *packer[T]) fillTo(end int, value T) {
	last := len(p.runs) - 1
	switch {
	case end <= p.end():
	case last >= 0 && p.same(&p.table[p.runs[last].value], &value):
		p.runs[last].end = end
	default:
		p.runs = append(p.runs, tableRun{end, p.tableIndex(value)})
	}
}

// tableIndex finds a value's place in the table, or makes one.
func (p *packer[T]) tableIndex(value T) uint32 {
	at := uint32(len(p.table))
	if p.same(&value, &value) { // neither NaN nor what cannot be a key
		if known, ok := p.indexOf[value]; ok {
			return known
		}
		p.indexOf[value] = at
	}
	p.table = append(p.table, value)
	return at
}

// build is the mesh of what was packed, in the smaller form.
func (p *packer[T]) build(r Region) ValueMesh[T] {
	m := ValueMesh[T]{region: r, table: p.table, runs: p.runs}
	if n := m.Len(); runsSize[T](len(p.runs), len(p.table)) >= denseSize[T](n) {
		return ValueMesh[T]{region: r, dense: m.Values()}
	}
	return m
}

// equality is == for a type. It checks the values if they may be incomparable: such a value equals
// nothing.
func equality[T any]() func(a, b *T) bool {
	t := reflect.TypeFor[T]()
	switch {
	case !t.Comparable():
		return func(*T, *T) bool { return false }
	case holdsInterface(t):
		return func(a, b *T) bool {
			return reflect.ValueOf(a).Elem().Comparable() && reflect.ValueOf(b).Elem().Comparable() &&
				any(*a) == any(*b)
		}
	}
	return func(a, b *T) bool { return any(*a) == any(*b) }
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
