package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// shell is the script of the shells.
const shell = "sleep 600 & wait"

// startShell starts a mesh with one proc, a shell with a child. It returns both processes.
func startShell(t *testing.T, s site, d *daemon, args ...string) (pids []int, err error) {
	t.Helper()
	id, err := subjects.NewMeshID("shell")
	require.NoError(t, err)
	host, err := subjects.ParseHostID(d.ready.Host)
	require.NoError(t, err)
	m := agent.Mesh{
		ID: id, Extent: shape.Of("gpu", 1), Hosts: []subjects.HostID{host}, PerHost: 1,
		Owner: host.Proc().Actor("owner"), Command: agent.Command{Path: "/bin/sh", Args: args},
	}
	to := agent.Of(host.Proc()).Via(s.asker(t))
	_, err = agent.Create.Call(testkit.Soon(t), to, agent.CreateRequest{Procs: &m})
	if err != nil {
		return nil, err
	}
	testkit.Until(t, "the shell has a child", func() bool {
		states, err := agent.Get.Call(testkit.Soon(t), to, agent.GetRequest{ID: m.ID.String()})
		require.NoError(t, err)
		if states[0].Proc == nil || states[0].Proc.PID == 0 {
			return false
		}
		pid := states[0].Proc.PID
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		require.NoError(t, err)
		child, err := strconv.Atoi(strings.TrimSpace(string(children)))
		pids = []int{pid, child}
		return err == nil && strings.Contains(ofProcess(t, child, "cmdline"), "600")
	})
	return pids, nil
}

// ofProcess returns a file of a process.
func ofProcess(t *testing.T, pid int, file string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	require.NoError(t, err)
	return string(text)
}

func TestHostd_procsHaveNoPrivilegesAndNoSecrets_HOSTD11(t *testing.T) {
	t.Parallel()
	flags := []string{"--allow", "/bin/sh -e -c"}
	uid := strconv.Itoa(os.Getuid())
	if os.Geteuid() == 0 {
		flags = append(flags, "--proc-user", "nobody")
		uid = "65534"
	}
	s := newSite(t)
	d := s.start(t, flags...)
	pids, err := startShell(t, s, d, "-e", "-c", shell)
	require.NoError(t, err)
	for _, pid := range pids {
		status := ofProcess(t, pid, "status")
		for _, want := range []string{"NoNewPrivs:\t1\n", "Umask:\t0077\n",
			"Uid:\t" + strings.Repeat(uid+"\t", 3) + uid + "\n"} {
			require.Contains(t, status, want)
		}
		require.Regexp(t, `(?m)^Max core file size +0 `, ofProcess(t, pid, "limits"))
	}
	token := s.readLocal(t).Token
	require.NotEmpty(t, token)
	for _, pid := range append(pids, d.PID()) {
		for _, file := range []string{"environ", "cmdline"} {
			require.NotContains(t, ofProcess(t, pid, file), token)
		}
	}
	for _, args := range [][]string{nil, {"-e"}, {"-c", shell}, {"-c", "-e", shell}, {"-ec", shell}} {
		_, err := startShell(t, s, d, args...)
		require.ErrorContains(t, err, "is not allowed on this host", "%q", args)
	}

	told := newSite(t, "NATS_TOKEN=canary")
	d = told.start(t)
	require.Contains(t, ofProcess(t, d.PID(), "environ"), "canary", "the scan finds what is there")
}

func TestHostd_refusesABadUserOrCommandForProcs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for want, args := range map[string][]string{
		"want a program or a directory":                 {"--allow", "/no/such/program"},
		"want a program with arguments: /no/such is no": {"--allow", "/no/such -m x"},
		"/tmp is no file":                               {"--allow", "/tmp -m x"},
		`"no-such-user"`:                                {"--proc-user", "no-such-user"},
	} {
		_, why := s.requireFailedStart(t, args...)
		require.Contains(t, why, want)
	}
	s.requireClean(t)
}
