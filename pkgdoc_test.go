package castnet_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// minDocLines is the least length of a contract: shorter package comments repeat the name of the
// package.
const minDocLines = 5

// REPO-1 holds for every package of every module of the repository.
//
// Reading every Go file has a second use: it makes them inputs of this test
// binary, so that go test never answers the tests of the DAG, which read them
// through another process, from its cache.
func TestPackages_haveOneCommentInDocGo(t *testing.T) {
	byDir := packageComments(t)
	require.NotEmpty(t, byDir)
	var wrong []string
	for dir, comments := range byDir {
		text, ok := comments["doc.go"]
		switch lines := strings.Count(text, "\n"); {
		case !ok:
			wrong = append(wrong, dir+" has no package comment in a doc.go")
		case len(comments) > 1:
			wrong = append(wrong, fmt.Sprintf("%s has package comments besides doc.go: %v", dir,
				slices.Sorted(maps.Keys(comments))))
		case lines < minDocLines:
			wrong = append(wrong, fmt.Sprintf("%s/doc.go says too little: %d lines, at least %d wanted", dir,
				lines, minDocLines))
		}
	}
	require.Empty(t, report(wrong))
}

// packageComments maps folder to file to package comment. Every folder with Go
// files is there, also one without a comment; build tags play no part.
func packageComments(t *testing.T) map[string]map[string]string {
	t.Helper()
	found := map[string]map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		dir, file := filepath.Split(path)
		dir = filepath.Clean(dir)
		if found[dir] == nil {
			found[dir] = map[string]string{}
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if text := f.Doc.Text(); text != "" {
			found[dir][file] = text
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// skipped reports whether the go command ignores a folder, and true for bin.
func skipped(name string) bool {
	return name == "testdata" || name == "bin" || name == "node_modules" ||
		(name != "." && strings.HasPrefix(name, ".")) || strings.HasPrefix(name, "_")
}
