package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/cmd/client/internal/hostexec"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// openHost starts a host with permitted commands.
func (c *cluster) openHost(t *testing.T, label string) {
	t.Helper()
	limits := &config.Config{}
	require.NoError(t, config.HostAllowExec.Override(limits, true))
	c.host(t, label, func(o *host.Options) {
		o.RunDir, o.Config, o.Labels = t.TempDir(), limits, map[string]string{"name": label}
	})
}

func TestExec_runsOnHostsAndRanksAndGroupsEqualOutput(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, label := range []string{"a", "b", "c"} {
		c.openHost(t, label)
	}
	require.Equal(t, "a, b, c: hello\n", c.ok(t, "exec", "--", "echo", "hello"))
	require.Equal(t, "b: hello\n", c.ok(t, "exec", "--label", "name=b", "--", "echo", "hello"))

	require.Equal(t, "b: exited with code 0\n  1\n  2\n  | 3\n",
		c.ok(t, "exec", "--label", "name=b", "--", "sh", "-c", `printf '1\n2'; printf 3 >&2`),
		"a last line without an end is a line")

	_, up := c.up(t, "demo", "--per-host", "gpu=2")
	require.Equal(t, "[*] -5\n", c.ok(t, "exec", "demo", "--", "echo", "-5"),
		"arguments are as they were written")
	r := c.client(t, "exec", "demo[host=1:3]", "--", "sh", "-c",
		`[ $CASTNET_RANK = 4 ] && { echo no luck >&2; exit 7; }; echo fine; kill -0 $CASTNET_PID`)
	require.Equal(t,
		"[host=1,gpu=* | host=2,gpu=1] fine\n[host=2,gpu=0] exited with code 7\n  | no luck\n", r.out)
	require.Equal(t, "castnet: exec: [host=2,gpu=0]: exited with code 7: no luck\n", r.err)
	require.Equal(t, 7, r.code)

	groups := decode[[]hostexec.Group](t, c.ok(t, "exec", "demo[gpu=1]", "-o", "json", "--", "sh", "-c",
		"echo $CASTNET_PROC_ID; echo to >&2"))
	require.Len(t, groups, 3)
	require.Equal(t, []string{"host=1,gpu=1"}, []string{groups[1].Region})
	require.Equal(t, []int{3}, groups[1].Ranks)
	require.Equal(t, up.Mesh+"/3.0\n", groups[1].Stdout)
	require.Equal(t, "to\n", groups[1].Stderr)

	require.Equal(t, "a, b: once\n", c.ok(t, "exec", "demo[host=0:2]", "--hosts", "--", "echo", "once"))
	r = c.eventually(t, func(r result) bool { return r.code == hostexec.TimeoutCode }, // the search takes time, too
		"exec", "--timeout", "500ms", "--", "sleep", "60")
	require.Equal(t, "a, b, c: killed: it took longer than --timeout\n", r.out)
	require.Equal(t, hostexec.SignalCode+9, c.client(t, "exec", "--", "sh", "-c", "kill -9 $$").code)
	r = c.client(t, "exec", "--", "/no/such")
	require.Equal(t, hostexec.RefusedCode, r.code)
	require.Equal(t, result{code: r.code, err: `castnet: exec: a, b, c: exec: "/no/such": stat /no/such: ` +
		"no such file or directory\n"}, r, "a refusal is shown once")
}

func TestExec_hostsWithoutAnAnswerAreNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.openHost(t, "a")
	b := c.hostd(t, "b")
	proctest.Suspend(t, b.PID())
	t.Cleanup(func() { _ = b.Process.Signal(syscall.SIGCONT) }) // fails when it has ended
	r := c.eventually(t, func(r result) bool { return strings.Contains(r.out, "a: 1") },
		"exec", "--", "echo", "1")
	require.Equal(t, result{code: 125, out: "a: 1\n", err: "castnet: exec: b: no answer\n"}, r)
}

func TestExec_ctrlCEndsTheCommand(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.openHost(t, "a")
	begun := filepath.Join(t.TempDir(), "begun")
	b := start(t, c.env, "exec", "--timeout", "10m", "--", "sh", "-c", "sleep 600 & echo $! >"+begun+".new; mv "+
		begun+".new "+begun+"; wait")
	var text []byte
	require.Eventually(t, func() (ok bool) {
		var err error
		text, err = os.ReadFile(begun)
		return err == nil
	}, testkit.Patience, 5*time.Millisecond)
	require.Equal(t, cli.ExitInterrupted, exit(t, b, os.Interrupt))
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, testkit.Patience, 5*time.Millisecond,
		"the command's children are gone, long before its timeout")
}

func TestExec_refusalExplainsHowToAllowIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "shut")
	c.openHost(t, "open")
	r := c.client(t, "exec", "--", "sh", "-c", "exit 3")
	require.Equal(t, hostexec.RefusedCode, r.code, "the worst")
	require.Equal(t, "castnet: exec: shut: cannot run commands: start hostd with --allow-exec, or set "+
		"host.allow-exec: on\n", r.err)
	require.Equal(t, "open: exited with code 3\n", r.out, "the refusal is in the error")
	require.Equal(t, hostexec.RefusedCode,
		c.client(t, "exec", "--label", "name=open", "--", "no-such-program").code)
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"exec", "uptime"}, cli.ExitUsage, "want -- before the command"},
		{[]string{"exec", "--"}, cli.ExitUsage, "want a command after --"},
		{[]string{"exec", "a", "b", "--", "x"}, cli.ExitUsage, `unexpected argument "b"`},
		{[]string{"exec", "a", "--label", "x=y", "--", "x"}, cli.ExitUsage, "without a mesh"},
		{[]string{"exec", "--timeout", "2h", "--", "x"}, cli.ExitUsage, "1h0m0s at most"},
		{[]string{"exec", "nobody", "--", "x"}, cli.ExitNotFound, `"nobody"`},
		{[]string{"exec", "--label", "name=x", "--", "x"}, cli.ExitNotFound, "name=x"},
	} {
		r := c.client(t, tc.args...)
		require.Equal(t, tc.code, r.code, r.err)
		require.Contains(t, r.err, tc.want)
	}
}
