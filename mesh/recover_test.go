package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// changing is a mesh with Changes.
type changing interface {
	Changes(ctx context.Context) iter.Seq2[actor.Event, error]
}

// steps receives the changes of a mesh's ranks as texts, all from now on.
func steps(t *testing.T, m changing) <-chan string {
	t.Helper()
	before := 0
	listed, ok := m.(interface{ Watches(ctx context.Context) int })
	if ok {
		before = listed.Watches(t.Context())
	} else {
		require.IsType(t, mesh.HostMesh{}, m) // a watch of hosts has a feed of its own
	}
	ctx, cancel := context.WithCancel(context.Background())
	said, done := make(chan string, 64), make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range m.Changes(ctx) {
			t.Log(e)
			said <- fmt.Sprintf("%d %s %s %v", e.View, e.Status, e.Step, err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	if ok {
		testkit.Until(t, "the watch has begun", func() bool { return listed.Watches(t.Context()) > before })
	}
	return said
}

func hear(t *testing.T, said <-chan string) string {
	t.Helper()
	select {
	case s := <-said:
		return s
	case <-time.After(20 * time.Second):
		require.Fail(t, "no change was reported")
		return ""
	}
}

func TestPolicy_restartBringsBackAKilledProcAndItsActors(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	quick := mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond,
		MaxBackoff: 10 * time.Millisecond}
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", 2), RestartPolicy: quick})
	require.NoError(t, err)
	counters, err := mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "counters", Params: 10, RestartPolicy: quick})
	require.NoError(t, err)
	first := counters.At("host", 1, "gpu", 0)
	said, actors := steps(t, procs), steps(t, counters)

	require.NoError(t, syscall.Kill(c.pids(t, procs)[2], syscall.SIGKILL))
	require.Equal(t, "2 initializing rank.restart.attempt <nil>", hear(t, said))
	require.Equal(t, "2 running rank.restart.success <nil>", hear(t, said))
	require.Equal(t, "2 initializing rank.restart.attempt <nil>", hear(t, actors))
	require.Equal(t, "2 running rank.restart.success <nil>", hear(t, actors))

	sum, err := cast.Reduce(t.Context(), counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 44, sum, "all four answer, and the restarted one counts from 10 again")
	n, err := add.Call(t.Context(), counters.At("host", 1, "gpu", 0), 5)
	require.NoError(t, err)
	require.EqualValues(t, 16, n, "a handle follows the rank")
	_, err = add.Call(t.Context(), first, 5)
	require.ErrorIs(t, err, actor.ErrProcDead, "a ref is the one actor that it was")

	_, err = crash.Call(t.Context(), counters.At("host", 0, "gpu", 1), actor.None{})
	require.Error(t, err)
	require.Equal(t, "1 initializing rank.restart.attempt <nil>", hear(t, actors))
	require.Equal(t, "1 running rank.restart.success <nil>", hear(t, actors))
	n, err = add.Call(t.Context(), counters.At("host", 0, "gpu", 1), 5)
	require.NoError(t, err)
	require.EqualValues(t, 15, n)

	require.NoError(t, procs.Stop(t.Context()))
	for range 4 {
		require.Contains(t, hear(t, said), "stopped")
	}
}

func TestPolicy_dropContinuesWithoutTheRank(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", 3), RestartPolicy: mesh.RestartPolicy{Restart: mesh.Temporary},
	})
	require.NoError(t, err)
	told := make(chan actor.Event, 64)
	_, err = bustest.Open(t, c.Server, func(o *bus.Options) { o.Token = "secret" }).Data().
		Subscribe(c.Net.Proc().Space().Events("", procs.ID()), func(m bus.Msg) {
			var e actor.Event
			if assert.NoError(t, json.Unmarshal(m.Data, &e)) {
				told <- e
			}
		})
	require.NoError(t, err)
	said := steps(t, procs)
	require.NoError(t, syscall.Kill(c.pids(t, procs)[1], syscall.SIGKILL))
	require.Equal(t, "1 failed rank.drop <nil>", hear(t, said))
	counters, err := mesh.SpawnActors(t.Context(), procs.Slice("gpu", 2, 3), counter,
		mesh.ActorSpawnSpec[int64]{Label: "counters"})
	require.NoError(t, err)
	n, err := add.Call(t.Context(), counters.Ref(0), 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, n)

	// The owner reports its decision. No event of the mesh repeats the hosts' reports of requested
	// ends.
	require.NoError(t, procs.Stop(t.Context()))
	var all []string
	for e := range told {
		if all = append(all, e.Kind+" "+e.Step); e.Step == "mesh.stop.success" && e.Actor == "" {
			break
		}
	}
	require.Contains(t, all, "rank rank.drop")
	require.NotContains(t, all, "mesh proc.exit.code")
}

func TestPolicy_refusesInvalidPolicies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	hosts := c.AllHosts(t, c.Net)
	for want, p := range map[string]mesh.RestartPolicy{
		"backoff from -1s":                 {Restart: mesh.Transient, Backoff: -time.Second},
		"permanent: want one of":           {Restart: actor.Permanent},
		"is already a host of the mesh":    {Restart: mesh.Transient, Spares: hosts.Hosts()},
		"restart(9): want one of":          {Restart: 9},
		"most -1 restarts: want 1 to 1000": {Restart: mesh.Transient, MaxRestarts: -1},
		"1 spare host with temporary":      {Restart: mesh.Temporary, Spares: hosts.Hosts()},
	} {
		_, err := hosts.SpawnProcs(t.Context(),
			mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", 1), RestartPolicy: p})
		require.ErrorContains(t, err, want)
	}
}
