package faults

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// machine is a computer with a hostd. All its processes have its directory in their environment, so
// survivors can be found.
type machine struct {
	*testing.T
	dir     string
	program string   // hostd
	args    []string // of hostd
	shell   string   // what a shell does before it becomes hostd
	joins   bool     // it has no server of its own
	hostd   *exec.Cmd
	over    chan struct{} // closed when hostd has ended
	life    int
	client  *actor.Proc // nil before the first
}

// newMachine is a machine with a hostd, whose procs are this test binary or shells. It ends with
// the test, and so do all its processes.
func newMachine(t *testing.T, program string, args ...string) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{T: t, dir: dir, program: program,
		args: append(args, "--state-dir", filepath.Join(dir, "state"), "--allow", self(t), "--allow", "/bin/sh",
			"--label", "m")}
	for _, dir := range []string{"run", "tmp"} {
		require.NoError(t, os.Mkdir(filepath.Join(m.dir, dir), 0o700))
	}
	t.Cleanup(func() {
		if m.hostd != nil {
			m.kill()
		}
		if t.Failed() {
			t.Logf("hostd printed:\n%s", m.output())
		}
		for _, pid := range m.processes() { // only a failing test leaves any
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return m
}

// self is this test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// buildHostd builds hostd, unless it is up to date.
func buildHostd(t *testing.T, tags string) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join("../../bin/faults", "hostd"+tags))
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-tags", tags, "-o", program,
		"./cmd/hostd").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

func (m *machine) env(more ...string) []string {
	return append([]string{
		"HOME=" + m.dir, "XDG_RUNTIME_DIR=" + filepath.Join(m.dir, "run"), "XDG_CONFIG_HOME=" + m.dir,
		"TMPDIR=" + filepath.Join(m.dir, "tmp"), "PATH=" + os.Getenv("PATH"),
	}, more...)
}

func (m *machine) log() string { return filepath.Join(m.dir, "hostd.log") }

func (m *machine) output() string {
	data, _ := os.ReadFile(m.log())
	return string(data[max(0, len(data)-6<<10):])
}

// boot starts hostd, and reports whether it is ready. false: it ended before.
func (m *machine) boot(env ...string) bool {
	m.Helper()
	log, err := os.OpenFile(m.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(m, err)
	defer log.Close()
	begin, err := log.Stat()
	require.NoError(m, err)
	args := m.args
	if m.life++; m.life == 1 && !m.joins { // from then on it comes back where it was
		args = append(slices.Clip(args), "--listen", "127.0.0.1:0")
	}
	m.hostd = exec.Command("/bin/sh", append([]string{"-c", m.shell + ` exec "$0" "$@"`, m.program}, args...)...)
	m.hostd.Env, m.hostd.Stderr = m.env(env...), log
	m.hostd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(m, m.hostd.Start())
	cmd, over := m.hostd, make(chan struct{})
	m.over = over
	go func() {
		defer close(over)
		_ = cmd.Wait() // ProcessState says it
	}()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		select {
		case <-over:
			return false
		default:
		}
		data, err := os.ReadFile(m.log())
		require.NoError(m, err)
		if strings.Contains(string(data[begin.Size():]), "hostd is ready") {
			return true
		}
		require.True(m, time.Now().Before(end), "hostd is not ready")
	}
}

// start starts a hostd and waits until it is ready.
func (m *machine) start(env ...string) {
	m.Helper()
	require.True(m, m.boot(env...), "hostd ended with %v and printed:\n%s", m.hostd.ProcessState, m.output())
}

// kill ends hostd by SIGKILL.
func (m *machine) kill() {
	_ = m.hostd.Process.Kill() // it may have ended
	<-m.over
}

// dead reports whether hostd has been killed, by itself.
func (m *machine) dead() bool {
	select {
	case <-m.over:
		return true
	default:
		return false
	}
}

// shutdown drains hostd, and requires that nothing is left.
func (m *machine) shutdown() {
	m.Helper()
	require.NoError(m, m.hostd.Process.Signal(syscall.SIGTERM))
	select {
	case <-m.over:
	case <-time.After(patience):
		require.FailNow(m, "hostd does not end", m.output())
	}
	require.Zero(m, m.hostd.ProcessState.ExitCode(), "%s", m.output())
	m.requireEmpty()
}

func (m *machine) requireEmpty() {
	m.Helper()
	require.Eventually(m, func() bool { return len(m.processes()) == 0 }, patience, 2*time.Millisecond,
		"processes are left")
}

// processes are the running ones of the machine, without zombies.
func (m *machine) processes() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(data), "\x00"), "HOME="+m.dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && stateOf(pid) != 'Z' {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ignoresTERM reports whether a process ignores SIGTERM already.
func ignoresTERM(pid int) bool {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status") // none: it has ended
	_, rest, _ := strings.Cut(string(data), "SigIgn:\t")
	mask, err := strconv.ParseUint(strings.TrimSpace(rest[:min(16, len(rest))]), 16, 64)
	return err == nil && mask&(1<<(syscall.SIGTERM-1)) != 0
}

// stateOf is the state letter in /proc/PID/stat; 0: no such process.
func stateOf(pid int) byte {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if i := strings.LastIndexByte(string(data), ')'); err == nil && i+2 < len(data) {
		return data[i+2]
	}
	return 0
}

// openBus connects to the server of hostd with its token.
func (m *machine) openBus(ctx context.Context, name string) *bus.Bus {
	m.Helper()
	local, err := bus.ReadLocal(filepath.Join(m.dir, "run", "castnet", "local.json"))
	require.NoError(m, err)
	b, err := bus.Open(ctx, bus.Options{URL: local.URL, Token: local.Token, Name: name})
	require.NoError(m, err)
	return b
}

// connect makes the client. It reconnects by itself later.
func (m *machine) connect() *actor.Proc {
	m.Helper()
	if m.client != nil {
		return m.client
	}
	ctx, cancel := context.WithTimeout(m.Context(), patience)
	defer cancel()
	b := m.openBus(ctx, "client")
	id, err := subjects.NewHostID("client")
	require.NoError(m, err)
	m.client, err = actor.NewProc(ctx, actor.Options{
		ID: id.Proc(), Principal: subjects.Operator.Principal("test"), Bus: b,
	})
	require.NoError(m, err)
	p := m.client
	m.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, _ = p.Close(ctx), b.Close(ctx) // the server may be gone
	})
	return p
}

// host is the host agent of the running hostd.
func (m *machine) host() (actor.Ref[agent.Agent], subjects.HostID) {
	m.Helper()
	p := m.connect()
	var id subjects.HostID
	require.Eventually(m, func() bool {
		hosts, _, err := agent.DiscoverHosts(m.Context(), p.Bus(), p.Space(), 100*time.Millisecond)
		if err != nil || len(hosts) != 1 {
			return false
		}
		id = hosts[0].ID
		return true
	}, patience, 5*time.Millisecond)
	return agent.Of(id.Proc()).Via(p), id
}

// mesh describes a mesh of n procs, with built-in actors unless it is changed.
func (m *machine) mesh(procs int, change func(*agent.Mesh)) agent.Mesh {
	m.Helper()
	_, host := m.host()
	id, err := subjects.NewMeshID("mesh")
	require.NoError(m, err)
	d := agent.Mesh{
		ID: id, Extent: shape.Of("gpu", procs), Hosts: []subjects.HostID{host}, PerHost: procs,
		Owner: m.client.ID().Actor("owner"), Command: agent.Command{Path: agent.Builtin},
	}
	if change != nil {
		change(&d)
	}
	return d
}

// script is a program for a proc without a ready report.
func script(text string) func(*agent.Mesh) {
	return func(d *agent.Mesh) { d.Command = agent.Command{Path: "/bin/sh", Args: []string{"-c", text}} }
}

func kept(d *agent.Mesh) { d.Keep = true }

// spawnMesh makes a mesh and waits until its procs run or have ended.
func (m *machine) spawnMesh(d agent.Mesh) agent.Overlay {
	m.Helper()
	host, _ := m.host()
	return insist(m, agent.Create, host, agent.CreateRequest{Procs: &d, Wait: true})
}

// states are those of the ranks of a mesh.
func (m *machine) states(d agent.Mesh) []agent.State {
	m.Helper()
	host, _ := m.host()
	return insist(m, agent.Get, host, agent.GetRequest{ID: d.ID.String()})
}

// insist calls until it gets an answer: the other side, or the bus, may be coming back.
func insist[M, R any](m *machine, e actor.Endpoint[agent.Agent, M, R], to actor.Ref[agent.Agent],
	msg M) (out R) {
	m.Helper()
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(m.Context(), patience/4)
		out, last = e.Call(ctx, to, msg)
		cancel()
		if failure, ok := errors.AsType[*actor.Error](last); last == nil || ok &&
			failure.Code == actor.CodeHandler {
			break
		}
	}
	require.NoError(m, last)
	return out
}
