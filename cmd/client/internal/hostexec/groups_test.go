package hostexec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestFoldExec_sortsLargestGroupFirst(t *testing.T) {
	hosts := map[string]subjects.HostID{}
	for _, label := range []string{"a", "b", "c"} {
		id, err := subjects.NewHostID(label)
		require.NoError(t, err)
		hosts[label] = id
	}
	groups := groupExecResults(shape.Of("host", 8), []result{
		{task: task{rank: 0, host: hosts["a"]}, done: agent.ExecResult{Stdout: "x\n"}},
		{task: task{rank: 1, host: hosts["b"]}, done: agent.ExecResult{Stdout: "y\n"}},
		{task: task{rank: 2, host: hosts["b"]}, done: agent.ExecResult{Stdout: "y\n"}},
		{task: task{rank: 5, host: hosts["c"]}, err: "silent", code: unreachableCode},
	})
	var got []string
	for _, g := range groups {
		got = append(got, g.describeTargets()+" "+strings.Join(g.Hosts, "+"))
	}
	require.Equal(t, []string{"[host=1:3] b", "[host=0] a", "[host=5] c"}, got)
	require.Equal(t, "silent", groups[2].describeResult(true))
	require.Equal(t, "exited with code 1: last",
		Group{ExecResult: agent.ExecResult{ExitCode: 1, Stderr: "first\nlast\n"}}.describeResult(true))
	require.Equal(t, "exited with code 0; 9 bytes before this are left out",
		Group{ExecResult: agent.ExecResult{DroppedBytes: 9}}.describeResult(false))
}
