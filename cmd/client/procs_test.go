package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
)

func TestProcs_sayWhichAnEarlierHostdLaunched(t *testing.T) {
	running := agent.Status{Phase: agent.Running}
	var adopted []bool
	var remarks []string
	for _, s := range []agent.State{
		{ID: "demo", Rank: 0, Status: running, Proc: &agent.ProcState{PID: 7, Adopted: true}},
		{ID: "demo", Rank: 1, Status: running, Proc: &agent.ProcState{PID: 8}},
		{ID: "demo", Rank: 2, Status: agent.Status{Phase: agent.Failed, Reason: "why"}, Proc: &agent.ProcState{PID: 9, Adopted: true}},
	} {
		r := recordOf(s)
		adopted, remarks = append(adopted, r.Adopted), append(remarks, r.remark())
	}
	require.Equal(t, []bool{true, false, true}, adopted)
	require.Equal(t, []string{"adopted: an earlier hostd launched it", "", "why"}, remarks)
}
