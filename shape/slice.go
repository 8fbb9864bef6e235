package shape

// Slice is the values of a part of the mesh's region; the part keeps its own view ranks. A
// run-length mesh stays one, at a cost of its runs, not of its ranks.
func (m ValueMesh[T]) Slice(part Region) (ValueMesh[T], error) {
	if err := part.SubsetOf(m.region); err != nil {
		return ValueMesh[T]{}, err
	}
	if packed, ok := m.sliceRuns(part, comparerOf(m.values)); ok {
		return pick(m.values, packed), nil
	}
	if m.Len() == 0 {
		return ValueMesh[T]{}, &Error{What: "part of a mesh", Input: part.String(), Want: "a mesh with values"}
	}
	values := make([]T, 0, part.NumRanks())
	for _, base := range part.Ranks() {
		view, _ := m.region.ViewRank(base)
		values = append(values, m.values[m.place(view)])
	}
	return ValueMesh[T]{layout{region: part}, values}.Compress(), nil
}

// sliceRuns slices a run-length mesh; false if the layout is a list, or the part has no even steps.
func (l layout) sliceRuns(part Region, c comparer) (packed, bool) {
	in, even := part.latticeIn(l.region)
	if len(l.runs) == 0 || !even {
		return packed{}, false
	}
	s := runSlicer{l, newPacker(c)}
	s.add(in.start, in.dims, in.rankSpan(), part.NumRanks())
	return s.packer.build(part), true
}

// runSlicer collects the runs of a lattice within a run-length mesh.
type runSlicer struct {
	layout
	packer *packer
}

// add takes the values of the ranks start + Σ index·step: count of them, up to span apart. If all
// are in one run, it takes them at once. Otherwise it goes along the slowest dimension: over
// indices with ranks in one run, or into an index with a border. The steps are at most borders
// times dimensions.
func (s runSlicer) add(start int, dims []latticeDim, span, count int) {
	at := s.run(start)
	if start+span < s.runs[at].end {
		s.copyRun(at, count)
		return
	}
	d := dims[0]
	span -= (d.size - 1) * d.stride
	count /= d.size
	for i := 0; i < d.size; {
		from := start + i*d.stride
		at = s.run(from)
		if left := s.runs[at].end - from - span; left > 0 {
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
func (s runSlicer) copyRun(run, count int) {
	s.packer.fillTo(s.packer.end()+count, int(s.runs[run].value))
}
