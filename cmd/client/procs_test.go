package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/subjects"
)

func TestProcs_showWhichAnEarlierHostdLaunched(t *testing.T) {
	running := agent.Status{Phase: agent.Running}
	var adopted []bool
	var remarks []string
	for _, s := range []agent.State{
		{ID: "demo", Rank: 0, Status: running, Proc: &agent.ProcInfo{PID: 7, Adopted: true}},
		{ID: "demo", Rank: 1, Status: running, Proc: &agent.ProcInfo{PID: 8}},
		{ID: "demo", Rank: 2, Status: agent.Status{Phase: agent.Failed, Reason: "why"},
			Proc: &agent.ProcInfo{PID: 9, Adopted: true}},
	} {
		r := inspect.NewProc(s)
		adopted, remarks = append(adopted, r.Adopted), append(remarks, r.Note())
	}
	require.Equal(t, []bool{true, false, true}, adopted)
	require.Equal(t, []string{"adopted: an earlier hostd launched it", "", "why"}, remarks)
}

func TestLinks_showWhichMessageTheyAwait(t *testing.T) {
	var out bytes.Buffer
	a := &output.Printer{Stdout: &out, Format: output.Table}
	id, err := subjects.ParseProcessID("demo-0123456789abc_1-0")
	require.NoError(t, err)
	stalled := actor.Peer{Process: id, Sent: 9, Acked: 4, Retransmitted: 3, Credit: 2 << 10,
		StallReason: "packets after 4 up to 9 are not acknowledged"}
	require.NoError(t, showLinks(a, []inspect.Link{
		{Mesh: "demo", Point: "gpu=0", Peer: stalled},
		{Mesh: "demo", Point: "gpu=0", Peer: actor.Peer{Process: id, DeadReason: "killed"}},
	}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3)
	require.Regexp(t,
		`demo-0123456789abc_1-0 +9 +4 +3 +0 +0 +0 +2 KiB +0s +packets after 4 up to 9 are not acknowledged$`,
		lines[1])
	require.Regexp(t, ` 0 +0 +0 +0 +0 +0 +- +- +dead: killed$`, lines[2])
}

func TestNames_ofEndedMeshesAreFoundByEveryQuery(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	_, up := c.up(t, "--per-host", "gpu=2", "--actor", "echo")
	c.ok(t, "stop", "demo")
	for _, query := range [][]string{{"procs"}, {"procs", "--all"}, {"mesh", "show"}, {"explain"}} {
		require.Contains(t, c.ok(t, append(query, "demo")...), up.Mesh)
	}
	c.ok(t, "logs", "demo")
	require.Regexp(t, `(?m)^`+up.Mesh+` +1 +host=0,gpu=1 +a .* stopped `, c.ok(t, "procs", "demo[gpu=1]"))
	_, next := c.up(t, "--per-host", "gpu=1", "--actor", "echo")
	require.NotContains(t, c.ok(t, "procs", "demo", "--all"), up.Mesh, next.Mesh+" lives")
}
