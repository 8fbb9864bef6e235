package mesh_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// stall holds the data of one program for another until resume is called. fill fills its queue;
// each packet that leaves later makes room again.
func stall(t *testing.T, from, to *mesh.Net) (resume, fill func()) {
	t.Helper()
	gate, entered := make(chan struct{}), make(chan struct{})
	enter := sync.OnceFunc(func() { close(entered) })
	port, closePort := actor.OpenPortFunc(to.Proc(), func([]byte) error {
		enter()
		<-gate // on the data pump
		return nil
	}, func(error) {})
	resume = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(func() { resume(); closePort() })
	at := port.Via(from.Proc())
	require.NoError(t, at.Send(t.Context(), nil))
	<-entered
	return resume, func() {
		for _, size := range []int{1 << 20, 1 << 16, 1 << 12, 1 << 8, 0} {
			for at.Send(t.Context(), make([]byte, size)) == nil {
			}
		}
	}
}

func TestWatch_reportsRemoteEndsWhileDataIsBlocked_MESH6(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]struct{ to, from, full bool }{
		"to the watcher":             {to: true},
		"to the watcher, queue full": {to: true, full: true},
		"from the watcher":           {from: true, full: true},
		"both ways":                  {to: true, from: true, full: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "a")
			procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 4))
			require.NoError(t, err)
			pids, other := c.pids(t, procs), c.Connect(t)
			resume, fill := func() {}, func() {}
			require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL))
			for _, way := range []struct {
				is       bool
				from, to *mesh.Net
			}{{held.to, c.Net, other}, {held.from, other, c.Net}} {
				if way.is {
					r, f := stall(t, way.from, way.to)
					before, more := resume, fill
					resume, fill = func() { before(); r() }, func() { more(); f() }
				}
			}
			if held.full {
				fill()
			}
			for range 20 { // a watch that nobody shares lists the ranks first
				for e, err := range procs.Via(other).Changes(t.Context()) {
					require.NoError(t, err, "the controller answers each list despite the stalled data")
					require.Equal(t, "0 proc.exit.signal", fmt.Sprint(e.View, " ", e.Step))
					break
				}
			}
			said := steps(t, procs.Via(other))
			require.Equal(t, "0 failed proc.exit.signal <nil>", hear(t, said), "an end from before the watch")
			require.NoError(t, syscall.Kill(pids[1], syscall.SIGKILL))
			require.Equal(t, "1 failed proc.exit.signal <nil>", hear(t, said))
			resume()
			require.NoError(t, syscall.Kill(pids[2], syscall.SIGKILL))
			require.Equal(t, "2 failed proc.exit.signal <nil>", hear(t, said), "each end is reported once")
			require.NoError(t, procs.Slice("gpu", 3, 4).Stop(t.Context()))
			require.Contains(t, hear(t, said), "3 stopped")
			require.Empty(t, said)
		})
	}
}

// The process marks a proc down after its data. That may take a second and more.
func TestChoose_avoidsAKnownEndWhileDataIsBlocked(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, counters := c.workers(t, 2, 0)
	pid, said := c.pids(t, procs)[0], steps(t, procs)
	resume, _ := stall(t, c.Connect(t), c.Net)
	defer resume()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Equal(t, "0 failed proc.exit.signal <nil>", hear(t, said))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		rank, _, err := cast.ChooseRank(over, counters, add, 1)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, rank)
	}
}

func TestWatch_reportsWorldEndsWhileDataIsBlocked_MESH6(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.System(t, "s")
	c.HostInWorld(t, "a", "train", 0)
	c.declare(t, "train", shape.Of("x", 2), 2)
	procs := c.running(t, c.Net, "train", 2)
	pids, other := c.pids(t, procs), c.Connect(t)
	told := eventWords(t, procs.Watch(t.Context()))
	require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL))
	require.Equal(t, "0.0 at 0 failed <nil>", testkit.Next(t, told))
	resume, _ := stall(t, c.Net, other) // who listens to data of one has none of others
	defer resume()
	told = eventWords(t, procs.Via(other).Watch(t.Context()))
	require.Equal(t, "0.0 at 0 failed <nil>", testkit.Next(t, told),
		"the system controller lists earlier ends")
	require.NoError(t, syscall.Kill(pids[1], syscall.SIGKILL))
	require.Equal(t, "1.0 at 1 failed <nil>", testkit.Next(t, told))
}

func TestWatchHosts_reportsChangesWhileDataIsBlocked_MESH6(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	mine, err := c.Allocate(t.Context(), c.here(t), "mine", shape.Of("host", 1))
	require.NoError(t, err)
	other := c.Connect(t)
	resume, _ := stall(t, c.Net, other)
	defer resume()
	fleet, err := other.HostsOf("fleet", mine.Hosts()...)
	require.NoError(t, err)
	said := steps(t, fleet)
	until := func(want string) {
		t.Helper()
		for hear(t, said) != want {
		}
	}
	_, err = agent.Cordon.Call(t.Context(), agent.Of(mine.Hosts()[0].Proc()).Via(c.Proc()),
		agent.CordonRequest{Cordon: true, Reason: "new disks"})
	require.NoError(t, err)
	until("0 cordoned host.mode <nil>")
	require.NoError(t, mine.Shutdown(t.Context(), "done"))
	until("0 stopped host.left <nil>")
}
