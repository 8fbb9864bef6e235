package cast

import (
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Costs of a cast, in units of one packet that reaches one process. docs/decisions/0019 has the
// measurements of BenchmarkPlan, and the reasons for the weights of a publish and of a packet for
// one process.
const (
	costDelivery = 1
	costPublish  = 4
	costDirect   = 4 // a packet for one process alone, and its delivery
)

// maxWhereDims limits the dimensions of a `<where>` token; the region in the header
// selects along the others. Each dimension doubles a member's subscriptions.
const maxWhereDims = 4

// wildcard stands for every index of a dimension.
const wildcard = "_"

// whereDims are the positions of the dimensions a token speaks of: the first one, which may grow,
// and those with more than one index, at most four.
func whereDims(e shape.Extent) []int {
	var at []int
	for i, d := range e.Dims() {
		if (i == 0 || d.Size > 1) && len(at) < maxWhereDims {
			at = append(at, i)
		}
	}
	return at
}

// whereTokens are the tokens a member at a point subscribes: every combination of its own index and
// free.
func whereTokens(e shape.Extent, at shape.Point) []string {
	dims := whereDims(e)
	coords := at.Coords()
	tokens := make([]string, 0, 1<<len(dims))
	for mask := range 1 << len(dims) {
		parts := make([]string, len(dims))
		for k, i := range dims {
			parts[k] = wildcard
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
		return wildcard
	}
	return strings.Join(parts, "-")
}

// plan is the way of a cast to a region: publishes to tokens, each member by one of them, or, when
// spell is nil, one message per process.
type plan struct {
	extent     shape.Extent
	spelledOut []bool // of the dimensions of a token: it is spelled out
}

// planFor is the cheapest way to processes. A dimension with one common index is spelled out. A
// dimension with some indices is left free, and reaches some processes in vain, or is spelled out
// index by index. The plan follows the processes' places: a region need not have the dimensions of
// the mesh.
func planFor(place Placement, members []member) plan {
	e := place.Extent
	all := e.Dims()
	steps := strides(e)
	dims := whereDims(e)
	taken := make([]int, len(dims))
	for k, i := range dims {
		taken[k] = indices(members, steps[i], all[i].Size)
	}
	per := max(place.PerProcess, 1)
	best := plan{extent: e}
	cost := costDirect * len(members)
	for mask := range 1 << len(dims) {
		p := plan{extent: e, spelledOut: make([]bool, len(dims))}
		publishes := 1
		reached := max(e.NumRanks()/per, 1) // processes
		ok := true
		for k, i := range dims {
			size := taken[k]
			p.spelledOut[k] = mask&(1<<k) != 0
			if whole := size == all[i].Size; whole == p.spelledOut[k] && (whole || size == 1) {
				ok = false // never better
			} else if p.spelledOut[k] {
				// A process must not be reached twice.
				ok = ok && (size == 1 || steps[i]%per == 0)
				publishes *= size
				reached = reached * size * sharing(steps[i], all[i].Size, per) / all[i].Size
			}
		}
		reached = max(reached, len(members))
		if c := publishes*costPublish + reached*costDelivery; ok && c < cost {
			best, cost = p, c
		}
	}
	return best
}

// sharing is the number of a dimension's indices in each process; a token with one of them reaches
// the whole process.
func sharing(stride, size, per int) int {
	if stride%per == 0 {
		return 1
	}
	if per%stride == 0 && size%(per/stride) == 0 {
		return per / stride
	}
	return size // or fewer, when processes end in the midst of a row
}

// strides are, for each dimension, the adjacent ranks with the same index.
func strides(e shape.Extent) []int {
	dims := e.Dims()
	out := make([]int, len(dims))
	n := 1
	for i, d := range slices.Backward(dims) {
		out[i] = n
		n *= d.Size
	}
	return out
}

// indices counts the indices of the members in a dimension.
func indices(members []member, stride, size int) int {
	seen := map[int]bool{}
	for _, m := range members {
		seen[m.base/stride%size] = true
	}
	return len(seen)
}

// direct reports whether each process gets its own message.
func (p plan) direct() bool { return p.spelledOut == nil }

// where is the token that reaches a member.
func (p plan) where(base int) string {
	var coords []int
	if slices.Contains(p.spelledOut, true) {
		if at, err := p.extent.Point(base); err == nil {
			coords = at.Coords()
		}
	}
	parts := make([]string, len(p.spelledOut))
	for k, i := range whereDims(p.extent) {
		parts[k] = wildcard
		if p.spelledOut[k] && coords != nil {
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

// deliveries are the members of each packet.
func (p plan) deliveries(members []member) (all [][]member) {
	if len(members) == 0 {
		return nil
	}
	if p.direct() || !slices.Contains(p.spelledOut, true) {
		return [][]member{members}
	}
	index := map[string]int{}
	for _, m := range members {
		where := p.where(m.base)
		i, known := index[where]
		if !known {
			i = len(all)
			index[where] = len(all)
			all = append(all, nil)
		}
		all[i] = append(all[i], m)
	}
	return all
}
