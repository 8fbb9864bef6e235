package shape_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
)

func TestRegion_slicesOfSlicesKeepBaseRanks(t *testing.T) { // SHP-1, SHP-4
	rapid.Check(t, func(t *rapid.T) {
		e := genExtent.Draw(t, "extent")
		want, got := dumbOf(e), e.Region()
		for range rapid.IntRange(0, 5).Draw(t, "cuts") {
			if len(want.dims) == 0 {
				break
			}
			at := rapid.IntRange(0, len(want.dims)-1).Draw(t, "dim")
			label, size := want.dims[at].Label, want.dims[at].Size
			begin := rapid.IntRange(0, size-1).Draw(t, "begin")
			var err error
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				want = want.slice(at, begin, begin+1, 1)
				got, err = got.Index(label, begin)
			case 1:
				end := rapid.IntRange(begin+1, size+3).Draw(t, "end") // past the size: clipped
				want = want.slice(at, begin, end, 1)
				got, err = got.Slice(label, begin, end)
			case 2:
				end, step := rapid.IntRange(begin+1, size+3).Draw(t, "end"), rapid.IntRange(1, 4).Draw(t, "step")
				want = want.slice(at, begin, end, step)
				got, err = got.SliceStep(label, begin, end, step)
			}
			require.NoError(t, err)
		}
		requireSame(t, want, got, e.NumRanks())
		parsed := must(shape.ParseRegion(got.String()))
		require.True(t, got.Equal(parsed))
		requireSame(t, want, parsed, e.NumRanks())
		var in struct{ R shape.Region }
		require.NoError(t, json.Unmarshal(must(json.Marshal(struct{ R shape.Region }{got})), &in))
		require.True(t, got.Equal(in.R))
	})
}

func TestRegion_textIsOffsetThenSizesOverStrides(t *testing.T) {
	r := shape.Of("replica", 2).With("host", 2).Region()
	require.Equal(t, "replica=2/2,host=2/1", r.String())
	second := must(r.Index("replica", 1))
	require.Equal(t, "2+replica=1/2,host=2/1", second.String())
	require.Equal(t, "replica=1,host=2", second.Extent().String())
	require.Equal(t, "replica=2/2,host=2/1", r.String(), "slicing leaves the original alone")
	require.Equal(t, "1+x=2/3", must(shape.Of("x", 6).Region().SliceStep("x", 1, 100, 3)).String())
	require.Empty(t, shape.Unit().Region().String())
}

func TestRegion_badSlicesNameDimSizeAndInput(t *testing.T) {
	r := shape.Of("host", 2).With("gpu", 4).Region()
	slice := func(label string, begin, end, step int) error {
		_, err := r.SliceStep(label, begin, end, step)
		return err
	}
	require.EqualError(t, slice("rack", 0, 1, 1), `dimension "rack": want one of: host, gpu`)
	require.EqualError(t, slice("gpu", 4, 5, 1), `slice of gpu (size 4) "4:5:1": want a begin from 0 to 3`)
	require.EqualError(t, slice("gpu", -1, 2, 1), `slice of gpu (size 4) "-1:2:1": want a begin from 0 to 3`)
	require.EqualError(t, slice("gpu", 2, 2, 1), `slice of gpu (size 4) "2:2:1": want an end after the begin`)
	require.EqualError(t, slice("gpu", 2, -1, 1), `slice of gpu (size 4) "2:-1:1": want an end after the begin`)
	require.EqualError(t, slice("gpu", 0, 4, 0), `slice of gpu (size 4) "0:4:0": want a step of at least 1`)
	_, err := r.Index("gpu", 4)
	require.EqualError(t, err, `index of gpu "4": want 0 to 3`)
	_, err = r.Index("gpu", -1)
	require.EqualError(t, err, `index of gpu "-1": want 0 to 3`)
	_, err = shape.Unit().Region().Index("gpu", 0)
	require.EqualError(t, err, `dimension "gpu": want one of: none, it has no dimensions`)
}

func TestRegion_largestExtentDoesNotOverflow(t *testing.T) {
	r := shape.Of("a", 1).With("x", shape.MaxRanks).Region()
	require.Equal(t, "a=1/2147483647,x=2147483647/1", r.String())
	last := must(r.Index("x", shape.MaxRanks-1))
	require.Equal(t, shape.MaxRanks-1, must(last.BaseRank(0)))
	require.True(t, must(shape.ParseRegion(last.String())).Equal(last))
	ends := must(r.SliceStep("x", 0, shape.MaxRanks, shape.MaxRanks-1))
	require.Equal(t, 2, ends.NumRanks())
	require.True(t, must(shape.ParseRegion(ends.String())).Equal(ends))
	view, ok := ends.ViewRank(shape.MaxRanks - 1)
	require.True(t, ok)
	require.Equal(t, 1, view)
}

func TestParseRegion_isStrict(t *testing.T) {
	for _, text := range []string{
		"+", "0+", "0+x=2/1", "01+x=2/1", "-1+x=2/1", "1+2+x=2/1", "x", "x=2", "x=2/", "x=/1", "x=2/0", "x=0/1",
		"x=2/01", "x=2/1,", "=2/1",
		"x=2/1,x=2/4", "x=2/1,y=2/1", "x=2/2,y=3/1", "x=2/1,y=2/2", "x=2/2147483647", "2147483646+x=2/1",
		"2147483647+", "x=2/1/1", " x=2/1",
	} {
		_, err := shape.ParseRegion(text)
		require.ErrorAs(t, err, new(*shape.Error), "%q", text)
		require.ErrorContains(t, err, text)
	}
	require.Equal(t, 5, must(must(shape.ParseRegion("5+")).BaseRank(0)),
		"a point of a space without dimensions left")
	_, err := shape.ParseRegion(strings.Repeat("?", 1<<20))
	require.Less(t, len(err.Error()), 1000)
}

func FuzzParseRegion(f *testing.F) {
	for _, text := range []string{"", "5+", "2+replica=1/2,host=2/1", "1+x=2/3", "x=2/1,y=2/2", "x=2147483647/1",
		"x=46341/46341,y=46341/1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := shape.ParseRegion(text)
		var in shape.Region
		require.Equal(t, err == nil, in.UnmarshalText([]byte(text)) == nil)
		if err != nil {
			return
		}
		require.Equal(t, text, r.String())
		require.True(t, r.Equal(in))
		n := r.NumRanks()
		for _, view := range []int{0, 1, n / 3, n / 2, n - 1} {
			if view >= n {
				continue
			}
			base, err := r.BaseRank(view)
			require.NoError(t, err)
			require.Less(t, base, shape.MaxRanks)
			back, ok := r.ViewRank(base) // SHP-1
			require.True(t, ok)
			require.Equal(t, view, back)
		}
	})
}
