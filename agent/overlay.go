package agent

import (
	"maps"
	"slices"
)

// Run is one status for Count ranks from First.
type Run struct {
	First  int    `cbor:"1,keyasint" json:"first"`
	Count  int    `cbor:"2,keyasint" json:"count"`
	Status Status `cbor:"3,keyasint" json:"status"`
}

// end is the first rank behind the run.
func (r Run) end() int { return r.First + r.Count }

// from is the part of a run from a rank on.
func (r Run) from(rank int) Run {
	first := max(r.First, rank)
	return Run{first, r.end() - first, r.Status}
}

// Overlay is the status of some ranks as ascending runs without overlap. Adjacent ranks of equal
// status share a run, so ten thousand running procs take one entry.
type Overlay []Run

// OverlayOf builds an overlay from statuses by rank.
func OverlayOf(by map[int]Status) (o Overlay) {
	for _, rank := range slices.Sorted(maps.Keys(by)) {
		o = o.appendRun(Run{rank, 1, by[rank]})
	}
	return o
}

// appendRun appends a run, or makes the last one longer.
func (o Overlay) appendRun(r Run) Overlay {
	if last := len(o) - 1; last >= 0 && o[last].end() == r.First && o[last].Status == r.Status {
		o[last].Count += r.Count
		return o
	}
	return append(o, r)
}

// Merge returns the union of two overlays. Of two statuses of a rank, the more advanced one wins
// (AGT-12). Its cost depends on the runs, not on the ranks that a remote overlay claims to cover.
func (o Overlay) Merge(other Overlay) Overlay {
	var out Overlay
	for at := 0; ; at = out[len(out)-1].end() {
		o, other = o.dropBefore(at), other.dropBefore(at)
		switch {
		case len(o) == 0 && len(other) == 0:
			return out
		case len(other) == 0:
			out = out.appendRun(o[0].from(at))
		case len(o) == 0:
			out = out.appendRun(other[0].from(at))
		default:
			out = out.appendRun(firstPiece(o[0].from(at), other[0].from(at)))
		}
	}
}

// dropBefore drops the runs that end before a rank, and empty ones.
func (o Overlay) dropBefore(rank int) Overlay {
	for len(o) > 0 && (o[0].Count <= 0 || o[0].end() <= rank) {
		o = o[1:]
	}
	return o
}

// firstPiece returns the first piece of the union of two runs.
func firstPiece(a, b Run) Run {
	if b.First < a.First {
		a, b = b, a
	}
	end := b.First
	if a.First == b.First {
		end = min(a.end(), b.end())
		if b.Status.compare(a.Status) > 0 {
			a = b
		}
	}
	a.Count = min(a.end(), end) - a.First
	return a
}

// Shift returns the overlay with each rank increased by an offset.
func (o Overlay) Shift(by int) Overlay {
	out := slices.Clone(o)
	for i := range out {
		out[i].First += by
	}
	return out
}

// Each calls f for every rank below limit, in order.
func (o Overlay) Each(limit int, f func(rank int, s Status)) {
	for _, run := range o {
		for r := max(run.First, 0); r < limit && r-run.First < run.Count; r++ {
			f(r, run.Status)
		}
	}
}
