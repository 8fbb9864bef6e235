package polyglot

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testpage"
)

// The address on the page. The test replaces it by a free one.
const pageAddress = "127.0.0.1:4333"

func TestPage_eachCommandPrintsTheDocumentedOutput(t *testing.T) { // PLY-4
	page := testpage.Read(t, repo(t, "docs", "any-nats-client.md"), pageAddress, freeAddress(t))
	for _, language := range []string{"sh", "js", "py"} {
		require.True(t, slices.ContainsFunc(page.Blocks, func(b testpage.Block) bool { return b.Language == language }))
	}
	// The imports are found from here.
	modules, err := os.MkdirTemp(filepath.Join("node", "node_modules"), ".page-") //nolint:usetesting // a given place
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(modules)) })
	modules, err = filepath.Abs(modules)
	require.NoError(t, err)
	here := repo(t, "integration", "polyglot", "python")
	r := &testpage.Reader{Dir: repo(t), Env: environment(t), Programs: map[string]func(string) string{
		"js": func(text string) string { return node(t) + " " + saved(t, modules, "*.mjs", text) },
		"py": func(text string) string {
			return "env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + filepath.Join(here, "standin") + ":" + here +
				" " + python(t) + " " + saved(t, t.TempDir(), "*.py", text)
		},
	}}
	r.Run(t, page)
}

// saved writes a program to a file, and returns its path.
func saved(t *testing.T, dir, name, text string) string {
	t.Helper()
	f, err := os.CreateTemp(dir, name)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, errors.Join(err, f.Close()))
	return f.Name()
}

// freeAddress is an unused address on loopback.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
