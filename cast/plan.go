package cast

import (
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// What a cast costs, in units of one packet that reaches one process. What BenchmarkPlan measures, and why a
// publish and a packet for one process count more here, is in docs/decisions/0019.
const (
	costDelivery = 1
	costPublish  = 4
	costDirect   = 4 // a packet for one process alone, and its delivery
)

// maxWhereDims is how many dimensions a `<where>` token spells out; the region in the header selects along
// the others. Each dimension doubles a member's subscriptions.
const maxWhereDims = 4

// free stands for every index of a dimension.
const free = "_"

// whereDims are the positions of the dimensions a token speaks of: those with more than one index, the
// first four.
func whereDims(e shape.Extent) []int {
	var at []int
	for i, d := range e.Dims() {
		if d.Size > 1 && len(at) < maxWhereDims {
			at = append(at, i)
		}
	}
	return at
}

// whereTokens are the tokens a member at a point subscribes: every combination of its own index and free.
func whereTokens(e shape.Extent, at shape.Point) []string {
	dims, coords := whereDims(e), at.Coords()
	tokens := make([]string, 0, 1<<len(dims))
	for mask := range 1 << len(dims) {
		parts := make([]string, len(dims))
		for k, i := range dims {
			parts[k] = free
			if mask&(1<<k) != 0 {
				parts[k] = strconv.Itoa(coords[i])
			}
		}
		tokens = append(tokens, joinWhere(parts))
	}
	return tokens
}

func joinWhere(parts []string) string {
	if len(parts) == 0 {
		return free
	}
	return strings.Join(parts, "-")
}

// plan says how a cast reaches a region: by publishes to tokens, each member by one of them, or, when
// spell is nil, to each process alone.
type plan struct {
	extent shape.Extent
	spell  []bool // of the dimensions of a token: it is spelled out
}

// planFor is the cheapest way to a number of processes. A dimension that the region fixes is spelled out;
// one that it takes in part may be free, and reaches some in vain, or spelled out index by index.
func planFor(place Placement, r shape.Region, processes int) plan {
	e := place.Extent
	dims, sizes := whereDims(e), map[string]int{}
	for _, d := range r.Extent().Dims() {
		sizes[d.Label] = d.Size
	}
	all := e.Dims()
	stride := func(i int) int { // ranks that share an index, in a row
		n := 1
		for _, d := range all[i+1:] {
			n *= d.Size
		}
		return n
	}
	best, cost := plan{extent: e}, costDirect*processes
	for mask := range 1 << len(dims) {
		p := plan{extent: e, spell: make([]bool, len(dims))}
		publishes, reached, ok := 1, e.NumRanks(), true
		for k, i := range dims {
			size := sizes[all[i].Label]
			p.spell[k] = mask&(1<<k) != 0
			switch {
			case size == 1 && !p.spell[k], size == all[i].Size && p.spell[k]:
				ok = false // never better
			case p.spell[k]:
				// A process must not be reached twice.
				ok = ok && (size == 1 || stride(i)%max(place.PerProcess, 1) == 0)
				publishes *= size
				reached = reached / all[i].Size * size
			}
		}
		reached = max(reached/max(place.PerProcess, 1), processes)
		if c := publishes*costPublish + reached*costDelivery; ok && c < cost {
			best, cost = p, c
		}
	}
	return best
}

// direct reports whether each process is told alone.
func (p plan) direct() bool { return p.spell == nil }

// where is the token by which a member is reached.
func (p plan) where(base int) string {
	var coords []int
	if slices.Contains(p.spell, true) {
		if at, err := p.extent.Point(base); err == nil {
			coords = at.Coords()
		}
	}
	parts := make([]string, len(p.spell))
	for k, i := range whereDims(p.extent) {
		parts[k] = free
		if p.spell[k] && coords != nil {
			parts[k] = strconv.Itoa(coords[i])
		}
	}
	return joinWhere(parts)
}

// member is a process with ranks in a cast: the first of them, in the region and in the mesh.
type member struct {
	view, base int
	id         subjects.ProcID
}

// deliveries are the members that each packet is for.
func (p plan) deliveries(members []member) (all [][]member) {
	if len(members) == 0 {
		return nil
	}
	if p.direct() || !slices.Contains(p.spell, true) {
		return [][]member{members}
	}
	index := map[string]int{}
	for _, m := range members {
		where := p.where(m.base)
		i, known := index[where]
		if !known {
			i, index[where] = len(all), len(all)
			all = append(all, nil)
		}
		all[i] = append(all[i], m)
	}
	return all
}
