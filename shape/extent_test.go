package shape_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
)

func TestExtent_ranksAreRowMajor(t *testing.T) { // SHP-1
	rapid.Check(t, func(t *rapid.T) {
		e := genExtent.Draw(t, "extent")
		want := dumbOf(e)
		require.Equal(t, len(want.ranks), e.NumRanks())
		next := 0
		for p := range e.Points() {
			require.Equal(t, next, p.Rank())
			require.Equal(t, append([]int{}, want.ranks[next].coords...), p.Coords())
			require.Equal(t, p, must(e.Point(next)))
			require.Equal(t, next, must(e.Rank(p.Coords()...)))
			for i, d := range e.Dims() {
				c, ok := p.Coord(d.Label)
				require.True(t, ok)
				require.Equal(t, p.Coords()[i], c)
			}
			require.True(t, e.Equal(p.Extent()))
			next++
		}
		require.Equal(t, e.NumRanks(), next)
		requireSame(t, want, e.Region(), e.NumRanks())
	})
}

func TestExtent_iterationStopsWhenAsked(t *testing.T) {
	for p := range shape.Of("x", 3).Points() {
		require.Zero(t, p.Rank())
		break
	}
	for view := range shape.Of("x", 3).Region().Ranks() {
		require.Zero(t, view)
		break
	}
}

func TestExtent_unitHasOneRankAndNoText(t *testing.T) {
	require.Equal(t, 1, shape.Unit().NumRanks())
	require.True(t, shape.Unit().Equal(shape.Extent{}))
	require.Empty(t, shape.Unit().String())
	require.Zero(t, must(shape.Unit().Rank()))
	p := must(shape.Unit().Point(0))
	require.Empty(t, p.String())
	require.Equal(t, shape.Point{}, p)
	_, ok := p.Coord("x")
	require.False(t, ok)
}

func TestExtent_textRoundTrips(t *testing.T) { // SHP-4
	e := shape.Of("host", 2).With("gpu", 4)
	require.Equal(t, "host=2,gpu=4", e.String())
	require.Equal(t, "host=1/2,gpu=3/4", must(e.Point(7)).String())
	rapid.Check(t, func(t *rapid.T) {
		e := genExtent.Draw(t, "extent")
		got := must(shape.ParseExtent(e.String()))
		require.True(t, e.Equal(got))
		var in struct{ E shape.Extent }
		require.NoError(t, json.Unmarshal(must(json.Marshal(struct{ E shape.Extent }{e})), &in))
		require.True(t, e.Equal(in.E))
	})
}

func TestExtent_equalIsByDimensionsInOrder(t *testing.T) {
	ab := shape.Of("a", 2).With("b", 3)
	require.True(t, ab.Equal(must(shape.ParseExtent("a=2,b=3"))))
	require.False(t, ab.Equal(shape.Of("b", 3).With("a", 2)))
	require.False(t, ab.Equal(shape.Of("a", 2)))
	require.False(t, shape.Of("", 1).Equal(shape.Of("", 1)), "broken extents equal nothing")
}

func TestExtent_withDoesNotChangeTheOriginal(t *testing.T) {
	base := shape.Of("a", 2).With("b", 2).With("c", 2)
	left, right := base.With("l", 3), base.With("r", 5)
	require.Equal(t, "a=2,b=2,c=2", base.String())
	require.Equal(t, "a=2,b=2,c=2,l=3", left.String())
	require.Equal(t, "a=2,b=2,c=2,r=5", right.String())
	dims := base.Dims()
	dims[0].Size = 99
	require.Equal(t, "a=2,b=2,c=2", base.String())
}

func TestExtent_concatNamesTheSharedLabel(t *testing.T) {
	e := must(shape.Of("host", 2).Concat(shape.Of("gpu", 4).With("z", 1)))
	require.Equal(t, "host=2,gpu=4,z=1", e.String())
	require.True(t, e.Equal(must(shape.Unit().Concat(e))))
	require.True(t, e.Equal(must(e.Concat(shape.Unit()))))
	_, err := e.Concat(shape.Of("gpu", 2))
	require.EqualError(t, err, `dimension "gpu": want a label that is not in host=2,gpu=4,z=1 yet`)
	_, err = e.Concat(shape.Of("a.b", 2))
	require.ErrorContains(t, err, "a.b")
	_, err = shape.Of("a.b", 2).Concat(e)
	require.ErrorContains(t, err, "a.b")
}

func TestExtent_concatAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genExtent.Draw(t, "extent")
		var a, b shape.Extent
		at := rapid.IntRange(0, len(e.Dims())).Draw(t, "cut")
		for i, d := range e.Dims() {
			if i < at {
				a = a.With(d.Label, d.Size)
			} else {
				b = b.With(d.Label, d.Size)
			}
		}
		whole := must(a.Concat(b))
		requireSame(t, dumbOf(e), whole.Region(), e.NumRanks())
		for p := range a.Points() {
			for q := range b.Points() {
				require.Equal(t, p.Rank()*b.NumRanks()+q.Rank(), must(whole.Rank(append(p.Coords(), q.Coords()...)...)))
			}
		}
		_, err := whole.Concat(b)
		require.Equal(t, len(b.Dims()) == 0, err == nil)
	})
}

func TestExtent_badPartsReturnNamedErrors(t *testing.T) {
	many := shape.Unit()
	for i := range shape.MaxDims {
		many = many.With(string(rune('a'+i)), 1)
	}
	require.NoError(t, many.Err())
	for want, e := range map[string]shape.Extent{
		`dimension "a.b": want 1 to 32 characters`:                          shape.Of("a.b", 1),
		`dimension "": want 1 to 32 characters`:                             shape.Of("", 1),
		`size of dimension x "0": want at least 1`:                          shape.Of("x", 0),
		`size of dimension x "-3": want at least 1`:                         shape.Of("x", -3),
		`dimension "x": want a label that is not in x=2 yet`:                shape.Of("x", 2).With("x", 2),
		`size of dimension y "2": want at most 2147483647 ranks`:            shape.Of("x", 1<<30).With("y", 2),
		`size of dimension x "9223372036854775807": want at most 214748364`: shape.Of("x", math.MaxInt),
		`dimension "z": want at most 16 dimensions`:                         many.With("z", 1),
	} {
		require.ErrorContains(t, e.Err(), want)
		require.ErrorAs(t, e.Err(), new(*shape.Error))
		requireBroken(t, e)
		requireBroken(t, e.With("later", 2))
	}
	require.Equal(t, shape.MaxRanks, shape.Of("x", shape.MaxRanks).With("y", 1).NumRanks())
}

// requireBroken calls every method of an extent with an error.
func requireBroken(t *testing.T, e shape.Extent) {
	require.Error(t, e.Err())
	require.Zero(t, e.NumRanks())
	require.Contains(t, e.String(), "broken extent")
	require.Empty(t, e.Dims())
	for range e.Points() {
		t.Fatal("a broken extent has no points")
	}
	_, err := e.Rank()
	require.Equal(t, e.Err(), err)
	_, err = e.Point(0)
	require.Equal(t, e.Err(), err)
	_, err = e.MarshalText()
	require.Equal(t, e.Err(), err)
	_, err = shape.Select(e, "x=1")
	require.Equal(t, e.Err(), err)
	require.Empty(t, shape.Describe(e, []int{0}))

	r := e.Region()
	require.Equal(t, e.Err(), r.Err())
	require.Equal(t, e.Err(), r.Extent().Err())
	require.Zero(t, r.NumRanks())
	require.False(t, r.Contains(0))
	require.False(t, r.Equal(r))
	require.Contains(t, r.String(), "broken region")
	_, err = r.Index("x", 0)
	require.Equal(t, e.Err(), err)
	_, err = r.BaseRank(0)
	require.Equal(t, e.Err(), err)
	_, err = r.MarshalText()
	require.Equal(t, e.Err(), err)
	_, err = shape.NewValueMesh(r, []int{})
	require.Equal(t, e.Err(), err)
}

func TestExtent_outOfRangeErrorsStateTheRange(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 4)
	_, err := e.Rank(1)
	require.EqualError(t, err, `coordinates "[1]": want 2 of them, for host=2,gpu=4`)
	_, err = e.Rank(1, 4)
	require.EqualError(t, err, `coordinate of gpu "4": want 0 to 3`)
	_, err = e.Rank(-1, 0)
	require.EqualError(t, err, `coordinate of host "-1": want 0 to 1`)
	_, err = e.Point(8)
	require.EqualError(t, err, `rank "8": want 0 to 7, in host=2,gpu=4`)
}

func TestParseExtent_isStrict(t *testing.T) {
	for _, text := range []string{
		",", "x", "x=", "=1", "x=1,", ",x=1", "x=01", "x=+1", "x=-1", "x=0", "x= 1", "x=1,x=2", "x=1 ,y=2",
		"x=1/2", "a.b=1",
		"x=2147483648", "x=99999999999999999999", "x=65536,y=65536", strings.Repeat("x", 33) + "=1",
	} {
		_, err := shape.ParseExtent(text)
		require.ErrorAs(t, err, new(*shape.Error), "%q", text)
	}
	_, err := shape.ParseExtent("gpu:4")
	require.EqualError(t, err,
		`extent "gpu:4": want label=size,label=size…, such as host=2,gpu=4, sizes from 1 to 2147483647`)
	_, err = shape.ParseExtent(strings.Repeat("?", 1<<20))
	require.Less(t, len(err.Error()), 1000)
}

func FuzzParseExtent(f *testing.F) {
	for _, text := range []string{"", "host=2,gpu=4", "x=2147483647", "x=1,x=1", "=", ","} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := shape.ParseExtent(text)
		var in shape.Extent
		require.Equal(t, err == nil, in.UnmarshalText([]byte(text)) == nil)
		if err == nil {
			require.Equal(t, text, e.String())
			require.True(t, e.Equal(in))
			require.Positive(t, e.NumRanks())
		}
	})
}

func TestParsePoint_isStrict(t *testing.T) { // SHP-4
	for text, want := range map[string]string{
		"x":           `point "x": want label=coordinate/size`,
		"x=1":         `point "x=1": want label=coordinate/size`,
		"x=/2":        `point "x=/2": want label=coordinate/size`,
		"x=1/":        `point "x=1/": want label=coordinate/size`,
		"x=01/2":      `point "x=01/2": want label=coordinate/size`,
		"x=0/2,":      `point "x=0/2,": want label=coordinate/size`,
		"=0/2":        `point "=0/2": dimension "": want 1 to 32 characters`,
		`"x"=0/2`:     `want 1 to 32 characters`,
		"x=2/2":       `point "x=2/2": want a coordinate of x from 0 to 1`,
		"x=0/0":       `point "x=0/0": size of dimension x "0": want at least 1`,
		"x=0/2,x=0/2": `want a label that is not in x=2 yet`,
	} {
		_, err := shape.ParsePoint(text)
		require.ErrorContains(t, err, want, "%q", text)
		require.ErrorAs(t, err, new(*shape.Error))
	}
	var in struct{ P shape.Point }
	p := must(shape.Of("host", 2).With("gpu", 4).Point(7))
	require.NoError(t, json.Unmarshal(must(json.Marshal(struct{ P shape.Point }{p})), &in))
	require.Equal(t, p, in.P)
}

func FuzzParsePoint(f *testing.F) {
	for _, text := range []string{"", "host=1/2,gpu=3/4", "x=2147483646/2147483647", "x=1/1",
		"x=0/1,x=0/1", "=/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := shape.ParsePoint(text)
		if err != nil {
			return
		}
		require.Equal(t, text, p.String())
		require.Equal(t, p, must(p.Extent().Point(p.Rank())))
		require.Equal(t, p.Rank(), must(p.Extent().Rank(p.Coords()...)))
	})
}
