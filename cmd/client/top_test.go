package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/castnet-io/castnet/mesh/inspect"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/top"
	"github.com/castnet-io/castnet/internal/cli"
)

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
	l := decode[inspect.Sample](t, c.ok(t, "top", "--interval", "1ms", "-o", "ndjson"))
	require.Len(t, l.Procs, 4)
	got := l.Procs[0]
	require.Equal(t, inspect.ProcCounters{Mesh: up.Mesh, Rank: 2, Point: "host=1,gpu=0", Host: got.Host,
		Status: "running", Actors: 1, CPUTime: got.CPUTime, Latency: got.Latency,
		Counters: inspect.Counters{Handled: 4, CPU: got.CPU, Memory: got.Memory}}, got)
	require.Positive(t, got.CPUTime)
	require.Greater(t, got.Memory, int64(1<<20))
	require.Greater(t, l.Hosts[0].Memory, got.Memory, "of both procs")
	require.Equal(t, "b", l.Hosts[0].Host, "the busiest is first")
	require.EqualValues(t, 5, l.Hosts[0].Handled)
	text := c.ok(t, "top", "--interval", "1ms", "--rows", "1")
	require.Regexp(t,
		`(?m)^HOST +STATUS +PROCS +CPU +MEM +MSG/S +QUEUED +HANDLED\nb +alive +2 +\d+% +\d+Mi +0.0 +0 +5\n`+
			`and 1 more host\n$`, text)
	require.Regexp(t, `(?m)^`+up.Mesh+
		` +host=1,gpu=0 +b +running +\d+% +\d+Mi +0.0 +0 +-\nand 3 more procs\n`, text)
	one := decode[inspect.Sample](t, c.ok(t, "top", "demo[host=1,gpu=0]", "--interval", "1ms", "-o", "json"))
	require.Len(t, one.Procs, 1)
	require.Len(t, one.Hosts, 1, "the host of the proc")
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

// screen is a terminal; it calls a function at each redraw.
type screen struct {
	strings.Builder
	drawn func(n int)
	n     int
}

func (s *screen) Write(p []byte) (int, error) {
	if string(p) == top.Redraw {
		s.n++
		s.drawn(s.n)
	}
	return s.Builder.Write(p)
}

func TestTop_redrawsUntilInterruptedAndErases(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &screen{drawn: func(n int) {
		if n == 3 {
			cancel()
		}
	}}
	a := &output.Printer{Stdout: s, OutTTY: true, Format: output.Table}
	require.ErrorIs(t, top.Live(ctx, a, &inspect.Sampler{Net: c.Net, Timeout: 10 * time.Second},
		top.Options{Interval: time.Millisecond, Rows: 20, Sort: "cpu"}), context.Canceled)
	text := s.String()
	require.True(t, strings.HasPrefix(text, top.ScreenOn))
	require.True(t, strings.HasSuffix(text, top.ScreenOff))
	require.Equal(t, 3, strings.Count(text, "1 host, 0 procs; every 1ms by cpu, Ctrl-C ends it"))
}
