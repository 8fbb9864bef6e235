package main

import (
	"bytes"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// limits are the figures of the repository. A change may lower them, and never raises them.
var limits = map[kind]struct {
	mean, long, relative float64
	forbidden            int
}{
	pages:        {mean: 12.5, long: 1, relative: 1.3, forbidden: 0},
	records:      {mean: 12.8, long: 0.4, relative: 1.3, forbidden: 0},
	comments:     {mean: 11.4, long: 0.6, relative: 1.85, forbidden: 0},
	testComments: {mean: 11.5, long: 0.6, relative: 2, forbidden: 0},
}

func TestProse_repositoryKeepsItsLimits(t *testing.T) {
	all, err := read(os.DirFS("../.."), nil)
	require.NoError(t, err)
	for k, limit := range limits {
		f := total(all, k)
		require.Positive(t, f.sentences, k)
		assert.LessOrEqual(t, f.mean(), limit.mean, "%s: words of a sentence: see go run ./scripts/prose", k)
		assert.LessOrEqual(t, f.longShare(), limit.long,
			"%s: sentences over 30 words of a hundred: see go run ./scripts/prose -list", k)
		assert.LessOrEqual(t, f.relativeShare(), limit.relative,
			"%s: relative words of a hundred: see go run ./scripts/prose", k)
		assert.LessOrEqual(t, f.forbidden, limit.forbidden,
			"%s: forbidden beginnings: see go run ./scripts/prose -list", k)
	}
}

func TestMarkdown_countsOnlySentencesOfProse(t *testing.T) {
	page := "# A title. Two\n\nThe host, which runs `a. b. c` here, is *up*. See [the page](x.md)!\n" +
		"<!-- left out -->\n| a table | of words |\n```\ncode is no prose.\n```\n    nor is this.\n" +
		"- one item of a list\n- another item\n  that goes on\n1. a third\n"
	require.Equal(t, []string{
		"The host, which runs x here, is up.", "See the page!", "one item of a list",
		"another item that goes on", "a third",
	}, markdownSentences(page))
}

func TestComments_countOnlySentencesOfLineComments(t *testing.T) {
	file := "// Package x is one thing. It\n// does another.\n//\n//\tx.Do() // an example\n//\n//   - X-1: " +
		"a claim\n//   - X-2: one more\n" +
		"package x // not a line of its own\n\n//go:generate nothing\n\t// Who asks?\n\t//nolint:all\nvar s = 1\n"
	require.Equal(t, []string{"Package x is one thing.", "It does another.", "a claim", "one more", "Who asks?"},
		commentSentences(file))
}

func TestMeasure_countsLongSentencesRelativeWordsAndBeginnings(t *testing.T) {
	long := "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e."
	f := measure([]string{long, "What the host that died had.", "What is a host?", "Nobody.", "Too short."})
	require.Equal(t, figures{sentences: 3, words: 31 + 6 + 4, long: 1, relative: 3, forbidden: 2}, f)
	require.InDelta(t, 41.0/3, f.mean(), 1e-9)
	require.InDelta(t, 100.0/3, f.longShare(), 1e-9)
	require.InDelta(t, 300.0/41, f.relativeShare(), 1e-9)
	require.Zero(t, measure(nil).mean())
}

func TestRun_printsARowPerTextAndItsOffences(t *testing.T) {
	tree := fstest.MapFS{
		"README.md":         {Data: []byte("What is missing is here.")},
		"docs/a.md":         {Data: []byte("One host runs two procs.")},
		"docs/deep/b.md":    {Data: []byte("One host runs two procs.")},
		"p/p.go":            {Data: []byte("// P is a thing.\npackage p\n")},
		"p/p_test.go":       {Data: []byte("// Nobody asks for it here.\npackage p\n")},
		"p/testdata/x.go":   {Data: []byte("// Nobody counts this one.\npackage x\n")},
		".git/README.md":    {Data: []byte("Nobody counts this one.")},
		"node_modules/m.md": {Data: []byte("Nobody counts this one.")},
	}
	var out bytes.Buffer
	require.NoError(t, run(&out, tree, nil, false))
	for _, row := range []string{
		`1 +5\.0 +0\.0% +20\.00 +1 +README\.md`, `1 +5\.0 +0\.0% +0\.00 +0 +docs/deep/b\.md`,
		`1 +4\.0 +0\.0% +0\.00 +0 +p\n`, `1 +5\.0 +0\.0% +0\.00 +1 +p \(tests\)\n`,
		`2 +5\.0 +0\.0% +10\.00 +1 +all pages`, `1 .* all other markdown`, `1 .* all Go comments`, `1 .* all comments of tests`,
	} {
		require.Regexp(t, row, out.String())
	}
	out.Reset()
	require.NoError(t, run(&out, tree, []string{"README.md", "docs/"}, true))
	require.Equal(t, "README.md: forbidden beginning: What is missing is here.\n", out.String())
}
