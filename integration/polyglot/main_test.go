package polyglot

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// repo is a path within the repository.
func repo(t *testing.T, path ...string) string {
	t.Helper()
	full, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, path...)...))
	require.NoError(t, err)
	return full
}

// program is a program built by make.
func program(t *testing.T, name string) string {
	t.Helper()
	path := repo(t, "bin", name)
	_, err := os.Stat(path)
	require.False(t, errors.Is(err, fs.ErrNotExist),
		"there is no bin/%s: run `make polyglot`, which builds it", name)
	require.NoError(t, err)
	return path
}

// python is an interpreter with cbor2. The first on PATH may be one of a version manager, without
// it.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.CommandContext(t.Context(), path, "-c", "import cbor2").Run() == nil {
			return path
		}
	}
	require.Fail(t, "no python3 that can import cbor2: install Debian's python3-cbor2, or `pip install cbor2`")
	return ""
}

// node is Node.js, when the packages of node/ are there.
func node(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	require.NoError(t, err, "install Node.js 20 or newer")
	_, err = os.Stat("node/node_modules/cbor-x")
	require.NoError(t, err, "run `make polyglot`, or `npm ci` in integration/polyglot/node")
	return path
}
