package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFill_replacesTheTableAndPlots(t *testing.T) {
	dir := t.TempDir()
	notes, page := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "page.md")
	require.NoError(t, os.WriteFile(notes, []byte("cast-reduce-1: ours median=1.00 min=1.00 max=1.00 unit=us n=1\n"+
		"cast-reduce-1: nats-fanout median=2.00 min=1.00 max=3.00 unit=us n=1\n"), 0o600))
	require.NoError(t, os.WriteFile(page, []byte("before\n"+begins+"old\n"+ends+"\nafter\n"), 0o600))
	require.NoError(t, fill(notes, page))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "before\n"+begins+"\n| row |")
	require.NotContains(t, string(text), "old")
	require.Contains(t, string(text), ends+"\nafter\n")
	plots, err := os.ReadDir(filepath.Join(dir, "page"))
	require.NoError(t, err)
	require.Len(t, plots, 1)
	require.Equal(t, "casts-reduced.svg", plots[0].Name())
}

func TestFill_refusesAPageWithoutMarks(t *testing.T) {
	dir := t.TempDir()
	notes, page := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "page.md")
	require.NoError(t, os.WriteFile(notes, nil, 0o600))
	require.NoError(t, os.WriteFile(page, nil, 0o600))
	require.ErrorContains(t, fill(notes, page), "want the marks")
}
