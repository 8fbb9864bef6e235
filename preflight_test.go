package castnet_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

// toolbox is a folder with the named programs of this machine, and scripts in the place of others.
func toolbox(t *testing.T, programs []string, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range programs {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	for name, text := range scripts {
		testkit.WriteProgram(t, filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"))
	}
	return dir
}

// preflight runs the check with variables besides the tests' own, and returns its output.
func preflight(t *testing.T, args []string, vars ...string) (said string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"scripts/preflight.sh"}, args...)...)
	cmd.Env = append(os.Environ(), vars...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return string(out), err == nil
}

func TestPreflight_isSilentWhenNothingIsMissing(t *testing.T) {
	said, ok := preflight(t, nil)
	require.True(t, ok, said)
	require.Empty(t, said)
}

func TestPreflight_namesAMissingToolInOneLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file") // no folder can be made in it: root may write to every other
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	tools := []string{"sh", "awk", "sed", "dirname", "mkdir", "rm", "head", "cat"}
	gone := toolbox(t, tools, nil)
	old := toolbox(t, tools, map[string]string{"go": `printf '%s\n' go1.21.3 /tmp /tmp 0 gcc`})
	noHeaders := toolbox(t, append(tools, "go"), map[string]string{"gcc": "exit 1"})
	realGo, err := exec.LookPath("go")
	require.NoError(t, err)
	noLookup := `[ "$1" = list ] || exec ` + realGo +
		` "$@"; echo go: downloading x >&2; echo module lookup disabled >&2; exit 1`
	listless := toolbox(t, append(tools, "grep"), map[string]string{"go": noLookup})
	noModules := []string{"GOMODCACHE=" + t.TempDir(), "GOPROXY=off", "GOFLAGS=-mod=mod"}
	for name, row := range map[string]struct {
		args, vars []string
		want       string
	}{
		"no Go": {vars: []string{"PATH=" + gone},
			want: "there is no go on PATH: install Go 1.26"},
		"an old Go": {vars: []string{"PATH=" + old, "GOTOOLCHAIN=local"},
			want: "Go 1.26 or newer is needed, and " + old + "/go is go1.21.3"},
		"a home that is a file": {vars: []string{"HOME=" + file, "XDG_CACHE_HOME=", "GOCACHE="},
			want: "Go's build cache is in " + file + "/.cache/go-build, which cannot be written"},
		"no home": {vars: []string{"HOME=", "XDG_CACHE_HOME=", "GOCACHE="},
			want: "Go's build cache has no folder: set HOME or GOCACHE"},
		"nowhere for what is temporary": {vars: []string{"TMPDIR=" + file},
			want: "the folder for temporary files is in " + file + ", which cannot be written"},
		"no C compiler": {args: []string{"--race"}, vars: []string{"CC=nosuchcc"},
			want: "the race detector needs a C compiler, and there is no nosuchcc"},
		"no headers": {args: []string{"--race"}, vars: []string{"PATH=" + noHeaders, "CC=gcc"},
			want: "the C compiler gcc finds no stdlib.h"},
		"no module cache": {vars: []string{"GOMODCACHE=" + file}, want: "Go's module cache is in " +
			file + ", which cannot be written"},
		"no modules": {vars: noModules, want: "modules cannot be fetched: "},
		"no modules of the nats command": {
			args: []string{"--nats"}, vars: []string{"PATH=" + listless},
			want: "modules of the nats command cannot be fetched: module lookup disabled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			said, ok := preflight(t, row.args, row.vars...)
			require.False(t, ok, said)
			said = strings.TrimPrefix(said, "castnet: fetching modules…\n")
			require.True(t, strings.HasPrefix(said, "castnet: "+row.want), "want %q, got %q", row.want, said)
			require.Equal(t, 1, strings.Count(said, "\n"), said)
		})
	}
}
