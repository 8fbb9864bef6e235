package integration

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
)

const (
	patience = 20 * time.Second // for what takes milliseconds on a machine that is not busy
	poll     = 10 * time.Millisecond
	token    = "integration"
)

// cluster is a NATS server in this process, and hostd processes.
type cluster struct {
	server *embed.Server
	nodes  []*node
	user   string // and password, of a server that knows users; "": a token
}

// newCluster starts a server, and a hostd for each label that allows this binary and the examples.
func newCluster(t *testing.T, labels ...string) *cluster {
	t.Helper()
	return newClusterOn(t, embed.Options{Token: token}, labels...)
}

func newClusterOn(t *testing.T, o embed.Options, labels ...string) *cluster {
	t.Helper()
	noneLeft(t) // registered first, so checked last
	server, err := embed.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	c := &cluster{server: server}
	for _, label := range labels {
		c.nodes = append(c.nodes, c.startNode(t, label))
	}
	if len(labels) > 0 {
		_, err := c.connect(t).AwaitHosts(t.Context(), len(labels))
		require.NoError(t, err)
	}
	return c
}

// environment is what a program of this cluster's gets: how to reach its server, nothing of the
// user's own settings, and a folder for temporary files that must be empty in the end.
func (c *cluster) environment(t *testing.T) []string {
	t.Helper()
	tmp := t.TempDir()
	t.Cleanup(func() {
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left, "INT-2: files are left")
	})
	env := []string{"TMPDIR=" + tmp, "XDG_RUNTIME_DIR=" + tmp, "XDG_CONFIG_HOME=" + t.TempDir()}
	for _, key := range []string{"PATH", "HOME", "GOCACHE", "GOROOT"} {
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	env = append(env, "NATS_URL="+c.server.URL())
	if c.user != "" {
		return append(env, "NATS_USER="+c.user, "NATS_PASSWORD="+c.user)
	}
	return append(env, "NATS_TOKEN="+token)
}

// node is one hostd process.
type node struct {
	cmd    *exec.Cmd
	said   *transcript
	exited chan struct{}
	killed bool
}

func (c *cluster) startNode(t *testing.T, label string, more ...string) *node {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	n := &node{said: &transcript{}, exited: make(chan struct{})}
	n.cmd = exec.Command(program("hostd"), append([]string{
		"--nats", c.server.URL(), "--label", label,
		"--allow", self, "--allow", os.Getenv(binVariable), "--allow", "/bin", "--allow", "/usr/bin",
	}, more...)...)
	n.cmd.Env = c.environment(t)
	n.cmd.Stdout, n.cmd.Stderr = n.said, n.said
	require.NoError(t, n.cmd.Start())
	go func() {
		defer close(n.exited)
		_ = n.cmd.Wait() // how it ended is asked for below
	}()
	t.Cleanup(func() {
		if n.killed {
			return
		}
		require.NoError(t, n.cmd.Process.Signal(syscall.SIGTERM), "hostd is gone: %s", n.said)
		n.awaitExit(t)
		require.Zero(t, n.cmd.ProcessState.ExitCode(), "INT-2: %s", n.said)
	})
	return n
}

func (n *node) awaitExit(t *testing.T) {
	t.Helper()
	select {
	case <-n.exited:
	case <-time.After(patience):
		require.NoError(t, n.cmd.Process.Kill())
		<-n.exited
		t.Fatalf("hostd did not stop: %s", n.said)
	}
}

// kill is kill -9. What a hostd could not clean up is removed for it.
func (n *node) kill(t *testing.T) {
	t.Helper()
	n.killed = true
	require.NoError(t, n.cmd.Process.Kill())
	n.awaitExit(t)
	sweep(t, n.cmd.Env)
}

// sweep empties the folder for temporary files of an environment.
func sweep(t *testing.T, env []string) {
	t.Helper()
	for _, e := range env {
		if tmp, ok := strings.CutPrefix(e, "TMPDIR="); ok {
			left, err := filepath.Glob(filepath.Join(tmp, "*"))
			require.NoError(t, err)
			for _, path := range left {
				require.NoError(t, os.RemoveAll(path))
			}
		}
	}
}

// connect is a client in this process.
func (c *cluster) connect(t *testing.T) *mesh.Net {
	t.Helper()
	net, err := mesh.Connect(t.Context(), mesh.Options{Bus: &bus.Options{URL: c.server.URL(), Token: token}, HostsQuiet: 500 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, net.Close(context.Background())) })
	return net
}

// within is a context for a wait that would have no end if what is waited for did not come.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	return ctx
}

// spawn starts procs that run this binary, so many on each host.
func spawn(t *testing.T, net *mesh.Net, perHost int) mesh.ProcMesh {
	t.Helper()
	hosts, err := net.Hosts(t.Context())
	require.NoError(t, err)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("proc", perHost))
	require.NoError(t, err)
	return procs
}

// pids are the processes of a mesh that its hosts say are alive, by rank.
func pids(t *testing.T, net *mesh.Net, id string) map[int]int {
	t.Helper()
	all, err := net.Meshes(t.Context())
	require.NoError(t, err)
	out := map[int]int{}
	for _, m := range all {
		for _, s := range m.States {
			if s.ID == id && s.Proc != nil && !s.Status.Phase.Terminal() {
				out[s.Rank] = s.Proc.PID
			}
		}
	}
	return out
}

// running lists the processes that run from a file or folder. A zombie runs from nowhere.
func running(t testing.TB, path string) (found []int) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(t, err)
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || exe != path && exe != path+" (deleted)" && !strings.HasPrefix(exe, path+"/") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		require.NoError(t, err)
		if pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

// noneLeft checks INT-1 when the test is over.
func noneLeft(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, path := range []string{self, os.Getenv(binVariable)} {
			gone(t, path)
		}
	})
}

// gone waits until no process runs from a path.
func gone(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(running(t, path)) == 0 }, patience, poll, "INT-1: processes of %s are left", path)
}

// transcript is what a process has said so far.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
