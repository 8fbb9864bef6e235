package shape

// Slice is the values of a part of the mesh's region; the part keeps its own view ranks. A
// run-length mesh stays one, at a cost of its runs, not of its ranks.
func (m ValueMesh[T]) Slice(part Region) (ValueMesh[T], error) {
	if err := part.SubsetOf(m.region); err != nil {
		return ValueMesh[T]{}, err
	}
	l, even := part.latticeIn(m.region)
	if len(m.runs) > 0 && even {
		s := runSlicer[T]{m: m, packer: newPacker[T]()}
		s.add(l.start, l.dims, l.rankSpan(), part.NumRanks())
		return s.packer.build(part), nil
	}
	if m.Len() == 0 {
		return ValueMesh[T]{}, &Error{What: "part of a mesh", Input: part.String(), Want: "a mesh with values"}
	}
	values := make([]T, 0, part.NumRanks())
	for _, base := range part.Ranks() {
		view, _ := m.region.ViewRank(base)
		v, _ := m.At(view)
		values = append(values, v)
	}
	return ValueMesh[T]{region: part, dense: values}.Compress(), nil
}

// runSlicer collects the runs of a lattice within a run-length mesh.
type runSlicer[T any] struct {
	m      ValueMesh[T]
	packer *packer[T]
}

// add takes the values of the ranks start + Σ index·step: count of them, up to span apart. If all
// are in one run, it takes them at once. Otherwise it goes along the slowest dimension: over
// indices with ranks in one run, or into an index with a border. The steps are at most borders
// times dimensions.
func (s runSlicer[T]) add(start int, dims []latticeDim, span, count int) {
	at := s.m.run(start)
	if start+span < s.m.runs[at].end {
		s.copyRun(at, count)
		return
	}
	d := dims[0]
	span -= (d.size - 1) * d.stride
	count /= d.size
	for i := 0; i < d.size; {
		from := start + i*d.stride
		at = s.m.run(from)
		if left := s.m.runs[at].end - from - span; left > 0 {
			whole := min(d.size-i, (left-1)/d.stride+1)
			s.copyRun(at, whole*count)
			i += whole
			continue
		}
		s.add(from, dims[1:], span, count)
		i++
	}
}

// copyRun gives the value of a run to the next ranks.
func (s runSlicer[T]) copyRun(run, count int) {
	s.packer.fillTo(s.packer.end()+count, s.m.table[s.m.runs[run].value])
}
