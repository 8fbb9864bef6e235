package cast

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// Throttle configures a cast in batches: each waits for the answers of the one before it. The zero
// Throttle is one batch of all ranks.
type Throttle struct {
	Batch     int           // ranks in a batch at most; 0: any number
	PerHost   int           // ranks of one host in a batch at most; 0: any number
	OnePer    string        // a dimension: of ranks with the same index there, one in a batch at most; "": any number
	Pause     time.Duration // between batches
	Timeout   time.Duration // time of a batch, after which silent ranks are missing; 0: 30 s
	Canary    bool          // the first batch is one rank, which must answer with a value before others are asked
	StopAfter int           // failed and missing ranks after which no batch follows; 0: no limit
	Percent   float64       // of the ranks of the region, rounded up, that are asked; 0: all
	Seed      uint64        // the same seed draws the same ranks; a larger Percent adds to them
}

// Err reports invalid fields.
func (t Throttle) Err() error {
	for _, bad := range []struct {
		is   bool
		text string
	}{
		{t.Batch < 0, fmt.Sprintf("a batch of %d: want 0 or more", t.Batch)},
		{t.PerHost < 0, fmt.Sprintf("%d per host: want 0 or more", t.PerHost)},
		{t.Pause < 0, fmt.Sprintf("a pause of %s: want 0 or more", t.Pause)},
		{t.Timeout < 0, fmt.Sprintf("a timeout of %s: want 0 or more", t.Timeout)},
		{t.StopAfter < 0, fmt.Sprintf("stop after %d: want 0 or more", t.StopAfter)},
		{!(t.Percent >= 0 && t.Percent <= 100), fmt.Sprintf("a sample of %v%%: want 0 to 100", t.Percent)},
	} {
		if bad.is {
			return &actor.Error{Code: actor.CodeInvalid, Text: "throttle: " + bad.text}
		}
	}
	return nil
}

// ThrottledMesh is a Mesh for casts in batches.
type ThrottledMesh[A any] struct {
	Mesh[A]
	throttle Throttle
}

// ErrNotAsked is reported for ranks that a throttled cast did not reach before it stopped.
var ErrNotAsked = errors.New("not asked")

// Throttled makes the waiting verbs cast to a mesh in batches:
//
//	slow := cast.Throttled(workers, cast.Throttle{Batch: 8, PerHost: 1, Canary: true, StopAfter: 3})
//	all, err := cast.Gather(ctx, slow, restart, now)
//
// When the throttle or the end of ctx stops the cast, the remaining ranks are NotAsked in the
// coverage, and Stream yields them with ErrNotAsked. Ranks left out by Percent are not in the
// coverage: Batches lists the others. Gather has zero values for both. Reduce and Aggregate fold at
// the caller. A deadline of ctx covers all batches; without one each batch has its own. Send, which
// waits for nothing, is refused; Choose picks among the ranks that Percent keeps.
//
// Each batch is cast to parts of the region; a handler sees its point in such a part.
func Throttled[A any](m Mesh[A], t Throttle) ThrottledMesh[A] { return ThrottledMesh[A]{m, t} }

// Target is that of the mesh; its error may be the throttle's.
func (m ThrottledMesh[A]) Target() (Target, error) {
	if err := m.throttle.Err(); err != nil {
		return Target{}, err
	}
	t, err := m.Mesh.Target()
	if err == nil {
		err = m.throttle.checkDim(t.Placement.Extent)
	}
	return t, err
}

// checkDim refuses a dimension that the mesh does not have.
func (t Throttle) checkDim(e shape.Extent) error {
	if t.OnePer == "" || t.dim(e) >= 0 {
		return nil
	}
	var labels []string
	for _, d := range e.Dims() {
		labels = append(labels, d.Label)
	}
	return &actor.Error{Code: actor.CodeInvalid, Text: fmt.Sprintf(
		"throttle: one per %q: want a dimension of the mesh: %s", t.OnePer, strings.Join(labels, ", "))}
}

// dim is the dimension of OnePer; negative when there is none.
func (t Throttle) dim(e shape.Extent) int {
	return slices.IndexFunc(e.Dims(), func(d shape.Dim) bool { return d.Label == t.OnePer })
}

// Batches are the ranks of the region in the order of a complete cast, batch by batch. It sends
// nothing.
func (m ThrottledMesh[A]) Batches() ([][]int, error) {
	t, err := m.Target()
	if err != nil {
		return nil, err
	}
	if err := t.validate(); err != nil {
		return nil, err
	}
	return m.throttle.plan(t.Placement, t.Region), nil
}

func (m ThrottledMesh[A]) throttled() Throttle { return m.throttle }

// throttleOf is the throttle of a mesh that has one.
func throttleOf[A any](m Mesh[A]) (Throttle, bool) {
	t, ok := m.(interface{ throttled() Throttle })
	if !ok {
		return Throttle{}, false
	}
	return t.throttled(), true
}

// sample is the ranks of a region that Percent keeps, ascending: those with the smallest lots. A
// rank's lot comes from the seed and its place in the whole mesh.
func (t Throttle) sample(r shape.Region) []int {
	type lot struct {
		rank int
		drew uint64
	}
	lots := make([]lot, 0, r.NumRanks())
	for rank, base := range r.Ranks() {
		lots = append(lots, lot{rank, rand.NewPCG(t.Seed, uint64(base)).Uint64()})
	}
	if t.Percent > 0 {
		slices.SortFunc(lots, func(a, b lot) int { return cmp.Or(cmp.Compare(a.drew, b.drew), cmp.Compare(a.rank, b.rank)) })
		const rounding = 1e-9 // of the product: 0.07 % of 10,000 are 7
		lots = lots[:max(1, int(math.Ceil(float64(len(lots))*t.Percent/100-rounding)))]
	}
	out := make([]int, len(lots))
	for i, l := range lots {
		out[i] = l.rank
	}
	slices.Sort(out)
	return out
}

// timeout is how long a batch may take.
func (t Throttle) timeout() time.Duration { return cmp.Or(t.Timeout, actor.DefaultDeadline) }

// stopReason is the reason to stop after these batches and failures; nil: continue.
func (t Throttle) stopReason(batches, failures int, last error) error {
	if t.Canary && batches == 1 && failures > 0 {
		return fmt.Errorf("the canary failed: %w", last)
	}
	if t.StopAfter > 0 && failures >= t.StopAfter {
		return fmt.Errorf("stopped after %d failures, the last: %w", failures, last)
	}
	return nil
}
