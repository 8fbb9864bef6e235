package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// capSysResource is the number of CAP_SYS_RESOURCE.
const capSysResource = 24

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

// nobody reads a file as the user of procs.
func nobody(path string) error {
	cmd := exec.Command("/bin/cat", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	return cmd.Run()
}

// openDir is a directory that every user may enter, unlike those of a test.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hostd-open-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

func TestHostd_procsOfAnotherUserHaveTheirOwnCredentialsOnly_HOSTD11(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root starts procs of another user")
	}
	w, s, open := newAuthDir(t), newSite(t), openDir(t)
	secret, err := os.ReadFile(w.key("a"))
	require.NoError(t, err)
	key := filepath.Join(open, "a.key")
	require.NoError(t, auth.WritePrivate(key, secret))
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := os.ReadFile(self)
	require.NoError(t, err)
	program := filepath.Join(open, "hostd")
	testkit.WriteProgram(t, program, text)
	state := filepath.Join(open, "state")
	cmd := exec.Command(program, "--nats", w.url, "--label", "a", "--proc-user", "nobody", "--auth-key", key,
		"--state-dir", state)
	cmd.Env, cmd.Dir = s.env(), open
	d := &daemon{Process: testkit.Start(t, cmd)}
	d.await(t, "hostd is ready")
	conn := w.connect(t, bus.Options{Creds: w.alice})
	sum, err := cast.Reduce(testkit.Soon(t), counters(t, conn, 1, 1), addOne, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 1, sum)
	files := credsFiles(t, state)
	require.Len(t, files, 1)
	own := bus.Options{Creds: files[0]}
	require.Equal(t, "p-a", own.UserName())
	require.NoError(t, nobody(files[0]))
	require.NoError(t, nobody(program), "the scan reads what it may")
	for _, path := range []string{key, fmt.Sprintf("/proc/%d/environ", d.PID()), filepath.Join(state, "creds"), state} {
		require.Error(t, nobody(path), path)
	}
	require.NoError(t, conn.Close(testkit.Soon(t)))
	d.Stop(t)
}

func TestHostd_procsHaveTheLimitsOfTheFlag_HOSTD11(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	limits := []string{"--proc-limits", "files=77,address-space=1GiB,processes=5000", "--allow", "/bin/sh"}
	d := s.start(t, limits...)
	pids, err := startShell(t, s, d, "-c", shell)
	require.NoError(t, err)
	requireLimits(t, pids)
	d.Stop(t)
	if os.Geteuid() != 0 {
		return
	}
	d = s.spawn(t, append(limits, "--proc-user", "nobody")...)
	_, status, _ := strings.Cut(ofProcess(t, os.Getpid(), "status"), "CapEff:\t")
	capabilities, err := strconv.ParseUint(status[:16], 16, 64)
	require.NoError(t, err)
	if capabilities&(1<<capSysResource) == 0 {
		require.Equal(t, 1, d.Exit(t))
		require.Contains(t, d.Err.String(), "want the capability CAP_SYS_RESOURCE")
		return
	}
	d.ready = d.await(t, "hostd is ready")
	pids, err = startShell(t, s, d, "-c", shell)
	require.NoError(t, err)
	requireLimits(t, pids)
}

func requireLimits(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for _, want := range []string{"core file size +0 ", "open files +77 +77 ", "processes +5000 +5000 ",
			"address space +1073741824 +1073741824 "} {
			require.Regexp(t, "(?m)^Max "+want, ofProcess(t, pid, "limits"))
		}
	}
}

func TestHostd_meshLimitsAreNotWiderThanThoseOfTheHost_HOSTD11(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--proc-limits", "files=1000,processes=5000")
	for _, row := range []struct {
		limits agent.Limits
		files  int
		why    string
	}{
		{agent.Limits{Files: 500}, 500, ""},
		{agent.Limits{}, 1000, ""},
		{agent.Limits{Files: 1001}, 0, "limit of 1001 open files: want at most 1000, as this host permits"},
		{agent.Limits{Pids: 5001}, 0, "limit of 5001 pids: want at most 5000, as this host permits"},
	} {
		m := keptMesh(t, d)
		m.Keep, m.Limits = false, row.limits
		host := agent.Of(m.Hosts[0].Proc()).Via(s.asker(t))
		_, err := agent.Create.Call(testkit.Soon(t), host, agent.CreateRequest{Procs: &m, Wait: true})
		if row.why != "" {
			require.ErrorContains(t, err, row.why)
			continue
		}
		require.NoError(t, err)
		states, err := agent.Get.Call(testkit.Soon(t), host, agent.GetRequest{ID: m.ID.String()})
		require.NoError(t, err)
		require.Regexp(t, fmt.Sprintf("(?m)^Max open files +%d +%[1]d ", row.files),
			ofProcess(t, states[0].Proc.PID, "limits"))
	}
}

func TestHostd_refusesABadUserOrCommandForProcs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for want, args := range map[string][]string{
		"want a program or a directory":                  {"--allow", "/no/such/program"},
		"want a program with arguments: /no/such is no":  {"--allow", "/no/such -m x"},
		"/tmp is no file":                                {"--allow", "/tmp -m x"},
		`"no-such-user"`:                                 {"--proc-user", "no-such-user"},
		`"cpu=1": want files=N, processes=N or`:          {"--proc-limits", "files=100,cpu=1"},
		`"files=200": want files=N, processes=N or`:      {"--proc-limits", "files=100,files=200"},
		`"files": want a number more than 0`:             {"--proc-limits", "files"},
		`"processes=-1": want a number more than 0`:      {"--proc-limits", "processes=-1"},
		`"address-space=1TB": want a number more than 0`: {"--proc-limits", "address-space=1TB"},
		"files=8: want at least 32":                      {"--proc-limits", "files=8"},
		"address-space=1: want at least 256 MiB":         {"--proc-limits", "address-space=1"},
		"files=2000000000: want at most ":                {"--proc-limits", "files=2000000000"},
	} {
		_, why := s.requireFailedStart(t, args...)
		require.Contains(t, why, want)
	}
	s.requireClean(t)
}
