package cast

import (
	"slices"
	"sort"

	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// defaultArity is how many hosts answer to one at most.
const defaultArity = 16

// tree is the way home of a cast whose answers fold. It is a pure function of what the cast's header
// says, so that everybody on the way knows it without a word:
//
//	home ◀─ at most arity nodes ◀─ at most arity under each ◀─ …
//
// A node is a host; it folds for itself and for a run of ranks right behind its own, which other hosts
// fold under it. So whatever comes together is in rank order (CAST-5).
type tree struct {
	place  Placement
	region shape.Region
	skip   ranks // nobody waits for them
	arity  int
}

// node folds for the ranks from first up to end: those below are its own host's.
type node struct{ first, below, end int }

// split cuts ranks into nodes that answer to the same.
func (t tree) split(lo, hi int) (nodes []node) {
	lo = t.skip.after(lo)
	size := (hi - lo + t.arity - 1) / t.arity
	for lo < hi {
		end := t.hostEnd(min(lo+size, hi) - 1)
		nodes = append(nodes, node{lo, min(t.hostEnd(lo), end), min(end, hi)})
		lo = t.skip.after(end)
	}
	return nodes
}

// path are the nodes from home to the host of a rank; nil for one that is skipped.
func (t tree) path(view int) (nodes []node) {
	lo, hi := 0, t.region.NumRanks()
	for lo < hi {
		in := slices.IndexFunc(t.split(lo, hi), func(n node) bool { return n.first <= view && view < n.end })
		if in < 0 {
			return nil
		}
		n := t.split(lo, hi)[in]
		nodes = append(nodes, n)
		if view < n.below {
			return nodes
		}
		lo, hi = n.below, n.end
	}
	return nil
}

// hostEnd is the first rank behind those of a rank's host.
func (t tree) hostEnd(view int) int { return t.endOf(view, t.place.host, t.place.PerHost) }

// processEnd is the same of its process.
func (t tree) processEnd(view int) int { return t.endOf(view, t.place.process, t.place.PerProcess) }

// endOf is the first rank behind those that are in the same place. A region keeps the order of the mesh
// (SHP-2), and at most so many of it are in one place.
func (t tree) endOf(view int, of func(base int) int, most int) int {
	here := of(t.base(view))
	return view + sort.Search(min(max(most, 1), t.region.NumRanks()-view), func(i int) bool {
		return of(t.base(view+i)) != here
	})
}

// base is what a rank of the region stands for.
func (t tree) base(view int) int {
	base, err := t.region.BaseRank(view)
	if err != nil {
		return 0 // of a rank that is not in the region, which nobody asks for
	}
	return base
}

// folder is who folds at a rank: the process that it is in.
func (t tree) folder(view int) subjects.ProcID { return t.place.Proc(t.place.process(t.base(view))) }
