package cast

import (
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
	gens   []run // the generations of the procs that are asked; 0 behind the last
	skip   ranks // nobody waits for them
	arity  int
	apex   bool // the first host folds for all the others, and home gets one value
}

// node folds for the ranks from first up to end: those below are its own host's.
type node struct{ first, below, end int }

// path are the nodes from home to the host of a rank; nil for one that is skipped.
func (t tree) path(view int) (nodes []node) {
	if t.skip.contains(view) {
		return nil
	}
	lo, hi := 0, t.region.NumRanks()
	if t.apex {
		first := t.skip.after(0)
		top := node{first, min(t.hostEnd(first), hi), hi}
		if nodes = append(nodes, top); view < top.below {
			return nodes
		}
		lo = top.below
	}
	for lo < hi {
		n := t.under(lo, hi, view)
		nodes = append(nodes, n)
		if view < n.below {
			break
		}
		lo, hi = n.below, n.end
	}
	return nodes
}

// under is, of the nodes that ranks from lo up to hi are cut into, the one with a rank in it.
func (t tree) under(lo, hi, view int) node {
	size := (hi - lo + t.arity - 1) / t.arity
	i := (view - lo) / size
	for i > 0 && view < t.cut(lo, hi, i*size) {
		i--
	}
	first, end := t.skip.after(t.cut(lo, hi, i*size)), t.cut(lo, hi, (i+1)*size)
	return node{first, min(t.hostEnd(first), end), end}
}

// cut is the end of the host that is cut through so many ranks behind lo.
func (t tree) cut(lo, hi, by int) int {
	if by == 0 || lo+by >= hi {
		return lo + min(by, hi-lo)
	}
	return min(t.hostEnd(lo+by-1), hi)
}

// nodes are those that ranks from lo up to hi are cut into.
func (t tree) nodes(lo, hi int) (all []node) {
	for view := lo; view < hi; {
		n := t.under(lo, hi, view)
		if view = n.end; n.first < n.end {
			all = append(all, n)
		}
	}
	return all
}

// roots are the nodes that answer home.
func (t tree) roots(m mode) (all []node) {
	end := t.region.NumRanks()
	switch {
	case m == modeCollect: // each host does
		for first := t.skip.after(0); first < end; {
			below := t.hostEnd(first)
			all = append(all, node{first, below, below})
			first = t.skip.after(below)
		}
		return all
	case t.apex:
		first := t.skip.after(0)
		return []node{{first, t.hostEnd(first), end}}
	}
	return t.nodes(0, end)
}

// below are the first ranks of processes that answer to a node: the others of its host, and the nodes under it.
func (t tree) below(n node) (views []int) {
	for view := t.skip.after(t.processEnd(n.first)); view < n.below; view = t.skip.after(t.processEnd(view)) {
		views = append(views, view)
	}
	for _, under := range t.nodes(n.below, n.end) {
		views = append(views, under.first)
	}
	return views
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

// of are the ranks that are lost with a proc: with the first of a process, all that are in it. With one of a
// later generation those are over, too, that had its rank before; what ends before the one that is asked is
// nothing to this cast (CAST-10).
func (t tree) of(id subjects.ProcID) span {
	if id.Mesh != t.place.Mesh {
		return span{}
	}
	most := max(t.place.PerProcess, 1)
	if id.Seat > 0 {
		most = 1
	}
	for rank := int(id.Rank); rank < int(id.Rank)+most; rank++ {
		view, in := t.region.ViewRank(rank)
		switch {
		case !in:
		case id.Gen < genAt(t.gens, view):
			return span{}
		case id.Seat > 0:
			return span{view, 1}
		default:
			return span{view, t.processEnd(view) - view}
		}
	}
	return span{}
}

// proc is who is asked for a rank.
func (t tree) proc(view int) subjects.ProcID {
	id := t.place.Proc(t.base(view))
	id.Gen = genAt(t.gens, view)
	return id
}

// folder is who folds at a rank: the process that it is in.
func (t tree) folder(view int) subjects.ProcID { return t.proc(view).Lead() }
