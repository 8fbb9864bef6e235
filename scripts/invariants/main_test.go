package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inTestName finds the numbers at the end of a test's name.
var inTestName = regexp.MustCompile(`_([A-Z]+)([0-9]+)`)

// maxWords bounds a promise. Its reasons belong in the docs.
const maxWords = 40

func TestPage_isUpToDate(t *testing.T) {
	all, err := read(os.DirFS("../.."))
	require.NoError(t, err)
	require.Greater(t, len(all), 150)
	var b strings.Builder
	require.NoError(t, write(&b, all))
	page, err := os.ReadFile("../../docs/invariants.md")
	require.NoError(t, err)
	require.True(t, string(page) == b.String(),
		"docs/invariants.md is old: go run ./scripts/invariants > docs/invariants.md")
	for _, i := range all {
		assert.LessOrEqual(t, i.words, maxWords, "%s has too many words", i.id())
		assert.NotEmpty(t, i.tests, "%s has no test; state it in the text", i.id())
	}
}

// A comment or a test's name must not cite a withdrawn promise.
func TestCitations_nameExistingPromises(t *testing.T) {
	tree := os.DirFS("../..")
	all, err := read(tree)
	require.NoError(t, err)
	families, ids := map[string]bool{}, map[string]bool{}
	for _, i := range all {
		families[i.family], ids[i.id()] = true, true
	}
	require.NoError(t, eachGoFile(tree, func(name string, content []byte) error {
		for _, cited := range []*regexp.Regexp{inText, inTestName} {
			for _, m := range cited.FindAllStringSubmatch(string(content), -1) {
				assert.True(t, !families[m[1]] || ids[m[1]+"-"+m[2]], "%s cites %s-%s", name, m[1], m[2])
			}
		}
		return nil
	}))
}

func TestRead_findsPromisesAndTheirTests(t *testing.T) {
	tree := fstest.MapFS{
		"p/doc.go": {Data: []byte("// Package p keeps promises:\n//\n//   - AB-2 (order): one after\n//     " +
			"another.\n//   - AB-1 (count): each once.\n//   - no promise\npackage p\n")},
		"p/p_test.go": {Data: []byte("package p\n\nfunc TestAB1_eachOnce(t *testing.T) {}\n\n// TestMore covers " +
			"AB-2.\nfunc TestMore(t *testing.T) {}\n\n" +
			"func TestLine(t *testing.T) { // AB-1\n}\n\nfunc FuzzIn(f *testing.F) {\n\t// AB-2 holds\n}\n\n// " +
			"helper, not of AB-1\nfunc helper() {}\n")},
	}
	all, err := read(tree)
	require.NoError(t, err)
	require.Equal(t, []*invariant{
		{family: "AB", number: 1, title: "count", words: 2, dir: "p",
			tests: []string{"TestAB1_eachOnce", "TestLine"}},
		{family: "AB", number: 2, title: "order", words: 3, dir: "p", tests: []string{"FuzzIn", "TestMore"}},
	}, all)
	var b strings.Builder
	require.NoError(t, write(&b, all))
	require.Contains(t, b.String(),
		"\n## AB · p\n\n| | title | tests |\n|---|---|---|\n| AB-1 | count | TestAB1_eachOnce<br>TestLine |\n")
	tree["q/doc.go"] = tree["p/doc.go"]
	_, err = read(tree)
	require.EqualError(t, err, "AB-2 stands in p and in q")
	tree["q/doc.go"] = &fstest.MapFile{Data: []byte("//   - AB-3: no title\npackage q\n")}
	_, err = read(tree)
	require.EqualError(t, err, "q: no title: - AB-3: no title")
}
