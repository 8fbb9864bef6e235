package cast

import "github.com/castnet-io/castnet/shape"

// plan lists the ranks of a region batch by batch, ascending. Each is in the first batch with room
// for it.
func (t Throttle) plan(p Placement, r shape.Region) [][]int {
	left := t.sample(r)
	f := batchPacker{max: t.Batch, firstOpenFor: map[batchLimit]int{}, used: map[limitInBatch]int{}}
	if t.Canary {
		f.batches = append(f.batches, left[:1])
		f.firstOpen = 1
		left = left[1:]
	}
	dim := t.dim(p.Extent)
	size := 1
	stride := 1
	for i, d := range p.Extent.Dims() {
		if i == dim {
			size = d.Size
		} else if i > dim {
			stride *= d.Size
		}
	}
	for _, rank := range left {
		base, _ := r.BaseRank(rank) // it is one of the region's
		var lanes []batchLimit
		if t.PerHost > 0 {
			lanes = append(lanes, batchLimit{host: true, n: p.hostOf(base), max: t.PerHost})
		}
		if dim >= 0 {
			lanes = append(lanes, batchLimit{n: base / stride % size, max: 1})
		}
		f.put(rank, lanes)
	}
	return f.batches
}

// batchLimit is a host, or an index of a dimension, with a limit of ranks per batch.
type batchLimit struct {
	host   bool
	n, max int
}

// limitInBatch is a lane in a batch.
type limitInBatch struct {
	batchLimit
	batch int
}

// batchPacker fills batches. It skips most full ones: its time grows with the ranks, not with ranks
// times batches.
type batchPacker struct {
	max          int // ranks in a batch; 0: any number
	batches      [][]int
	firstOpen    int                  // the first batch that is not full
	firstOpenFor map[batchLimit]int   // the first batch in which a lane is not full
	used         map[limitInBatch]int // of lanes that are not full
}

// put puts a rank into the first batch with room in each of its lanes.
func (f *batchPacker) put(rank int, lanes []batchLimit) {
	at := f.firstOpen
	for _, l := range lanes {
		at = max(at, f.firstOpenFor[l])
	}
	for at < len(f.batches) && !f.hasRoom(at, lanes) {
		at++
	}
	if at == len(f.batches) {
		f.batches = append(f.batches, nil)
	}
	f.batches[at] = append(f.batches[at], rank)
	for f.max > 0 && f.firstOpen < len(f.batches) && len(f.batches[f.firstOpen]) == f.max {
		f.firstOpen++
	}
	for _, l := range lanes {
		f.used[limitInBatch{l, at}]++
		for f.used[limitInBatch{l, f.firstOpenFor[l]}] == l.max {
			delete(f.used, limitInBatch{l, f.firstOpenFor[l]})
			f.firstOpenFor[l]++
		}
	}
}

// hasRoom reports whether a batch has room; no lane begins behind it.
func (f *batchPacker) hasRoom(at int, lanes []batchLimit) bool {
	if f.max > 0 && len(f.batches[at]) == f.max {
		return false
	}
	for _, l := range lanes {
		if f.used[limitInBatch{l, at}] == l.max {
			return false
		}
	}
	return true
}
