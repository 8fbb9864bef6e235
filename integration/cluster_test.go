package integration

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
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
	tmp    string // where the temporary files of its programs are, and of no others
	user   string // and password, of a server that knows users; "": a token
}

// newCluster starts a server, and a hostd for each label that allows this binary and the examples.
func newCluster(t *testing.T, labels ...string) *cluster {
	t.Helper()
	return newClusterOn(t, embed.Options{Token: token}, labels...)
}

func newClusterOn(t *testing.T, o embed.Options, labels ...string) *cluster {
	t.Helper()
	c := onServer(t, o)
	for _, label := range labels {
		c.nodes = append(c.nodes, c.startNode(t, label))
	}
	if len(labels) > 0 {
		_, err := c.connect(t).AwaitHosts(t.Context(), len(labels))
		require.NoError(t, err)
	}
	return c
}

// onServer is a cluster without hosts. In the end none of its processes is left (INT-1).
func onServer(t *testing.T, o embed.Options) *cluster {
	t.Helper()
	c := &cluster{tmp: t.TempDir()}
	heardBy := os.Getenv(listenerVariable)
	o.JetStream = o.JetStream || heardBy == stream
	self, err := os.Executable()
	require.NoError(t, err)
	t.Cleanup(func() { // registered first, so checked last
		for _, path := range []string{self, os.Getenv(binVariable)} {
			c.gone(t, path)
		}
	})
	c.server, err = embed.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.server.Shutdown)
	c.overheard(t, heardBy)
	return c
}

// environment is what a program of this cluster's gets: how to reach its server, nothing of the
// user's own settings, and a folder for temporary files that must be empty in the end.
func (c *cluster) environment(t *testing.T) []string {
	t.Helper()
	tmp, err := os.MkdirTemp(c.tmp, "")
	require.NoError(t, err)
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
	said   *testkit.Transcript
	exited chan struct{}
	killed bool
}

func (c *cluster) startNode(t *testing.T, label string, more ...string) *node {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	n := &node{said: &testkit.Transcript{}, exited: make(chan struct{})}
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
	return testmesh.Connect(t, c.server)
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

// running lists the processes of this cluster that run from a file or folder. A zombie runs from nowhere.
func (c *cluster) running(t testing.TB, path string) (found []int) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(t, err)
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || exe != path && exe != path+" (deleted)" && !strings.HasPrefix(exe, path+"/") {
			continue
		}
		env, err := os.ReadFile(filepath.Join(filepath.Dir(link), "environ"))
		if err != nil || !bytes.Contains(env, []byte("TMPDIR="+c.tmp+"/")) {
			continue // it has ended, or is another test's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		require.NoError(t, err)
		found = append(found, pid)
	}
	return found
}

// gone waits until no process of this cluster runs from a path.
func (c *cluster) gone(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(c.running(t, path)) == 0 }, patience, poll, "INT-1: processes of %s are left", path)
}
