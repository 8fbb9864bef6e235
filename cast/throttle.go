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
	BatchSize int // ranks in a batch at most; 0: any number
	PerHost   int // ranks of one host in a batch at most; 0: any number
	// a dimension: of ranks with the same index there, one in a batch at most; "": any number
	OnePer     string
	BatchDelay time.Duration // between batches
	Timeout    time.Duration // time of a batch, after which silent ranks are missing; 0: 30 s
	// the first batch is one rank, which must answer with a value before others are asked
	Canary        bool
	MaxFailures   int     // failed and missing ranks after which no batch follows; 0: no limit
	SamplePercent float64 // of the ranks of the region, rounded up, that are asked; 0: all
	Seed          uint64  // the same seed draws the same ranks; a larger SamplePercent adds to them
}

// Err reports invalid fields.
func (t Throttle) Err() error {
	for _, bad := range []struct {
		is   bool
		text string
	}{
		{t.BatchSize < 0, fmt.Sprintf("a batch of %d: want 0 or more", t.BatchSize)},
		{t.PerHost < 0, fmt.Sprintf("%d per host: want 0 or more", t.PerHost)},
		{t.BatchDelay < 0, fmt.Sprintf("a batch delay of %s: want 0 or more", t.BatchDelay)},
		{t.Timeout < 0, fmt.Sprintf("a timeout of %s: want 0 or more", t.Timeout)},
		{t.MaxFailures < 0, fmt.Sprintf("max failures %d: want 0 or more", t.MaxFailures)},
		{!(t.SamplePercent >= 0 && t.SamplePercent <= 100),
			fmt.Sprintf("a sample of %v%%: want 0 to 100", t.SamplePercent)},
	} {
		if bad.is {
			return &actor.Error{Code: actor.CodeInvalid, Text: "throttle: " + bad.text}
		}
	}
	return nil
}

// ThrottledMesh is a Mesh for casts in batches.
type ThrottledMesh[A any] struct{ meshWith[A] }

// ErrNotAsked is reported for ranks that a throttled cast did not reach before it stopped.
var ErrNotAsked = errors.New("not asked")

// Throttled makes the waiting verbs cast to a mesh in batches:
//
//	slow := cast.Throttled(workers, cast.Throttle{BatchSize: 8, Canary: true, MaxFailures: 3})
//	all, err := cast.Gather(ctx, slow, restart, now)
//
// When the throttle or the end of ctx stops the cast, the remaining ranks are NotAsked in the
// coverage, and Stream yields them with ErrNotAsked. Ranks left out by SamplePercent are not in the
// coverage: Batches lists the others. Gather has zero values for both. Reduce and Aggregate fold at
// the caller. A deadline of ctx covers all batches; without one each batch has its own. Send, which
// waits for nothing, is refused; Choose picks among the ranks that SamplePercent keeps.
func Throttled[A any](m Mesh[A], t Throttle) ThrottledMesh[A] {
	return ThrottledMesh[A]{meshWith[A]{m, func(to *Target) error {
		if err := t.Err(); err != nil {
			return err
		}
		to.throttle = &t
		return t.checkDim(to.Placement.Extent)
	}}}
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
	return t.throttle.plan(t), nil
}

// sample is the ranks of a target that SamplePercent keeps, ascending: those with the smallest lots.
// A rank's lot comes from the seed and its place in the whole mesh.
func (t Throttle) sample(to Target) []int {
	type lot struct {
		rank int
		drew uint64
	}
	lots := make([]lot, 0, to.ranks().Len())
	for rank := range to.ranks().All() {
		base, _ := to.Region.BaseRank(rank) // it is one of the region's
		lots = append(lots, lot{rank, rand.NewPCG(t.Seed, uint64(base)).Uint64()})
	}
	if t.SamplePercent > 0 {
		slices.SortFunc(lots, func(a, b lot) int {
			return cmp.Or(cmp.Compare(a.drew, b.drew),
				cmp.Compare(a.rank, b.rank))
		})
		const rounding = 1e-9 // of the product: 0.07 % of 10,000 are 7
		lots = lots[:max(1, int(math.Ceil(float64(len(lots))*t.SamplePercent/100-rounding)))]
	}
	out := make([]int, len(lots))
	for i, l := range lots {
		out[i] = l.rank
	}
	slices.Sort(out)
	return out
}

// plan lists the ranks of a target batch by batch, ascending. Each is in the first batch with room
// for it.
func (t Throttle) plan(to Target) [][]int {
	p := to.Placement
	left := t.sample(to)
	f := batchPacker{max: t.BatchSize, firstOpenFor: map[batchLimit]int{}, used: map[limitInBatch]int{}}
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
		base, _ := to.Region.BaseRank(rank) // it is one of the region's
		var limits []batchLimit
		if t.PerHost > 0 {
			limits = append(limits, batchLimit{host: true, n: p.hostOf(base), max: t.PerHost})
		}
		if dim >= 0 {
			limits = append(limits, batchLimit{n: base / stride % size, max: 1})
		}
		f.put(rank, limits)
	}
	return f.batches
}

// batchLimit is a host, or an index of a dimension, with a limit of ranks per batch.
type batchLimit struct {
	host   bool
	n, max int
}

// limitInBatch is a limit in one batch.
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
	firstOpenFor map[batchLimit]int   // the first batch in which a limit is not reached
	used         map[limitInBatch]int // of limits that are not reached
}

// put puts a rank into the first batch within each of its limits.
func (f *batchPacker) put(rank int, limits []batchLimit) {
	at := f.firstOpen
	for _, l := range limits {
		at = max(at, f.firstOpenFor[l])
	}
	for at < len(f.batches) && !f.hasRoom(at, limits) {
		at++
	}
	if at == len(f.batches) {
		f.batches = append(f.batches, nil)
	}
	f.batches[at] = append(f.batches[at], rank)
	for f.max > 0 && f.firstOpen < len(f.batches) && len(f.batches[f.firstOpen]) == f.max {
		f.firstOpen++
	}
	for _, l := range limits {
		f.used[limitInBatch{l, at}]++
		for f.used[limitInBatch{l, f.firstOpenFor[l]}] == l.max {
			delete(f.used, limitInBatch{l, f.firstOpenFor[l]})
			f.firstOpenFor[l]++
		}
	}
}

// hasRoom reports whether a batch has room; the first open batch of each limit is not behind it.
func (f *batchPacker) hasRoom(at int, limits []batchLimit) bool {
	if f.max > 0 && len(f.batches[at]) == f.max {
		return false
	}
	for _, l := range limits {
		if f.used[limitInBatch{l, at}] == l.max {
			return false
		}
	}
	return true
}

// timeout is the time limit of a batch.
func (t Throttle) timeout() time.Duration { return cmp.Or(t.Timeout, actor.DefaultDeadline) }

// stopReason is the reason to stop after these batches and failures; nil: continue.
func (t Throttle) stopReason(batches, failures int, last error) error {
	if t.Canary && batches == 1 && failures > 0 {
		return fmt.Errorf("the canary failed: %w", last)
	}
	if t.MaxFailures > 0 && failures >= t.MaxFailures {
		return fmt.Errorf("stopped after %d failures, the last: %w", failures, last)
	}
	return nil
}
