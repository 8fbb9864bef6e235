package main

import (
	"slices"
	"testing"
	"time"

	"github.com/castnet-io/castnet/mesh/inspect"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
)

// complete reports whether a sample has that number of procs, each with its counters and memory.
func complete(s inspect.Sample, procs int) bool {
	return len(s.Procs) == procs && !slices.ContainsFunc(s.Procs, func(p inspect.ProcCounters) bool {
		return p.Silent || p.Memory == 0
	})
}

func TestTop_countsHandledMessages(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	empty := decode[inspect.Sample](t, c.ok(t, "top", "--interval", "1ms", "-o", "json"))
	require.Len(t, empty.Hosts, 2)
	require.NotNil(t, empty.Procs)
	_, up := c.up(t, "demo", "--per-host", "gpu=2")
	for range 3 {
		c.ok(t, "call", "demo[host=1,gpu=0]", "counter", "add", "1")
	}
	c.ok(t, "cast", "demo[host=1]", "counter", "add", "1")
	l := saying(t, c, func(s inspect.Sample) bool { return complete(s, 4) },
		"top", "--interval", "1ms", "-o", "ndjson")
	got := l.Procs[0]
	require.Equal(t, inspect.ProcCounters{Mesh: up.Mesh, Rank: 2, Point: "host=1,gpu=0", Host: got.Host,
		Status: "running", Actors: 1, CPUTime: got.CPUTime, Latency: got.Latency,
		Counters: inspect.Counters{Handled: 4, CPU: got.CPU, Memory: got.Memory}}, got)
	require.Greater(t, got.Memory, int64(1<<20))
	require.Greater(t, l.Hosts[0].Memory, got.Memory, "of both procs")
	require.Equal(t, "b", l.Hosts[0].Host, "the busiest is first")
	require.EqualValues(t, 5, l.Hosts[0].Handled)
	text := c.shows(t,
		`(?m)^HOST +STATUS +PROCS +CPU +MEM +MSG/S +QUEUED +HANDLED\nb +alive +2 +\d+% +\d+Mi +0.0 +0 +5\n`+
			`and 1 more host\n$`, "top", "--interval", "1ms", "--rows", "1")
	require.Regexp(t, `(?m)^`+up.Mesh+
		` +host=1,gpu=0 +b +running +\d+% +\d+Mi +0.0 +0 +-\nand 3 more procs\n`, text)
	one := decode[inspect.Sample](t, c.ok(t, "top", "demo[host=1,gpu=0]", "--interval", "1ms", "-o", "json"))
	require.Len(t, one.Procs, 1)
	require.Len(t, one.Hosts, 1, "the host of the proc")
	testkit.Until(t, "the system has counted a first tick of the proc", func() bool {
		c.ok(t, "call", "demo[host=1,gpu=0]", "counter", "add", "1")
		one = decode[inspect.Sample](t, c.ok(t, "top", "demo[host=1,gpu=0]", "--interval", "1ms", "-o", "json"))
		return one.Procs[0].CPUTime > 0
	})
	require.Equal(t, cli.ExitNotFound, c.client(t, "top", "nobody").code)
	r := c.client(t, "top", "--sort", "size")
	require.Equal(t, cli.ExitUsage, r.code)
	require.Contains(t, r.err, "want rate, cpu, mem, queued, handled or name")
	for _, args := range [][]string{{"--rows", "0"}, {"--interval", "-1s"}, {"a", "b"}} {
		r := c.client(t, append([]string{"top"}, args...)...)
		require.Equal(t, cli.ExitUsage, r.code, "%v: %s", args, r.err)
	}
	none := newCluster(t)
	r = none.client(t, "top")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, "no host answers on")
}

// With more procs than a sample may ask, the others have their status and their process.
func TestTop_partialSampleAsksWantedProcsAndHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "demo", "--per-host", "gpu=3")
	var hostOfRank0 string
	sampler := &inspect.Sampler{
		Net: c.Net, Timeout: 10 * time.Second, MaxAsked: 5,
		Wanted:     func(_ string, rank int) bool { return rank == 0 || rank == 4 },
		WantedHost: func(id string) bool { return id == hostOfRank0 },
	}
	sample := func() inspect.Sample {
		s, err := sampler.Sample(t.Context())
		require.NoError(t, err)
		return s
	}
	var first inspect.Sample
	casts := 0
	testkit.Until(t, "all wanted procs answer two samples", func() bool {
		before := sample()
		c.ok(t, "cast", "demo", "counter", "add", "1")
		casts++
		first = sample()
		return complete(before, 6) && complete(first, 6)
	})
	require.True(t, first.Partial)
	for _, p := range first.Procs {
		wanted := p.Rank == 0 || p.Rank == 4
		require.Equal(t, !wanted, p.Unasked, p.Rank)
		require.Equal(t, "running", p.Status)
		if !wanted {
			require.Empty(t, p.ActorCounters)
			continue
		}
		require.EqualValues(t, casts, p.Handled)
		require.Positive(t, p.Rate)
		require.Len(t, p.ActorCounters, 1)
		require.Equal(t, p.Rate, p.ActorCounters[0].Rate)
		if p.Rank == 0 {
			hostOfRank0 = p.Host
		}
	}
	testkit.Until(t, "the host of rank 0 sums up all its procs", func() (sums bool) {
		for _, h := range sample().Hosts {
			if h.ID == hostOfRank0 {
				sums = h.Handled == uint64(3*casts)
			} else {
				require.Zero(t, h.Handled, "not asked")
			}
		}
		return sums
	})
	sampler.MaxAsked = 6
	var all inspect.Sample
	testkit.Until(t, "all procs answer", func() bool {
		all = sample()
		return complete(all, 6)
	})
	require.False(t, all.Partial)
	require.EqualValues(t, 3*casts, all.Hosts[1].Handled)
}
