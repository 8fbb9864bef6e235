package mesh_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// locally is a client of four hosts with procs in this process, on a configured server. The channel
// has the subjects of all casts.
func locally(t *testing.T, config string) (mesh.HostMesh, <-chan string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	// one of several has to listen
	srv := bustest.Server(t, func(o *embed.Options) { o.ConfigFile, o.DontListen = path, false })
	registry, err := actor.NewRegistry(actors())
	require.NoError(t, err)
	for _, label := range []string{"a", "b", "c", "d"} {
		h, err := host.Start(t.Context(), host.Options{Label: label, Bus: bustest.Open(t, srv), Local: &host.Local{
			Registry: registry,
			Open: func(ctx context.Context, name string) (*bus.Bus, error) {
				return bus.Open(ctx, bus.Options{Server: srv, Name: name})
			},
		}})
		require.NoError(t, err)
		testkit.Close(t, h.Close)
	}
	hosts, err := testmesh.Connect(t, srv).AwaitHosts(t.Context(), 4)
	require.NoError(t, err)
	casts := make(chan string, 64)
	_, err = bustest.Open(t, srv).Data().Subscribe( // the client does not hear itself
		"castnet.v1.default.k.>", func(m bus.Msg) { casts <- m.Subject })
	require.NoError(t, err)
	return hosts, casts
}

func TestSpawn_localProcsShareProcessAndConnections(t *testing.T) {
	t.Parallel()
	hosts, casts := locally(t, "")
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 3))
	require.NoError(t, err)
	require.Equal(t, 3, procs.Describe().PerProcess)
	require.Empty(t, casts, "one server knows all subscriptions")
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", 1)
	require.NoError(t, err)
	sum, err := cast.Reduce(t.Context(), counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 6*4, sum)
	require.NoError(t, procs.Stop(t.Context()))
}

func TestSpawn_returnsAfterCastsReachAllServers_MESH3(t *testing.T) {
	t.Parallel()
	hosts, casts := locally(t, `cluster { name: several, listen: "127.0.0.1:-1" }`)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 3))
	require.NoError(t, err)
	select {
	case subject := <-casts:
		require.Contains(t, subject, procs.ID().String()+".agent.ping.")
	case <-time.After(10 * time.Second):
		t.Fatal("no cast")
	}
	require.NoError(t, procs.Stop(t.Context()))
}
