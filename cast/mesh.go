package cast

import (
	"context"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Mesh is a region of an actor mesh whose actors are of Go type A. Package mesh implements it.
type Mesh[A any] interface {
	// Target returns the recipients of a cast; every verb returns its error.
	Target() (Target, error)
	// Ref addresses one rank of the region.
	Ref(rank int) actor.Ref[A]
}

// Target is the destination of a cast.
type Target struct {
	Via       *actor.Proc // sender for code that is not an actor; nil: there is none
	Placement Placement
	Actor     string // the name that the actors of the mesh share
	Region    shape.Region
	// Resolve learns in the sender's proc which procs hold the ranks; nil: they are known.
	Resolve func(sender *actor.Proc)

	selected shape.Ranks       // of the region; none: all
	throttle *Throttle         // nil: all are asked at once
	progress *progressCallback // nil: no progress is reported
}

// meshWith is a mesh with an option for its casts.
type meshWith[A any] struct {
	Mesh[A]
	option func(*Target) error
}

// Target returns the target of the mesh, with the option.
func (m meshWith[A]) Target() (Target, error) {
	t, err := m.Mesh.Target()
	if err == nil {
		err = m.option(&t)
	}
	return t, err
}

// Select makes the verbs cast to some ranks of a mesh. The selection may be a union, which takes
// one cast and has one coverage:
//
//	s, err := shape.ParseSelection(counters.Extent(), "host=0 | gpu=3")
//	all, err := cast.Gather(ctx, cast.Select(counters, s), add, 1)
//
// Each rank keeps its number and its point in the mesh. Gather has zero values for other ranks. A
// Selection of a selected mesh keeps the ranks that are in both.
func Select[A any](m Mesh[A], s shape.Selection) Mesh[A] {
	return meshWith[A]{m, func(t *Target) error {
		if e := t.Region.Extent(); !s.Extent().Equal(e) {
			return t.invalid(fmt.Sprintf("a selection of %s: want one of %s", s.Extent(), e))
		}
		some := t.ranks()
		var selected shape.RanksWriter
		for rank := range s.Ranks() {
			if some.Contains(rank) {
				selected.Add(rank, 1)
			}
		}
		t.selected = selected.Ranks()
		if t.selected.IsEmpty() {
			return t.invalid("the selection has no ranks")
		}
		return nil
	}}
}

// First makes the verbs cast to the lowest index along a dimension that has a rank in the cast.
// Each point of the dimensions before it has its own. So First of a union by "gpu" is one rank on
// each host, and First of that by "host" is one rank.
func First[A any](m Mesh[A], label string) Mesh[A] {
	return meshWith[A]{m, func(t *Target) error {
		dims := t.Region.Extent().Dims()
		at := slices.IndexFunc(dims, func(d shape.Dim) bool { return d.Label == label })
		if at < 0 {
			return t.invalid(fmt.Sprintf("first of %q: want a dimension of %s", label, t.Region.Extent()))
		}
		inner := 1 // ranks of each index
		for _, d := range dims[at+1:] {
			inner *= d.Size
		}
		var first shape.RanksWriter
		lowest := map[int]int{} // by the point before the dimension
		for rank := range t.ranks().All() {
			before, index := rank/(inner*dims[at].Size), rank/inner%dims[at].Size
			if low, known := lowest[before]; known && low != index {
				continue
			}
			lowest[before] = index // ranks ascend
			first.Add(rank, 1)
		}
		t.selected = first.Ranks()
		return nil
	}}
}

// sender is the actor of ctx, else the client of Via. It knows the holders of the ranks.
func (t Target) sender(ctx context.Context) (p *actor.Proc, name string, err error) {
	p, name, err = actor.Sender(ctx, t.Via)
	if p == nil {
		err = &actor.Error{Code: actor.CodeInvalid,
			Text: "no sender: cast from an actor's handler, or bind the mesh with Via"}
	}
	if err == nil && t.Resolve != nil {
		t.Resolve(p)
	}
	return p, name, err
}

// ranks are the ranks of the region that the cast is for.
func (t Target) ranks() shape.Ranks {
	if !t.selected.IsEmpty() {
		return t.selected
	}
	return shape.Interval(0, t.Region.NumRanks())
}

// batches are the ranks of each batch, in order.
func (t Target) batches() []shape.Ranks {
	if t.throttle == nil {
		return []shape.Ranks{t.ranks()}
	}
	var all []shape.Ranks
	for _, batch := range t.throttle.plan(t) {
		all = append(all, shape.RanksOf(slices.Values(batch)))
	}
	return all
}

// invalid is the error of a target that cannot be cast to.
func (t Target) invalid(text string) error {
	return &actor.Error{Code: actor.CodeInvalid,
		Text: fmt.Sprintf("cast to %s on %s: %s", t.Actor, t.Placement.Mesh, text)}
}

// MaxRanks bounds the ranks of a cast, because its caller keeps the fate of each.
const MaxRanks = 1 << 20

// validate refuses a region that is empty or leaves the mesh.
func (t Target) validate() error {
	n := t.Region.NumRanks()
	place := t.Placement
	text := "the region has no ranks"
	switch {
	case place.PerProcess > 1 && place.PerHost%place.PerProcess != 0:
		text = fmt.Sprintf("a host of %d ranks in processes of %d: want whole processes", place.PerHost,
			place.PerProcess)
	case n > MaxRanks:
		text = fmt.Sprintf("region %s has %d ranks: want at most %d", t.Region, n, MaxRanks)
	case n > 0:
		last, err := t.Region.BaseRank(n - 1) // the highest
		if err == nil && last < t.Placement.Extent.NumRanks() {
			return nil
		}
		text = fmt.Sprintf("region %s is not in the mesh's extent %s", t.Region, t.Placement.Extent)
	}
	return t.invalid(text)
}

// Placement maps ranks to procs and their processes.
type Placement struct {
	Mesh       subjects.MeshID
	Extent     shape.Extent // of the whole proc mesh
	PerHost    int          // host h holds the ranks from h*PerHost up to (h+1)*PerHost
	PerProcess int          // adjacent ranks in one OS process; 0 and 1: one
}

// Proc is the proc at a base rank.
func (p Placement) Proc(rank int) subjects.ProcID {
	return subjects.ProcID{Mesh: p.Mesh, Rank: uint32(rank), Index: uint32(rank - p.processOf(rank))}
}

// hostOf is the host of a base rank.
func (p Placement) hostOf(rank int) int { return rank / max(p.PerHost, 1) }

// processOf is the first rank in the process of a base rank.
func (p Placement) processOf(rank int) int { return rank - rank%max(p.PerProcess, 1) }
