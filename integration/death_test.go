package integration

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
)

func TestKilledProc_isReportedToItsOwnerAndOthersAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn := c.connect(t)
	procs := c.spawn(t, conn, 4)
	m := counters(t, procs)
	pid := testmesh.PIDs(t, conn, procs.ID().String())[5]
	require.NotZero(t, pid)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	for e, err := range procs.Watch(testkit.Soon(t)) {
		require.NoError(t, err)
		require.Equal(t, 5, e.Rank)
		require.Equal(t, int(syscall.SIGKILL), e.Signal)
		require.True(t, strings.HasPrefix(e.Host, "b-"), e.Host)
		break
	}
	_, err := cast.Gather(t.Context(), m, counting.Progress, actor.None{})
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, 7, partial.Coverage.Answered)
	require.Equal(t, "host=1,proc=1", partial.Coverage.FailedRegion())
	require.ErrorIs(t, err, actor.ErrProcDead)
	require.Len(t, testmesh.PIDs(t, conn, procs.ID().String()), 7)
}

func TestKilledHost_endsItsProcs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	conn := c.connect(t)
	procs := c.spawn(t, conn, 4)
	require.Len(t, testmesh.PIDs(t, conn, procs.ID().String()), 4)
	c.nodes[0].kill(t)
	self, err := os.Executable()
	require.NoError(t, err)
	c.awaitNoProcess(t, self)
}

func TestKilledOwner_procsStopWhenTheirLeaseExpires(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	o := c.startOwner(t, "")
	id, ok := strings.CutPrefix(o.ask(t), "mesh ")
	require.True(t, ok, id)
	conn := c.connect(t)
	require.Len(t, testmesh.PIDs(t, conn, id), 2)
	o.kill(t)
	require.Eventually(t, func() bool { return len(testmesh.PIDs(t, conn, id)) == 0 }, testkit.Patience, poll)
	require.Contains(t, c.nodes[0].Said(), "lease expired")
	require.Contains(t, c.nodes[0].Said(), id)
}

func TestKilledOwner_allocatedHostsEndAndTakenOnesContinue(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	o := c.startOwner(t, "")
	var mine mesh.HostMesh
	said := o.send(t, getHosts)
	require.NoError(t, mine.UnmarshalText([]byte(said)), said)
	conn := c.connect(t, testmesh.Operator)
	found, err := conn.AwaitHosts(t.Context(), 3)
	require.NoError(t, err)
	require.Contains(t, found.Hosts(), mine.Hosts()[1])
	o.kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	ended := map[int]bool{}
	for e, err := range mine.Via(conn).Watch(ctx) {
		require.NoError(t, err)
		if ended[e.Rank] = true; len(ended) == 2 {
			break
		}
	}
	require.Len(t, ended, 2)
	c.awaitNoProcess(t, o.Path)
	attached, err := conn.AwaitHosts(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, attached.Hosts(), 1)
	require.ErrorContains(t, attached.Take(t.Context()), "is owned by", "the killed owner still owns it")
	require.NoError(t, attached.TakeOver(t.Context()))
	alive, err := attached.Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true}, alive.Values())
	c.spawn(t, conn, 1)
	sweep(t, o.Env)
}

// owner is a process in ownerMain.
type owner struct {
	*testkit.Process
	in io.WriteCloser
}

// startOwner starts an owner from a path; "" is this binary's.
func (c *cluster) startOwner(t *testing.T, path string) *owner {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(cmp.Or(path, self))
	cmd.Env, cmd.Stderr = append(c.environment(t), roleVariable+"="+roleOwner,
		hostsVariable+"="+strconv.Itoa(len(c.nodes))), os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	o := &owner{testkit.Start(t, cmd), in}
	require.Equal(t, "connected", o.Out.Line(t))
	return o
}

// ask makes it spawn, and returns its answer.
func (o *owner) ask(t *testing.T) string {
	t.Helper()
	return o.send(t, spawnProcs)
}

func (o *owner) send(t *testing.T, line string) string {
	t.Helper()
	_, err := io.WriteString(o.in, line+"\n")
	require.NoError(t, err)
	return o.Out.Line(t)
}

// kill kills the owner.
func (o *owner) kill(t *testing.T) {
	t.Helper()
	o.Send(t, syscall.SIGKILL)
	require.Equal(t, -1, o.Exit(t))
}

// end closes its stdin and waits.
func (o *owner) end(t *testing.T) {
	t.Helper()
	require.NoError(t, o.in.Close())
	require.Zero(t, o.Exit(t), o.Said())
}
