package shape

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
)

// ValueOverlay is values for some ranks, as ordered runs without overlap. Each run has a
// generation: where two overlays have the same rank, the higher generation wins, not the later
// arrival. It is a plain slice for encoders; its receivers check it. A nil one is empty.
type ValueOverlay[T any] []OverlayRun[T]

// OverlayRun is one value, of one generation, for the ranks from Begin up to before End.
type OverlayRun[T any] struct {
	Begin      uint64 `cbor:"1,keyasint" json:"begin"`
	End        uint64 `cbor:"2,keyasint" json:"end"`
	Generation uint64 `cbor:"3,keyasint,omitempty" json:"generation,omitempty"`
	Value      T      `cbor:"4,keyasint" json:"value"`
}

// OverlayOf is the overlay of runs in any order. Overlapping runs merge as in Merge. An empty run
// is an error.
func OverlayOf[T any](compare func(a, b T) int, runs ...OverlayRun[T]) (ValueOverlay[T], error) {
	for i := range runs {
		if err := ValueOverlay[T](runs[i : i+1]).Check(); err != nil {
			return nil, err
		}
	}
	sorted := slices.Clone(runs)
	slices.SortFunc(sorted, func(a, b OverlayRun[T]) int { return cmp.Compare(a.Begin, b.Begin) })
	return overlayOf(sorted, compare), nil
}

// overlayOf halves runs that are in order until none overlap, and merges the halves.
func overlayOf[T any](sorted ValueOverlay[T], compare func(a, b T) int) ValueOverlay[T] {
	if sorted.Check() == nil {
		return merge(sorted, nil, compare)
	}
	half := len(sorted) / 2
	return merge(overlayOf(sorted[:half], compare), overlayOf(sorted[half:], compare), compare)
}

// Check returns the error in the runs; nil when they are valid.
func (o ValueOverlay[T]) Check() error {
	end := uint64(0)
	for i, r := range o {
		want := ""
		if r.End <= r.Begin {
			want = "an end after the begin"
		} else if i > 0 && r.Begin < end {
			want = fmt.Sprintf("a begin of at least %d, where the run before ends", end)
		}
		if want != "" {
			return &Error{What: "run of an overlay", Input: fmt.Sprintf("%d:%d", r.Begin, r.End), Want: want}
		}
		end = r.End
	}
	return nil
}

// Merge is the union of both. Of two values for a rank the higher generation wins; in one
// generation, the value that compares higher. The order and the repetition of merges do not matter
// (SHP-9). Adjacent runs of equal value and generation become one.
//
// The comparison must be a total order, in which only equal values compare as 0.
func (o ValueOverlay[T]) Merge(other ValueOverlay[T], compare func(a, b T) int) (ValueOverlay[T], error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := other.Check(); err != nil {
		return nil, err
	}
	return merge(o, other, compare), nil
}

func merge[T any](a, b ValueOverlay[T], compare func(a, b T) int) ValueOverlay[T] {
	var out ValueOverlay[T]
	for at := uint64(0); ; at = out[len(out)-1].End {
		a, b = a.dropBefore(at), b.dropBefore(at)
		var run OverlayRun[T]
		switch {
		case len(a) == 0 && len(b) == 0:
			return out
		case len(b) == 0:
			run = a[0]
		case len(a) == 0:
			run = b[0]
		default:
			run = firstPiece(a[0], b[0], at, compare)
		}
		run.Begin = max(run.Begin, at)
		out = out.appendRun(run, compare)
	}
}

// dropBefore drops the runs that end before a rank.
func (o ValueOverlay[T]) dropBefore(at uint64) ValueOverlay[T] {
	for len(o) > 0 && o[0].End <= at {
		o = o[1:]
	}
	return o
}

// firstPiece is the first piece, from a rank on, of what two runs say together.
func firstPiece[T any](a, b OverlayRun[T], at uint64, compare func(a, b T) int) OverlayRun[T] {
	a.Begin, b.Begin = max(a.Begin, at), max(b.Begin, at)
	if b.Begin < a.Begin {
		a, b = b, a
	}
	if a.Begin < b.Begin {
		a.End = min(a.End, b.Begin)
		return a
	}
	end := min(a.End, b.End)
	if b.Generation > a.Generation || b.Generation == a.Generation && compare(b.Value, a.Value) > 0 {
		a = b
	}
	a.End = end
	return a
}

// appendRun appends a run, or makes the last one longer.
func (o ValueOverlay[T]) appendRun(run OverlayRun[T], compare func(a, b T) int) ValueOverlay[T] {
	if n := len(o); n > 0 {
		last := &o[n-1]
		if last.End == run.Begin && last.Generation == run.Generation && compare(last.Value, run.Value) == 0 {
			last.End = run.End
			return o
		}
	}
	return append(o, run)
}

// At is the value and the generation of a rank; false when the overlay does not speak of it.
func (o ValueOverlay[T]) At(rank uint64) (value T, generation uint64, ok bool) {
	i := sort.Search(len(o), func(i int) bool { return o[i].End > rank })
	if i == len(o) || o[i].Begin > rank {
		return value, 0, false
	}
	return o[i].Value, o[i].Generation, true
}

// Ranks is the number of ranks that the overlay speaks of.
func (o ValueOverlay[T]) Ranks() (n uint64) {
	for _, r := range o {
		n += r.End - r.Begin
	}
	return n
}

// Shift returns the overlay with every rank moved up by a number.
func (o ValueOverlay[T]) Shift(by uint64) (ValueOverlay[T], error) {
	if err := o.Check(); err != nil || len(o) == 0 {
		return nil, err
	}
	if o[len(o)-1].End > math.MaxUint64-by {
		return nil, &Error{What: "shift of an overlay", Input: strconv.FormatUint(by, 10), Want: "ranks of 64 bits"}
	}
	out := slices.Clone(o)
	for i := range out {
		out[i].Begin += by
		out[i].End += by
	}
	return out, nil
}

// Apply is a mesh with the values of the overlay in the place of its own. A run beyond the last
// rank of the mesh is an error.
func (o ValueOverlay[T]) Apply(m ValueMesh[T]) (ValueMesh[T], error) {
	if err := o.Check(); err != nil || len(o) == 0 {
		return m, err
	}
	if last := o[len(o)-1]; last.End > uint64(m.Len()) {
		return m, &Error{What: "run of an overlay", Input: fmt.Sprintf("%d:%d", last.Begin, last.End),
			Want: fmt.Sprintf("an end of at most %d, the ranks of the mesh", m.Len())}
	}
	if len(m.layout.runs) == 0 {
		values := slices.Clone(m.values)
		for _, r := range o {
			for i := r.Begin; i < r.End; i++ {
				values[i] = r.Value
			}
		}
		return ValueMesh[T]{layout{region: m.layout.region}, values}.Compress(), nil
	}
	values := slices.Clone(m.values)
	for _, r := range o {
		values = append(values, r.Value)
	}
	p := newPacker(comparerOf(values))
	for i, r := range o {
		m.layout.copyTo(p, int(r.Begin))
		p.fillTo(int(r.End), len(m.values)+i)
	}
	m.layout.copyTo(p, m.Len())
	return pick(values, p.build(m.layout.region)), nil
}

// copyTo packs the runs of a layout from where the packer is up to before a rank.
func (l *layout) copyTo(p *packer, end int) {
	for p.end() < end {
		r := l.runs[l.run(p.end())]
		p.fillTo(min(end, r.end), int(r.value))
	}
}
