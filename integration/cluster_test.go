package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

const (
	poll = 10 * time.Millisecond
	// token has the form of hostd's own, so each program signs in with a ticket of its own.
	token = "castnet-token-1-integration"
)

// cluster is a NATS server in this process, and hostd processes.
type cluster struct {
	server *embed.Server
	nodes  []*node
	tmp    string // where the temporary files of its programs are, and of no others
	user   string // and password, of a server that knows users; "": a token
}

// newCluster starts a server, and a hostd for each label. The hostds permit this binary and the
// examples.
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
	for _, n := range c.nodes {
		n.ready(t)
	}
	return c
}

// violations is the log of a server that denies nothing to any client of a test.
type violations struct{ t *testing.T }

func (v violations) Write(line []byte) (int, error) {
	// doctor tries what the server refuses
	if bytes.Contains(line, []byte(" Violation - ")) && !bytes.Contains(line, []byte(":doctor/")) {
		v.t.Errorf("the server denied a client of castnet something: %s", line)
	}
	return len(line), nil
}

// onServer is a cluster without hosts. Its procs have tickets, and the server denies nothing, unless
// it has a configuration file. In the end none of its processes is left.
func onServer(t *testing.T, o embed.Options) *cluster {
	t.Helper()
	c := &cluster{tmp: t.TempDir()}
	heardBy := os.Getenv(listenerVariable)
	o.JetStream = o.JetStream || heardBy == stream
	self, err := os.Executable()
	require.NoError(t, err)
	t.Cleanup(func() { // registered first, so checked last
		for _, path := range []string{self, os.Getenv(binVariable)} {
			c.awaitNoProcess(t, path)
		}
	})
	if o.ConfigFile == "" {
		o.Tickets = true
		o.Log = zerolog.New(violations{t}).Level(zerolog.ErrorLevel)
	}
	c.server, err = embed.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.server.Shutdown)
	c.addListener(t, heardBy)
	return c
}

// environment is the environment of this cluster's programs. It has the address of the server,
// nothing of the user's own settings, and a folder for temporary files. The folder must be empty in
// the end.
func (c *cluster) environment(t *testing.T) []string {
	t.Helper()
	tmp, err := os.MkdirTemp(c.tmp, "")
	require.NoError(t, err)
	t.Cleanup(func() {
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left, "files are left")
	})
	env := testkit.Environment(tmp, t.TempDir(), tmp, "NATS_URL="+c.server.URL())
	if c.user != "" {
		return append(env, "NATS_USER="+c.user, "NATS_PASSWORD="+c.user)
	}
	return append(env, "NATS_TOKEN="+token)
}

// node is one hostd process.
type node struct {
	*testkit.Process
	killed bool
}

func (c *cluster) startNode(t *testing.T, label string, more ...string) *node {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := c.command(t, program("hostd"), append([]string{
		"--nats", c.server.URL(), "--label", label,
		"--allow", self, "--allow", os.Getenv(binVariable), "--allow", "/bin", "--allow", "/usr/bin",
	}, more...)...)
	n := &node{Process: testkit.Start(t, cmd)}
	t.Cleanup(func() {
		if !n.killed {
			n.Stop(t)
		}
	})
	return n
}

// ready waits until the host can be found. With a wildcard listener an earlier search takes 5 s,
// because the server cannot report missing listeners.
func (n *node) ready(t *testing.T) {
	t.Helper()
	n.Out.Await(t, "hostd is ready")
}

// command is a program with the environment of this cluster. Its output is one transcript.
func (c *cluster) command(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	cmd, said := exec.Command(path, args...), &testkit.Transcript{}
	cmd.Env, cmd.Stdout, cmd.Stderr = c.environment(t), said, said
	return cmd
}

// kill is kill -9. It then removes the files that hostd left.
func (n *node) kill(t *testing.T) {
	t.Helper()
	n.killed = true
	n.Send(t, syscall.SIGKILL)
	n.Exit(t)
	sweep(t, n.Env)
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

// connect is a client in this process, for tests without reconnects.
func (c *cluster) connect(t *testing.T, change ...func(*mesh.Options)) *mesh.Net {
	t.Helper()
	settings := func(o *mesh.Options) {
		o.Config = &config.Config{}
		// or it closes 5 s after a host was killed
		require.NoError(t, config.DeliveryReconnectTimeout.Override(o.Config, time.Second))
	}
	return testmesh.Connect(t, c.server, append([]func(*mesh.Options){settings}, change...)...)
}

// spawn starts some procs of this binary on each host.
func (c *cluster) spawn(t *testing.T, conn *mesh.Net, perHost int) mesh.ProcMesh {
	t.Helper()
	hosts, err := conn.AwaitHosts(t.Context(), len(c.nodes))
	require.NoError(t, err)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("proc", perHost))
	require.NoError(t, err)
	return procs
}

// running lists the processes of this cluster with a program in a file or folder. A zombie has no
// program.
func (c *cluster) running(t testing.TB, path string) (found []int) {
	t.Helper()
	all, err := os.ReadDir("/proc") // a pattern would read the folder of each process
	require.NoError(t, err)
	for _, d := range all {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue // no process
		}
		exe, err := os.Readlink(filepath.Join("/proc", d.Name(), "exe"))
		if err != nil || exe != path && exe != path+" (deleted)" && !strings.HasPrefix(exe, path+"/") {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", d.Name(), "environ"))
		if err != nil || !bytes.Contains(env, []byte("TMPDIR="+c.tmp+"/")) {
			continue // it has ended, or is another test's
		}
		found = append(found, pid)
	}
	return found
}

// awaitNoProcess waits until no process of this cluster runs from a path.
func (c *cluster) awaitNoProcess(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(c.running(t, path)) == 0 }, testkit.Patience, poll,
		"processes of %s are left", path)
}
