package build

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

func TestID_dependsOnTheFileNotItsPath(t *testing.T) {
	own, err := ID()
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	data, err := os.ReadFile(exe)
	require.NoError(t, err)
	moved := filepath.Join(t.TempDir(), "moved")
	testkit.WriteProgram(t, moved, data)
	other, err := Of(moved)
	require.NoError(t, err)
	require.Equal(t, own, other)
}

func TestID_differsBetweenPrograms(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.WriteFile(a, []byte("#!/bin/sh\nexit 0\n"), 0o700))
	require.NoError(t, os.WriteFile(b, []byte("#!/bin/sh\nexit 1\n"), 0o700))
	ida, err := Of(a)
	require.NoError(t, err)
	idb, err := Of(b)
	require.NoError(t, err)
	require.NotEqual(t, ida, idb)
	_, err = Of(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
