package browser

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

// token signs in to the bus. It has the form of hostd's own.
const token = "castnet-token-1-browser"

// rig is a bus with two hostds, a program with a mesh, and the server of the page.
type rig struct {
	testing.TB
	address *bustest.Address // of the bus
	bus     *embed.Server
	env     []string
	hosts   [2]*testkit.Process // a and b
	program *testkit.Process
	orders  io.WriteCloser // of the program
	mesh    string         // ID of its mesh
	// processes are the IDs of its processes by rank.
	processes [2 * ranksPerHost]int
	ui        *testkit.Process
	url       string // of the page, with the token of its requests
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{TB: t, address: bustest.NewAddress(t)}
	r.startBus()
	r.env = testkit.Environment(t.TempDir(), t.TempDir(), t.TempDir(), "NATS_URL="+r.address.URL(), "NATS_TOKEN="+token,
		"CASTNET_BUS_CONNECT_TIMEOUT=20s") // the machine may be busy
	self, err := os.Executable()
	require.NoError(t, err)
	for i, label := range []string{"a", "b"} {
		r.hosts[i] = r.start(nil, built(t, "hostd"), "--nats", r.address.URL(), "--label", label, "--allow", self)
	}
	for _, h := range r.hosts {
		h.Err.Await(t, "hostd is ready")
	}
	cmd := exec.Command(self)
	cmd.Env = append(r.env, roleVariable+"=1")
	r.orders, err = cmd.StdinPipe()
	require.NoError(t, err)
	r.program = testkit.Start(t, cmd)
	_, err = fmt.Sscanf(r.program.Out.Line(t), "mesh %s", &r.mesh)
	require.NoError(t, err, r.program.Said())
	for range r.processes {
		var rank, pid int
		_, err := fmt.Sscanf(r.program.Out.Line(t), "process %d %d", &rank, &pid)
		require.NoError(t, err)
		r.processes[rank] = pid
	}
	r.ui = r.start(nil, built(t, "castnet"), "ui", "--act", "--no-browser")
	r.url = r.ui.Out.Line(t)
	t.Cleanup(r.stop)
	return r
}

// stop ends the processes gently, so that no proc is left.
func (r *rig) stop() {
	_ = r.orders.Close() // the program may have ended
	for _, p := range []*testkit.Process{r.program, r.ui, r.hosts[0], r.hosts[1]} {
		if p != r.program {
			_ = p.Process.Signal(os.Interrupt) // it may have ended, too
		}
		p.Exit(r)
	}
}

func (r *rig) startBus() {
	r.Helper()
	var err error
	r.bus, err = embed.Start(r.Context(), embed.Options{Token: token, Tickets: true})
	require.NoError(r, err)
	r.Cleanup(r.bus.Shutdown)
	r.address.Serve(r.bus)
}

// start starts a program in the environment of the rig.
func (r *rig) start(in io.Reader, path string, args ...string) *testkit.Process {
	r.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = r.env
	cmd.Stdin = in
	return testkit.Start(r, cmd)
}

// beginCast makes the program cast: two ranks hold the cast until the program ends.
func (r *rig) beginCast() {
	r.Helper()
	_, err := fmt.Fprintln(r.orders, "cast")
	require.NoError(r, err)
}

// kill kills the process of a rank. It returns when the owner knew.
func (r *rig) kill(rank int) time.Time {
	r.Helper()
	require.NoError(r, syscall.Kill(r.processes[rank], syscall.SIGKILL))
	said := r.program.Out.Find(r, fmt.Sprintf("failed %d ", rank))
	var at int64
	_, err := fmt.Sscanf(said, "failed %d %d", &rank, &at)
	require.NoError(r, err, said)
	return time.UnixMicro(at)
}

// built is a program built by make.
func built(t testing.TB, name string) string {
	t.Helper()
	path := repo(t, "bin", name)
	_, err := os.Stat(path)
	require.NoError(t, err, "run `make browser`, which builds bin/%s", name)
	return path
}

// repo is a path within the repository.
func repo(t testing.TB, path ...string) string {
	t.Helper()
	full, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, path...)...))
	require.NoError(t, err)
	return full
}
