package shape_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/shape"
)

func TestParseSelection_examples(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 4)
	for text, want := range map[string]string{
		"":                     "*",
		" * ":                  "*",
		"*,*":                  "*",
		":,::1":                "*",
		"(((*)))":              "*",
		"0:9":                  "*",
		"host=*":               "*",
		"0|1":                  "host=0,gpu=* | host=1,gpu=*",
		"none":                 "none",
		" none\n":              "none",
		"0&1":                  "none",
		"*,0:2 & *,2:":         "none",
		"gpu=1:3 & gpu=2:":     "host=*,gpu=2",
		"*,::2 & *,::3":        "host=*,gpu=0",
		"*,1::2":               "host=*,gpu=1:4:2",
		"*,1:3|*,1|*,2:":       "host=*,gpu=1:3 | host=*,gpu=2:4",
		"1|*|0":                "*",
		"0,1|2:4,1&*":          "error",
		"0 , ( 1 | 3 )":        "host=0,gpu=1 | host=0,gpu=3",
		"(0|1,2),gpu=3":        "error",
		"(0,0|1),gpu=3":        "error",
		"(0|1),3":              "host=0,gpu=3 | host=1,gpu=3",
		"(0&*),3":              "host=0,gpu=3",
		"gpu=3,host=1":         "host=1,gpu=3",
		"host=1,2":             "host=1,gpu=2",
		"host=(1)":             "error",
		"1,2 & host=1 | gpu=0": "host=*,gpu=0 | host=1,gpu=2",
		"0|1&gpu=3":            "host=0,gpu=* | host=1,gpu=3",
	} {
		s, err := shape.ParseSelection(e, text)
		if want == "error" {
			require.ErrorAs(t, err, new(*shape.Error), "%q", text)
			continue
		}
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, s.String(), "%q", text)
	}
	three := e.With("z", 3)
	require.Equal(t, "host=0,gpu=1,z=2 | host=1,gpu=2,z=*",
		must(shape.ParseSelection(three, "(0,1|1),2")).String(), "what follows a union follows each part")
}

func TestCheckSelection_refusesTextThatNoExtentAccepts(t *testing.T) {
	for _, text := range []string{"", " ", "*", "none", "gpu=7", "1,0:2", "(0|1:3),5", "a=1 & b=2:9:3"} {
		require.NoError(t, shape.CheckSelection(text), text)
	}
	for _, text := range []string{"gpu=x", "gpu=", "0:2 1", "(0", "a=1]", "-1", "0:2:-1", "=1", "gpu=?"} {
		var bad *shape.Error
		require.ErrorAs(t, shape.CheckSelection(text), &bad, text)
		require.Equal(t, text, bad.Input)
	}
}

func TestParseSelection_badTextNamesInputAndRule(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 4)
	const spec = "an index, a:b, a:b:step, * or ( )"
	for text, want := range map[string]string{
		"gpu":                          `selection "gpu": want ` + spec + ` at "gpu"`,
		"gpu=":                         `selection "gpu=": want ` + spec + ` at the end`,
		"gpu=1,":                       `selection "gpu=1,": want ` + spec + ` at the end`,
		"|":                            `selection "|": want ` + spec + ` at "|"`,
		"0||1":                         `selection "0||1": want ` + spec + ` at "|1"`,
		"0 1":                          `selection "0 1": want an operator , & | or the end at "1"`,
		"0)":                           `selection "0)": want an operator , & | or the end at ")"`,
		"(0":                           `selection "(0": want an operator , & | or a ) at the end`,
		"()":                           `selection "()": want ` + spec + ` at ")"`,
		"none|0":                       `selection "none|0": want ` + spec + ` at "none|0"`,
		"*,*,*":                        `selection "*,*,*": want no part beyond the last dimension of "host=2,gpu=4"`,
		"gpu=1,0":                      `selection "gpu=1,0": want no part beyond the last dimension`,
		"host=(0|1)":                   `selection "host=(0|1)": want ` + spec + ` at "(0|1)"`,
		"rack=1":                       `dimension "rack": want one of: host, gpu`,
		"gpu=4":                        `index of gpu "4": want 0 to 3`,
		"2":                            `index of host "2": want 0 to 1`,
		"gpu=-1":                       `selection "gpu=-1": want ` + spec + ` at "-1"`,
		"gpu=x":                        `want ` + spec + ` at "x"`,
		"gpu=01":                       `want ` + spec + ` at "01"`,
		"gpu=1:2:":                     `want ` + spec + ` at "1:2:"`,
		"gpu=1:2:1:1":                  `want an operator , & | or the end at ":1"`,
		"gpu=::-1":                     `want ` + spec + ` at "::-1"`,
		"gpu=2:2":                      `slice of gpu (size 4) "2:2:1": want an end after the begin`,
		"gpu=3:1":                      `slice of gpu (size 4) "3:1:1": want an end after the begin`,
		"gpu=4:":                       `slice of gpu (size 4) "4:4:1": want a begin from 0 to 3`,
		"gpu=0:4:0":                    `slice of gpu (size 4) "0:4:0": want a step of at least 1`,
		"gpu=1,gpu=2":                  `selection "gpu=1,gpu=2": want each dimension once: gpu appears twice`,
		"gpu=1,host=0,2":               `want each dimension once: gpu appears twice`,
		"0&(1,gpu=2,gpu=3)":            `want each dimension once: gpu appears twice`,
		"gpu=9999999999":               `want ` + spec + ` at "9999999999"`,
		"0|1|2":                        `index of host "2": want 0 to 1`,
		"0 " + "unknown words end":     `want an operator , & | or the end at "unknown words end"`,
		strings.Repeat("(", 65):        `want at most 64 parentheses in each other at the end`,
		"0," + strings.Repeat("x", 30): `at "` + strings.Repeat("x", 20) + `"…`,
	} {
		_, err := shape.ParseSelection(e, text)
		require.ErrorContains(t, err, want, "%q", text)
		require.ErrorAs(t, err, new(*shape.Error))
	}
	for text, want := range map[string]string{
		"1":   `index of the unit extent "1": want 0 to 0`,
		"*,*": `selection "*,*": want no part beyond the last dimension of ""`,
		"x=0": `dimension "x": want one of: none, it has no dimensions`,
	} {
		_, err := shape.ParseSelection(shape.Unit(), text)
		require.ErrorContains(t, err, want)
	}
	_, err := shape.ParseSelection(shape.Of("", 1), "*")
	require.ErrorContains(t, err, `dimension ""`)
	_, err = shape.ParseSelection(e, strings.Repeat("?", 1<<20))
	require.Less(t, len(err.Error()), 1000)
}

func TestSelect_refusesDisjointRegions(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 4)
	_, err := shape.Select(e, "host=0 | gpu=2:4")
	require.ErrorIs(t, err, shape.ErrNotRegion)
	require.EqualError(t, err,
		`selection "host=0,gpu=* | host=*,gpu=2:4": want one index, range or * for each dimension; these are 2 regions`)
	_, err = shape.Select(e, "none")
	require.ErrorContains(t, err, "these are 0 regions")
	half := must(e.Region().SliceStep("gpu", 1, 4, 2))
	r := must(half.Select("gpu=1"))
	require.Equal(t, []int{3, 7}, baseRanks(r), "a selection of a region counts as the region does")
	require.True(t, half.Equal(must(half.Select(""))))
	_, err = half.Select("gpu=2")
	require.EqualError(t, err, `index of gpu "2": want 0 to 1`)
}

// A short text can stand for a very large set: it is an error, and soon (SHP-11).
func TestSelection_refusesTooManyTerms(t *testing.T) {
	e, small := shape.Unit(), shape.Unit()
	for i := range shape.MaxDims {
		e, small = e.With(fmt.Sprintf("d%d", i), 3), small.With(fmt.Sprintf("d%d", i), 1)
	}
	chain := func(part string, n int) string { return strings.TrimSuffix(strings.Repeat(part+",", n), ",") }
	require.Len(t, ranksOf(must(shape.ParseSelection(e, chain("(0|1)", 10)+",0,0,0,0,0,0"))), 1024)
	for _, text := range []string{
		chain("(0|1|2)", shape.MaxDims),
		chain("(0&0&0)", shape.MaxDims),
		chain("(0|0|0)", shape.MaxDims),
		chain("(0&1|1&2)", shape.MaxDims),
		chain("("+strings.Repeat("(0|1)&", 9)+"*)", shape.MaxDims),
	} {
		_, err := shape.ParseSelection(e, text)
		require.ErrorContains(t, err, "at most 131072 regions when it is multiplied out")
	}
	require.Equal(t, "*", must(shape.ParseSelection(small, chain("0", shape.MaxDims))).String())

	nested := "((* & 0:3:1 & *) & (0:1:2 | *)),(0:3:2 & 0:3:3),((*|*) & (0:1:2 & 0 & 0:2:3) & (*|0|0:2:1))"
	require.Equal(t, "*", must(shape.ParseSelection(shape.Of("x", 1).With("y", 1).With("z", 1), nested)).
		String(), "what says a thing twice does not multiply")

	line := shape.Of("x", 1<<30)
	var odd, three []string
	for i := range 400 {
		odd, three = append(odd, fmt.Sprint(4*i)), append(three, fmt.Sprint(6*i))
	}
	_, err := shape.ParseSelection(line, "("+strings.Join(odd, "|")+") & ("+strings.Join(three, "|")+")")
	require.ErrorContains(t, err, "want at most 131072 regions")
}

func TestSelection_differentExtentsDoNotMix(t *testing.T) {
	a, b := shape.Everything(shape.Of("x", 2)), shape.Everything(shape.Of("x", 3))
	broken := shape.Everything(shape.Of("", 3))
	require.True(t, broken.IsEmpty())
	require.Contains(t, broken.String(), `broken extent: dimension ""`)
	_, err := broken.Region()
	require.ErrorContains(t, err, `dimension ""`)
	_, err = broken.Contains(0)
	require.ErrorContains(t, err, `dimension ""`)
	_, err = a.Contains(0, 0)
	require.EqualError(t, err, `coordinates "[0 0]": want 1 of them, for x=2`)
	_, err = a.Contains(2)
	require.EqualError(t, err, `coordinate of x "2": want 0 to 1`)
	require.False(t, a.Equal(b))
	var zero shape.Selection
	require.Equal(t, "none", zero.String())
	require.Empty(t, ranksOf(zero))
}

func FuzzParseSelection(f *testing.F) {
	for _, text := range []string{
		"", "*", "none", "host=1", "gpu=0:2,host=*", "gpu=::3", "z=1:2:3:4", "host=1 | gpu=2", "?",
		"(0|1),1:4 & *,::2 | 2,6", "(0,1|1),(2)", "((",
	} {
		f.Add(text)
	}
	e := shape.Of("host", 3).With("gpu", 7).With("z", 2)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := shape.ParseSelection(e, text)
		if err != nil {
			require.ErrorAs(t, err, new(*shape.Error))
			return
		}
		ranks := ranksOf(s)
		require.True(t, slices.IsSorted(ranks))
		require.Len(t, slices.Compact(slices.Clone(ranks)), len(ranks))
		for rank := range e.NumRanks() {
			require.Equal(t, slices.Contains(ranks, rank), s.ContainsRank(rank))
		}
		again := must(shape.ParseSelection(e, s.String()))
		require.Equal(t, s.String(), again.String())
		require.True(t, s.Equal(again))
	})
}
