package cast

import "github.com/castnet-io/castnet/mesh/shape"

// plan says which ranks of a region are asked, batch by batch, ascending. Each is in the first batch that has
// room for it.
func (t Throttle) plan(p Placement, r shape.Region) [][]int {
	left := t.sample(r)
	f := packing{most: t.Batch, from: map[lane]int{}, count: map[bay]int{}}
	if t.Canary {
		f.batches, f.open, left = append(f.batches, left[:1]), 1, left[1:]
	}
	dim, size, stride := t.dim(p.Extent), 1, 1
	for i, d := range p.Extent.Dims() {
		switch {
		case i == dim:
			size = d.Size
		case i > dim:
			stride *= d.Size
		}
	}
	for _, rank := range left {
		base, _ := r.BaseRank(rank) // it is one of the region's
		var lanes []lane
		if t.PerHost > 0 {
			lanes = append(lanes, lane{host: true, n: p.host(base), most: t.PerHost})
		}
		if dim >= 0 {
			lanes = append(lanes, lane{n: base / stride % size, most: 1})
		}
		f.put(rank, lanes)
	}
	return f.batches
}

// lane is a host, or an index of a dimension, so many ranks of which may be in one batch.
type lane struct {
	host    bool
	n, most int
}

// bay is a lane in a batch.
type bay struct {
	lane
	batch int
}

// packing is batches that are being filled. It looks at few of those that have no room for a rank: time goes with
// the ranks, and not with ranks times batches.
type packing struct {
	most    int // ranks in a batch; 0: any number
	batches [][]int
	open    int          // the first batch that is not full
	from    map[lane]int // the first batch in which a lane is not full
	count   map[bay]int  // of lanes that are not full
}

// put puts a rank into the first batch that has room in each of its lanes.
func (f *packing) put(rank int, lanes []lane) {
	at := f.open
	for _, l := range lanes {
		at = max(at, f.from[l])
	}
	for at < len(f.batches) && !f.room(at, lanes) {
		at++
	}
	if at == len(f.batches) {
		f.batches = append(f.batches, nil)
	}
	f.batches[at] = append(f.batches[at], rank)
	for f.most > 0 && f.open < len(f.batches) && len(f.batches[f.open]) == f.most {
		f.open++
	}
	for _, l := range lanes {
		f.count[bay{l, at}]++
		for f.count[bay{l, f.from[l]}] == l.most {
			delete(f.count, bay{l, f.from[l]})
			f.from[l]++
		}
	}
}

// room reports whether a batch, which no lane begins behind, has room.
func (f *packing) room(at int, lanes []lane) bool {
	if f.most > 0 && len(f.batches[at]) == f.most {
		return false
	}
	for _, l := range lanes {
		if f.count[bay{l, at}] == l.most {
			return false
		}
	}
	return true
}
