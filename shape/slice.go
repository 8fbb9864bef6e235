package shape

import "iter"

// Slice is the values of a part of the mesh's region; the part keeps its own view ranks. A
// run-length mesh stays one, at a cost of its runs, not of its ranks.
func (m ValueMesh[T]) Slice(part Region) (ValueMesh[T], error) {
	packed, places, err := m.layout.slice(part, comparerOf(m.values))
	if err != nil {
		return ValueMesh[T]{}, err
	}
	if places == nil {
		return pick(m.values, packed), nil
	}
	values := make([]T, 0, part.NumRanks())
	for place := range places {
		values = append(values, m.values[place])
	}
	return ValueMesh[T]{layout{region: part}, values}.Compress(), nil
}

// slice slices a run-length mesh by its runs. For a list, and for a part without even steps, it
// returns the place of each rank of the part instead.
func (l *layout) slice(part Region, c comparer) (packed, iter.Seq[int], error) {
	if err := part.SubsetOf(l.region); err != nil {
		return packed{}, nil, err
	}
	in, even := part.latticeIn(l.region)
	if len(l.runs) > 0 && even {
		s := runSlicer{*l, newPacker(c)}
		s.add(in.start, in.dims, in.rankSpan(), part.NumRanks())
		return s.packer.build(part), nil, nil
	}
	if l.count(c.count) == 0 {
		return packed{}, nil, &Error{What: "part of a mesh", Input: part.String(), Want: "a mesh with values"}
	}
	return packed{}, func(yield func(int) bool) {
		for _, base := range part.Ranks() {
			view, _ := l.region.ViewRank(base)
			if !yield(l.place(view)) {
				return
			}
		}
	}, nil
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
