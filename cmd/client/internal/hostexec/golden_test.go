package hostexec

import (
	"testing"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
)

func TestGolden_exec(t *testing.T) {
	groups := []Group{
		{Region: "host=0,gpu=*", Ranks: []int{0, 1, 2, 3}, Hosts: []string{"node-a"},
			ExecResult: agent.ExecResult{Stdout: "VmRSS: 1234 kB\n"}},
		{
			Region: "host=1,gpu=0", Ranks: []int{4}, Hosts: []string{"node-b"}, code: 2,
			ExecResult: agent.ExecResult{ExitCode: 2, Stderr: "grep: /proc/977/status: No such file or directory\n"},
		},
		{Region: "host=1,gpu=1:4", Ranks: []int{5, 6, 7}, Hosts: []string{"node-b"},
			Error: "commands are not allowed here: hostd --allow-exec", code: RefusedCode},
	}
	golden.Check(t, "exec", func(out *output.Printer) error { return showExec(out, groups) })
	hosts := []Group{{Hosts: []string{"node-a", "node-b"}, ExecResult: agent.ExecResult{Stdout: "one\ntwo\n"}}}
	golden.Check(t, "exec-hosts", func(out *output.Printer) error { return showExec(out, hosts) })
}
