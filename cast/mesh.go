package cast

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Mesh is a region of an actor mesh whose actors are of Go type A. Package mesh implements it.
type Mesh[A any] interface {
	// Target says whom a cast reaches; its error is returned by every verb.
	Target() (Target, error)
	// Ref addresses one rank of the region.
	Ref(rank int) actor.Ref[A]
}

// Target is where a cast goes.
type Target struct {
	Via       *actor.Proc // speaks for code that is not an actor
	Placement Placement
	Actor     string // the name that the actors of the mesh share
	Region    shape.Region
}

// check refuses a region that is empty or leaves the mesh.
func (t Target) check() error {
	n := t.Region.NumRanks()
	text := "the region has no ranks"
	if n > 0 {
		last, err := t.Region.BaseRank(n - 1) // the highest
		if err == nil && last < t.Placement.Extent.NumRanks() {
			return nil
		}
		text = fmt.Sprintf("region %s is not in the mesh's extent %s", t.Region, t.Placement.Extent)
	}
	return &actor.Error{Code: actor.CodeInvalid, Text: fmt.Sprintf("cast to %s on %s: %s", t.Actor, t.Placement.Mesh, text)}
}

// Placement says which proc is which rank, and where it runs.
type Placement struct {
	Mesh    subjects.MeshID
	Extent  shape.Extent // of the whole proc mesh
	PerHost int          // host h holds the ranks from h*PerHost up to (h+1)*PerHost
}

// Proc is the proc at a base rank.
func (p Placement) Proc(rank int) subjects.ProcID {
	return subjects.ProcID{Mesh: p.Mesh, Rank: uint32(rank)}
}

// view finds a proc in a region of its mesh; false when it is none of its ranks.
func (p Placement) view(r shape.Region, id subjects.ProcID) (int, bool) {
	if id.Mesh != p.Mesh || id.Gen != 0 {
		return 0, false
	}
	return r.ViewRank(int(id.Rank))
}

// host is the host of a base rank.
func (p Placement) host(rank int) int { return rank / max(p.PerHost, 1) }

// maxWhereDims is how many dimensions a `<where>` token spells out; the region in the frame
// selects along the others. Each dimension doubles a member's subscriptions.
const maxWhereDims = 4

// whereDims are the positions of the dimensions a token speaks of: those with more than one
// index, the first four.
func whereDims(e shape.Extent) []int {
	var at []int
	for i, d := range e.Dims() {
		if d.Size > 1 && len(at) < maxWhereDims {
			at = append(at, i)
		}
	}
	return at
}

// free stands for every index of a dimension.
const free = "_"

// wherePlan is the token whose subscribers are the fewest that include the whole region: an index
// for each dimension the region fixes, free for the others.
func wherePlan(e shape.Extent, r shape.Region) (string, error) {
	first, err := r.BaseRank(0)
	if err != nil {
		return "", err
	}
	at, err := e.Point(first)
	if err != nil {
		return "", err
	}
	sizes := map[string]int{}
	for _, d := range r.Extent().Dims() {
		sizes[d.Label] = d.Size
	}
	var tokens []string
	for _, i := range whereDims(e) {
		token := free
		if sizes[e.Dims()[i].Label] == 1 {
			token = strconv.Itoa(at.Coords()[i])
		}
		tokens = append(tokens, token)
	}
	return joinWhere(tokens), nil
}

// whereTokens are the tokens a member at a point subscribes: every combination of its own index
// and free.
func whereTokens(e shape.Extent, at shape.Point) []string {
	dims := whereDims(e)
	tokens := make([]string, 0, 1<<len(dims))
	for mask := range 1 << len(dims) {
		parts := make([]string, len(dims))
		for k, i := range dims {
			parts[k] = free
			if mask&(1<<k) != 0 {
				parts[k] = strconv.Itoa(at.Coords()[i])
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
