package main

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

const (
	largeHosts = 12_500
	largeRanks = 8 * largeHosts
)

// largeView is a mesh of 100,000 ranks. A tenth of its hosts are dead, each for its own reason.
func largeView() (inspect.View, []inspect.Proc) {
	e := shape.Of("host", largeHosts).With("gpu", 8)
	v := inspect.View{
		Mesh: "large-0000000000000", Label: "large", Extent: e.String(), Shape: e, Ranks: largeRanks, PerHost: 8,
		Phase: "running",
		Owner: inspect.Owner{ID: "train-0000000000000/0.0/owner", Answering: true, Since: sinceTime(time.Hour)},
	}
	var procs []inspect.Proc
	for h := range largeHosts {
		label := fmt.Sprintf("n%05d", h)
		host := inspect.Host{ID: label + "-0123456789abc", State: agent.HostAlive}
		run := inspect.StatusRun{Region: fmt.Sprintf("host=%d,gpu=*", h), Ranks: 8, Status: "running"}
		if h%10 == 9 {
			host.State = agent.HostDead
			host.Reason = "its connections have ended"
			run.Status = "failed"
			run.Reason = "host " + label + " is dead: its connections have ended"
		}
		v.Hosts = append(v.Hosts, host)
		v.Statuses = append(v.Statuses, run)
		for gpu := range 8 {
			rank := 8*h + gpu
			procs = append(procs, inspect.Proc{
				Mesh: v.Mesh, Rank: rank, Point: inspect.Point(e, rank), Host: host.ID, PID: 100 + rank, Status: run.Status,
				Reason: run.Reason, Memory: 1 << 30, Extent: e,
			})
			if run.Status != "running" {
				v.Failures = append(v.Failures, inspect.Failure{Rank: rank, Host: host.ID, Reason: run.Reason})
				v.RestartedRanks = append(v.RestartedRanks, inspect.RestartedRank{Point: inspect.Point(e, rank)})
			}
		}
	}
	return v, procs
}

func TestLarge_outputOf100000RanksIsBounded(t *testing.T) {
	v, procs := largeView()
	alike := make([]inspect.Proc, len(procs))
	for i, p := range procs {
		p.Status = "running"
		p.Reason = ""
		alike[i] = p
	}
	for name, c := range map[string]struct {
		show   func(*output.Printer) error
		format output.Format
		lines  int // of the output, at most
		bytes  int
		omits  string
	}{
		"procs": {
			func(out *output.Printer) error { return showRanks(out, alike) }, output.Table, 3, 1 << 10, "100000×",
		},
		"procs, a tenth dead": { // a row for each dead host, and its reason
			func(out *output.Printer) error { return showRanks(out, procs) }, output.Table, 2*largeHosts/10 + 3, 1 << 19,
			"90000×",
		},
		"procs, JSON": {
			func(out *output.Printer) error { return showRanks(out, procs) }, output.NDJSON, largeRanks, 16 << 20, "",
		},
		"mesh show": {
			func(out *output.Printer) error { return showMesh(out, v) }, output.Table, 90, 8 << 10,
			"and 1230 more; --output json has all",
		},
		"explain": {
			func(out *output.Printer) error { return showExplanation(out, v.Explanation()) }, output.Table, 40, 8 << 10,
			"and 1240 more",
		},
	} {
		for _, terminal := range []bool{false, true} {
			var text bytes.Buffer
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			require.NoError(t, c.show(&output.Printer{Format: c.format, Stdout: &text, OutTTY: terminal, Width: 120}))
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			t.Logf("%s, terminal %v: %s, %d MiB in %d allocations, %d bytes", name, terminal, took.Round(time.Millisecond),
				(after.TotalAlloc-before.TotalAlloc)>>20, after.Mallocs-before.Mallocs, text.Len())
			require.LessOrEqual(t, strings.Count(text.String(), "\n"), c.lines, "%s:\n%.2000s", name, &text)
			require.LessOrEqual(t, text.Len(), c.bytes, name)
			require.Contains(t, text.String(), c.omits, name)
		}
	}
}
