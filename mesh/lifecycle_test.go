package mesh_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// watchEvents receives the events of meshes from now on.
func (c *cluster) watchEvents(t *testing.T) <-chan actor.Event {
	t.Helper()
	told := make(chan actor.Event, 64)
	conn := bustest.Open(t, c.Server, func(o *bus.Options) { o.Token = "secret" }).Data()
	_, err := conn.Subscribe(c.Proc().Space().Events(actor.KindMesh, subjects.MeshID{}), func(m bus.Msg) {
		var e actor.Event
		if assert.NoError(t, json.Unmarshal(m.Data, &e)) {
			told <- e
		}
	})
	require.NoError(t, err)
	require.NoError(t, conn.Flush(t.Context()))
	return told
}

// await is the first event of a step.
func await(t *testing.T, told <-chan actor.Event, step string) actor.Event {
	t.Helper()
	for {
		select {
		case e := <-told:
			if e.Step == step {
				return e
			}
		case <-time.After(20 * time.Second):
			require.FailNow(t, "no event", step)
		}
	}
}

func TestLifecycle_hostMeshStepsNameTheRequester(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	told := c.watchEvents(t)
	hosts, err := c.Allocate(t.Context(), c.here(t), "mine", shape.Of("host", 2))
	require.NoError(t, err)
	require.NoError(t, hosts.Shutdown(t.Context(), "done"))
	_, err = c.Allocate(t.Context(), mesh.StaticHosts(hosts.Hosts()), "again", shape.Of("host", 2))
	require.Error(t, err, "they are gone")
	s := &stubborn{}
	none, err := c.Allocate(t.Context(), c.here(t), "stubborn", shape.Of("host", 1))
	require.NoError(t, err)
	s.StaticHosts = none.Hosts()
	listed, err := c.Allocate(t.Context(), s, "stubborn", shape.Of("host", 1))
	require.NoError(t, err)
	require.Error(t, listed.Shutdown(t.Context(), "done"))
	for _, want := range []string{
		"hosts.allocate.attempt initializing mine: 2 hosts", "hosts.allocate.success running mine: 2 hosts",
		"hosts.shutdown.attempt stopping mine: 2 hosts", "hosts.shutdown.success stopped mine: 2 hosts",
	} {
		e := <-told
		require.Equal(t, want, e.Step+" "+e.Status+" "+e.Name+": "+e.Reason)
	}
	failed := await(t, told, "hosts.allocate.failed")
	for _, id := range hosts.Hosts() {
		require.Contains(t, failed.Reason, id.String())
	}
	require.Contains(t, await(t, told, "hosts.shutdown.failed").Reason, "not now")
}

func TestLifecycle_partialStopIsReported(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	cfg := &config.Config{}
	for _, key := range []config.Key[time.Duration]{config.TerminateGrace, config.TerminateGraceSingle,
		config.MeshStopTimeout} {
		require.NoError(t, key.Set(cfg, time.Second/2))
	}
	procs, err := c.AllHosts(t, c.Connect(t, configured(cfg))).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", int64(0))
	require.NoError(t, err)
	told := c.watchEvents(t)
	const held = 8 * time.Second // longer than a controller waits with these keys
	c.keepBusy(t, counters.Ref(1), held)
	err = counters.Stop(context.Background())
	require.ErrorAs(t, err, new(*mesh.StopError))
	require.Equal(t, "1 of 2 ranks have not ended", await(t, told, "mesh.stop.failed").Reason)
	await(t, told, "mesh.stop.success")
}

func TestClose_logsAnOwnerThatDidNotStopItsMesh_MESH2(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	var said bytes.Buffer
	conn := c.Connect(t, func(o *mesh.Options) { o.Log = zerolog.New(zerolog.SyncWriter(&said)) })
	procs, err := c.AllHosts(t, conn).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "stopped", 0)
	require.NoError(t, err)
	require.NoError(t, counters.Stop(t.Context()))
	require.NoError(t, conn.Close(t.Context()))
	require.Contains(t, said.String(), `"mesh":"`+procs.ID().String()+
		`","ranks":2,"message":"stopping the mesh: its owner ended without a Stop"`)
	require.NotContains(t, said.String(), `"mesh":"`+counters.Name())
}
