package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const sample = `// Package p is a sample.
package p

/* a block
of two lines */
var x, y, z = 1, 2, 3 // code with a comment

type box[T any] struct{}

func (b *box[T]) one(m map[int]int) {
	if delete(m, 1); len(m) > 0 {
	}
	if x = 2; x > 1 {
	}
	if v := 3; v > x {
	}
	switch {
	case x > 1:
	}
	switch {
	case x > 1:
	case x > 2:
	default:
	}
	x, y, z = 3, 2, 1
	x, y = y, x
}

func (box[T]) two() {}
`

func TestStats_countFilesLinesAndNames(t *testing.T) {
	var s stats
	require.NoError(t, s.addFile("p.go", []byte(sample)))
	require.Equal(t, 1, s.files)
	require.Equal(t, 3, s.comments)
	require.Equal(t, 22, s.code)
	require.Equal(t, map[string]int{"box": 2}, s.methods)
	require.Equal(t, golf{assigning: 1, sideEffect: 1, smallSwitch: 1, tuple: 1}, s.golf)
	require.Equal(t, []int{1, 18}, []int{s.length(0), s.length(100)})
}

// The figures of the product. A change may lower them, and never raises them.
const (
	maxGolf = 0.2 // of each kind in 1,000 lines
	maxWide = 14
)

func TestProduct_keepsItsLimits(t *testing.T) {
	packages, _, err := count(os.DirFS("../.."))
	require.NoError(t, err)
	var product stats
	for dir, s := range packages {
		if isProduct(dir) {
			product.add(*s)
		}
	}
	require.Positive(t, product.code)
	require.LessOrEqual(t, perThousand(product.golf.total(), product.code), maxGolf)
	slices.Sort(product.wide)
	require.LessOrEqual(t, len(product.wide), maxWide, "lines with too many columns: %v", product.wide)
}

func TestStats_countWideLines(t *testing.T) {
	var s stats
	wide := strings.Repeat("x", maxCommentColumns)
	text := "package p\n\n// " + wide + "\n\nvar s = \"" + wide + "\"\nvar r = `" + wide + wide +
		"`\nvar t = \"" + wide + "xx\"\n"
	require.NoError(t, s.addFile("p.go", []byte(text)))
	require.Equal(t, []string{"p.go:3", "p.go:7"}, s.wide)
}

func TestRun_keepsTestsAndBenchmarksApart(t *testing.T) {
	tree := fstest.MapFS{
		"p/p.go": {Data: []byte(sample)}, "p/p_test.go": {Data: []byte(sample)},
		"bench/b.go":      {Data: []byte(sample)},
		"p/testdata/x.go": {Data: []byte("not Go")},
	}
	var out bytes.Buffer
	require.NoError(t, run(&out, tree))
	for _, row := range []string{
		`1 +22 +12 +2 +1 +1 +18 +181\.8 +p\n`, `1 +22 .* product\n`, `1 +22 .* benchmarks, examples, scripts\n`,
		`1 +22 .* tests\n`,
		`if calls or increments +45\.45`,
	} {
		require.Regexp(t, row, out.String())
	}
	tree["p/bad.go"] = &fstest.MapFile{Data: []byte("not Go")}
	require.ErrorContains(t, run(&out, tree), "p/bad.go")
}
