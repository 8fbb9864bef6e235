package cast

import (
	"sort"

	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// defaultArity limits the hosts that answer to one host.
const defaultArity = 16

// tree is the way home of a cast with folded answers. It is a pure function of the header:
// every process computes the same one.
//
//	home ◀─ at most arity nodes ◀─ at most arity under each ◀─ …
//
// A node is a host. It folds for itself and for the adjacent ranks behind its own, which other
// hosts fold under it. So adjacent folds are always in rank order (CAST-5).
type tree struct {
	placement  Placement
	region     shape.Region
	gens       runs        // the generations of the procs that are asked; 0 behind the last
	skip       shape.Ranks // not waited for
	arity      int
	singleRoot bool // the first host folds for all the others, and home gets one value
}

// node folds for the ranks from first up to end: those below are its own host's.
type node struct{ first, below, end int }

// path are the nodes from the caller to the host of a rank; nil for a skipped rank.
func (t tree) path(view int) (nodes []node) {
	if t.skip.Contains(view) {
		return nil
	}
	lo, hi := 0, t.region.NumRanks()
	if t.singleRoot {
		first := t.skip.FirstAbsent(0)
		top := node{first, min(t.hostEnd(first), hi), hi}
		nodes = append(nodes, top)
		if view < top.below {
			return nodes
		}
		lo = top.below
	}
	for lo < hi {
		n := t.nodeOf(lo, hi, view)
		nodes = append(nodes, n)
		if view < n.below {
			break
		}
		lo, hi = n.below, n.end
	}
	return nodes
}

// nodeOf is the node with a rank, of the nodes that the ranks from lo up to hi are divided into.
func (t tree) nodeOf(lo, hi, view int) node {
	size := (hi - lo + t.arity - 1) / t.arity
	i := (view - lo) / size
	for i > 0 && view < t.hostBoundary(lo, hi, i*size) {
		i--
	}
	first, end := t.skip.FirstAbsent(t.hostBoundary(lo, hi, i*size)), t.hostBoundary(lo, hi, (i+1)*size)
	return node{first, min(t.hostEnd(first), end), end}
}

// hostBoundary is the end of the host at the given number of ranks behind lo.
func (t tree) hostBoundary(lo, hi, by int) int {
	if by == 0 || lo+by >= hi {
		return lo + min(by, hi-lo)
	}
	return min(t.hostEnd(lo+by-1), hi)
}

// nodes are the nodes that the ranks from lo up to hi are divided into.
func (t tree) nodes(lo, hi int) (all []node) {
	for view := lo; view < hi; {
		n := t.nodeOf(lo, hi, view)
		view = n.end
		if n.first < n.end {
			all = append(all, n)
		}
	}
	return all
}

// roots are the nodes that answer to the caller.
func (t tree) roots(m mode) (all []node) {
	end := t.region.NumRanks()
	if m == modeCollect { // each host does
		for first := t.skip.FirstAbsent(0); first < end; {
			below := t.hostEnd(first)
			all = append(all, node{first, below, below})
			first = t.skip.FirstAbsent(below)
		}
		return all
	}
	if t.singleRoot {
		first := t.skip.FirstAbsent(0)
		return []node{{first, t.hostEnd(first), end}}
	}
	return t.nodes(0, end)
}

// childProcesses are the first ranks of processes that answer to a node: the others of its host,
// and the nodes under it.
func (t tree) childProcesses(n node) (views []int) {
	next := func(view int) int { return t.skip.FirstAbsent(t.processEnd(view)) }
	for view := next(n.first); view < n.below; view = next(view) {
		views = append(views, view)
	}
	for _, under := range t.nodes(n.below, n.end) {
		views = append(views, under.first)
	}
	return views
}

// hostEnd is the first rank behind those of a rank's host.
func (t tree) hostEnd(view int) int { return t.endOf(view, t.placement.hostOf, t.placement.PerHost) }

// processStart is the first rank of a rank's process.
func (t tree) processStart(view int) int {
	process := t.placement.processOf(t.base(view))
	for view > 0 && t.placement.processOf(t.base(view-1)) == process {
		view--
	}
	return view
}

// processEnd is the first rank behind those of a rank's process.
func (t tree) processEnd(view int) int {
	return t.endOf(view, t.placement.processOf, t.placement.PerProcess)
}

// endOf is the first rank behind those in the same place. A region keeps the order of the mesh
// (SHP-1), and at most the given number of its ranks are in one place.
func (t tree) endOf(view int, of func(base int) int, most int) int {
	here := of(t.base(view))
	return view + sort.Search(min(max(most, 1), t.region.NumRanks()-view), func(i int) bool {
		return of(t.base(view+i)) != here
	})
}

// base is the base rank of a rank of the region.
func (t tree) base(view int) int {
	base, err := t.region.BaseRank(view)
	if err != nil {
		return 0 // of a rank outside of the region: never asked for
	}
	return base
}

// ranksLostWith are the ranks lost with a proc: for the first proc of a process, all in the
// process. The end of another generation than the addressed one has no effect on this cast
// (CAST-10).
func (t tree) ranksLostWith(id subjects.ProcID) shape.RankRun {
	return t.ranksOf(id, func(asked uint32) bool { return asked == id.Gen })
}

// before are the ranks of this cast whose procs are over because a later one runs.
func (t tree) before(later subjects.ProcID) shape.RankRun {
	return t.ranksOf(later, func(asked uint32) bool { return asked < later.Gen })
}

func (t tree) ranksOf(id subjects.ProcID, asks func(gen uint32) bool) shape.RankRun {
	if id.Mesh != t.placement.Mesh {
		return shape.RankRun{}
	}
	most := max(t.placement.PerProcess, 1)
	if id.Index > 0 {
		most = 1
	}
	for rank := int(id.Rank); rank < int(id.Rank)+most; rank++ {
		view, in := t.region.ViewRank(rank)
		switch {
		case !in:
		case !asks(genAt(t.gens, view)):
			return shape.RankRun{}
		case id.Index > 0:
			return shape.RankRun{First: view, Count: 1}
		default:
			return shape.RankRun{First: view, Count: t.processEnd(view) - view}
		}
	}
	return shape.RankRun{}
}

// proc is the addressed proc of a rank.
func (t tree) proc(view int) subjects.ProcID {
	id := t.placement.Proc(t.base(view))
	id.Gen = genAt(t.gens, view)
	return id
}

// aggregatorAt is the folding proc at a rank: the first of its process.
func (t tree) aggregatorAt(view int) subjects.ProcID { return t.proc(view).Lead() }
