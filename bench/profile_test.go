package main

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProfiled_writesAProfileOfCastnetsProcessesAlone(t *testing.T) {
	dir := t.TempDir()
	life := func() int { return 3 }
	require.Equal(t, 3, profiled(dir, floorRole, life))
	require.Equal(t, 3, profiled("", ranksRole, life))
	require.Equal(t, 3, profiled(dir, ranksRole, life))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Regexp(t, `ranks-\d+\.pprof$`, files[0])
	f, err := os.Open(files[0])
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	_, err = io.ReadAll(z)
	require.NoError(t, err)
}

func TestProfiled_doesNotRunWithoutAPlaceForTheProfile(t *testing.T) {
	require.Equal(t, 1, profiled(filepath.Join(t.TempDir(), "absent"), ranksRole, func() int {
		t.Error("it ran")
		return 0
	}))
}
