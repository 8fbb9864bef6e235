package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestMeshRestart_startsTheProcsOfARegionAnewAndSaysSoAsTheyAreOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	p := c.own(t, mesh.Spawning{Name: "demo", PerHost: shape.Of("gpu", 3)})
	pids := func() (all []int) {
		for _, r := range decode[[]procRecord](t, c.ok(t, "procs", "demo", "-o", "json")) {
			all = append(all, r.PID)
		}
		return all
	}
	before := pids()
	var got []restartRecord
	for line := range strings.Lines(c.ok(t, "mesh", "restart", "demo[gpu=1:3]", "--reason", "new data", "-o", "ndjson")) {
		got = append(got, decode[restartRecord](t, line))
	}
	require.Len(t, got, 2)
	for i, r := range got {
		require.Positive(t, r.Took)
		require.Equal(t, restartRecord{
			Mesh: p.ID().String(), Rank: i + 1, Point: []string{"host=0,gpu=1", "host=0,gpu=2"}[i], Host: r.Host, Status: "running", Took: r.Took,
		}, r)
	}
	after := pids()
	require.Equal(t, before[0], after[0])
	require.NotEqual(t, before[1:], after[1:])
	require.Regexp(t, `(?m)^demo-\w+ +2 +host=0,gpu=2 +a +running +[\d.]+m?s +-$`, c.ok(t, "mesh", "restart", "demo", "--at-once", "3"))

	var ranks []int
	for _, r := range decode[[]restartRecord](t, c.ok(t, "hosts", "restart", "a", "--at-once", "3", "-o", "json")) {
		ranks = append(ranks, r.Rank)
	}
	require.ElementsMatch(t, []int{0, 1, 2}, ranks)
	require.Equal(t, cli.ExitNotFound, c.client(t, "hosts", "restart", "nobody").code)
	require.Equal(t, cli.ExitUsage, c.client(t, "hosts", "restart").code)

	require.Equal(t, cli.ExitUsage, c.client(t, "mesh", "restart", "demo", "--at-once", "0").code)
	require.Equal(t, cli.ExitNotFound, c.client(t, "mesh", "restart", "nobody").code)
}

func TestRegionAt_isThePlaceOfAHostInTheDimensionsOfHosts(t *testing.T) {
	a, err := subjects.NewHostID("a")
	require.NoError(t, err)
	b, err := subjects.NewHostID("b")
	require.NoError(t, err)
	id, err := subjects.NewMeshID("demo")
	require.NoError(t, err)
	for extent, want := range map[string]string{"rack=1,host=2,gpu=2": "rack=0,host=1", "host=2": "host=1", "host=2,gpu=1": "host=1"} {
		per := 1
		if strings.Contains(extent, "gpu=2") {
			per = 2
		}
		e := shape.Unit()
		for dim := range strings.SplitSeq(extent, ",") {
			label, size, _ := strings.Cut(dim, "=")
			n, err := strconv.Atoi(size)
			require.NoError(t, err)
			e, err = e.Concat(shape.Of(label, n))
			require.NoError(t, err)
		}
		got, err := regionAt(agent.Mesh{ID: id, Extent: e, PerHost: per, Hosts: []subjects.HostID{a, b}}, 1)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
