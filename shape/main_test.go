package shape_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var labels = []string{"host", "gpu", "z", "x-1"}

// genExtent draws an extent of 0 to 4 small dimensions.
var genExtent = rapid.Custom(func(t *rapid.T) shape.Extent {
	e := shape.Unit()
	for _, label := range labels[:rapid.IntRange(0, len(labels)).Draw(t, "dims")] {
		e = e.With(label, rapid.IntRange(1, 5).Draw(t, label))
	}
	return e
})

// genLong draws an extent of few dimensions, long enough for steps.
var genLong = rapid.Custom(func(t *rapid.T) shape.Extent {
	e := shape.Of("host", rapid.IntRange(4, 20).Draw(t, "host"))
	if rapid.Bool().Draw(t, "two") {
		e = e.With("gpu", rapid.IntRange(4, 9).Draw(t, "gpu"))
	}
	return e
})

// genAny draws either.
var genAny = rapid.OneOf(genExtent, genLong)

// dumb is the oracle of a region: every rank spelled out, with its coordinates in the region and
// its base rank.
type dumb struct {
	dims  []shape.Dim
	ranks []place
}

type place struct {
	coords []int
	base   int
}

// dumbOf counts through an extent the way an odometer does.
func dumbOf(e shape.Extent) dumb {
	d := dumb{dims: e.Dims(), ranks: []place{{}}}
	for _, dim := range d.dims {
		var longer []place
		for _, p := range d.ranks {
			for c := range dim.Size {
				longer = append(longer, place{coords: append(append([]int{}, p.coords...), c)})
			}
		}
		d.ranks = longer
	}
	for i := range d.ranks {
		d.ranks[i].base = i
	}
	return d
}

// slice keeps the places with the coordinates begin, begin+step, … below end, and renumbers them.
func (d dumb) slice(at, begin, end, step int) dumb {
	out := dumb{dims: append([]shape.Dim{}, d.dims...)}
	seen := map[int]bool{}
	for _, p := range d.ranks {
		for i, c := 0, begin; c < end; i, c = i+1, c+step {
			if p.coords[at] == c {
				coords := append([]int{}, p.coords...)
				coords[at] = i
				seen[i] = true
				out.ranks = append(out.ranks, place{coords, p.base})
			}
		}
	}
	out.dims[at].Size = len(seen)
	return out
}

// requireSame compares every reading of a region with the oracle.
func requireSame(t require.TestingT, want dumb, got shape.Region, baseRanks int) {
	require.NoError(t, got.Err())
	require.Equal(t, len(want.ranks), got.NumRanks())
	require.ElementsMatch(t, want.dims, got.Extent().Dims())
	require.Equal(t, fmt.Sprint(want.dims), fmt.Sprint(got.Extent().Dims()))
	views := map[int]int{}
	for view, p := range want.ranks {
		base, err := got.BaseRank(view)
		require.NoError(t, err)
		require.Equal(t, p.base, base)
		rank, err := got.Extent().Rank(p.coords...)
		require.NoError(t, err)
		require.Equal(t, view, rank)
		views[base] = view
	}
	for base := -2; base < baseRanks+2; base++ {
		want, in := views[base]
		view, ok := got.ViewRank(base)
		require.Equal(t, in, ok, "base rank %d of %s", base, got)
		require.Equal(t, in, got.Contains(base))
		if in {
			require.Equal(t, want, view)
		}
	}
	next := 0
	for view, base := range got.Ranks() {
		require.Equal(t, next, view)
		require.Equal(t, want.ranks[view].base, base)
		next++
	}
	require.Equal(t, len(want.ranks), next)
	for _, outside := range []int{-1, len(want.ranks)} {
		_, err := got.BaseRank(outside)
		require.ErrorAs(t, err, new(*shape.Error))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// drop removes a dimension of size 1.
func (d dumb) drop(at int) dumb {
	out := dumb{dims: slices.Delete(slices.Clone(d.dims), at, at+1)}
	for _, p := range d.ranks {
		out.ranks = append(out.ranks, place{slices.Delete(slices.Clone(p.coords), at, at+1), p.base})
	}
	return out
}

// bases lists the base ranks in order.
func (d dumb) bases() []int {
	out := []int{}
	for _, p := range d.ranks {
		out = append(out, p.base)
	}
	return out
}

// genCut draws a region from a few cuts of an extent, and its oracle.
func genCut(t *rapid.T, e shape.Extent) (dumb, shape.Region) {
	want, got := dumbOf(e), e.Region()
	for range rapid.IntRange(0, 4).Draw(t, "cuts") {
		if len(want.dims) == 0 {
			break
		}
		at := rapid.IntRange(0, len(want.dims)-1).Draw(t, "dim")
		label, size := want.dims[at].Label, want.dims[at].Size
		begin := rapid.IntRange(0, size-1).Draw(t, "begin")
		var err error
		switch rapid.IntRange(0, 5).Draw(t, "how") {
		case 0:
			want = want.slice(at, begin, begin+1, 1)
			got, err = got.Index(label, begin)
		case 1:
			want = want.slice(at, begin, begin+1, 1).drop(at)
			got, err = got.At(label, begin)
		default:
			end, step := rapid.IntRange(begin+1, size+3).Draw(t, "end"), rapid.IntRange(1, 4).Draw(t, "step")
			want = want.slice(at, begin, end, step)
			got, err = got.SliceStep(label, begin, end, step)
		}
		require.NoError(t, err)
	}
	return want, got
}
