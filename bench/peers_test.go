package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/local"
)

func TestPeers_arePinnedToReportedVersions_BENCH6(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range local.Workloads() {
		for _, p := range peersFor(w) {
			seen[p.dir] = true
			for _, file := range []string{"go.mod", "go.sum"} {
				text, err := os.ReadFile(filepath.Join(peersDir, p.dir, file))
				require.NoError(t, err)
				require.Regexp(t, `(?m)^\s*github\.com/\S*/`+p.name+`(/v\d+)? `+p.version+`(\s|$)`, string(text),
					"%s of %s", file, p)
			}
		}
	}
	dirs, err := os.ReadDir(peersDir)
	require.NoError(t, err)
	require.Len(t, seen, len(dirs), "a folder of %s takes part in no row", peersDir)
}

func TestPeers_haveDistinctNames(t *testing.T) {
	for _, w := range local.Workloads() {
		names := map[string]bool{}
		for _, p := range peersFor(w) {
			require.False(t, names[p.String()], "%s: two peers are named %s", w.Name, p)
			names[p.String()] = true
		}
		require.GreaterOrEqual(t, len(names), 2, w.Name)
	}
}

func TestPeers_inboxSizeIsPartOfTheName(t *testing.T) {
	w, ok := local.Find("spawn-bytes")
	require.True(t, ok)
	var names []string
	for _, p := range peersFor(w) {
		names = append(names, p.String())
	}
	require.Equal(t, []string{"hollywood@v1.0.5", "protoactor-go@v0.0.0-20240822202345-3c0e61ca19c9",
		"goakt@v4.2.13", "hollywood@v1.0.5/inbox16"}, names)
}
