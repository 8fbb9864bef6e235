package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/stacks"
)

func TestStack_showsTheHandlerThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	start(t, c.env, "cast", "demo[gpu=0]", "talker", "block", "--timeout", "1m")
	r := c.eventually(t, func(r result) bool { return strings.Contains(r.out, "2 goroutines") }, "stack", "demo")
	require.Regexp(t, `^\[host=\*,gpu=0\] 2 goroutines\n(  .+\n)*  \S+/cmd/client\.talkerDef\S* main_test\.go:\d+\n`, r.out)
	all := decode[[]stacks.Stack](t, c.ok(t, "stack", "demo", "-o", "json", "--all"))
	require.True(t, slices.ContainsFunc(all, func(s stacks.Stack) bool { return s.Region == "*" }))
	r = c.client(t, "stack", "nothing")
	require.Equal(t, cli.ExitNotFound, r.code, r.err)
}

func TestProfile_isOneFileOfAllRanks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "--per-host", "gpu=2")
	for _, kind := range [][]string{{"--heap"}, {"--cpu", "200ms"}} {
		file := filepath.Join(t.TempDir(), "x.pprof")
		args := append([]string{"profile", "demo", "--file", file}, kind...)
		require.Empty(t, c.ok(t, args...))
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		_, err = profile.ParseData(data)
		require.NoError(t, err)
	}
	for _, wrong := range [][]string{{}, {"--heap", "--cpu", "1s"}, {"--cpu", "1h"}, {"--cpu", "-1s"}} {
		require.Equal(t, cli.ExitUsage, c.client(t, append([]string{"profile", "demo"}, wrong...)...).code, wrong)
	}
}

func TestProfile_labelsTheTimeOfActorsWithTypeAndEndpoint(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.up(t, "--per-host", "gpu=1", "--command", os.Args[0], "--actor", "talker")
	file := filepath.Join(t.TempDir(), "cpu.pprof")
	c.ok(t, "cast", "demo", "talker", "spin")
	c.ok(t, "profile", "demo", "--cpu", "2s", "--file", file)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	all, err := profile.ParseData(data)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(all.Sample, func(s *profile.Sample) bool {
		return s.HasLabel(actor.LabelType, "talker") && s.HasLabel(actor.LabelEndpoint, "spin")
	}))
}
