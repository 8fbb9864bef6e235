package mesh_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
)

// cluster is a server, some hosts, and a client, each with connections of its own.
func cluster(t *testing.T, labels ...string) *mesh.Net {
	t.Helper()
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	srv, err := embed.Start(t.Context(), embed.Options{Token: "secret"})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	for _, label := range labels {
		b, err := bus.Open(t.Context(), bus.Options{URL: srv.URL(), Token: "secret", Name: "host/" + label, Log: log})
		require.NoError(t, err)
		h, err := host.Start(t.Context(), host.Options{
			Label: label, Bus: b, Settings: agent.BusSettings{URL: srv.URL(), Token: "secret"}, Log: log, AllowUser: true,
		})
		require.NoError(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			require.NoError(t, h.Close(ctx))
			require.NoError(t, b.Close(ctx))
		})
	}
	net, err := mesh.Connect(t.Context(), mesh.Options{Bus: &bus.Options{URL: srv.URL(), Token: "secret"}, Log: log})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, net.Close(context.Background())) })
	return net
}

func TestMesh_theMainJobOnTwoHosts(t *testing.T) {
	net := cluster(t, "a", "b")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	hosts, err := net.Hosts(ctx)
	require.NoError(t, err)
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 4))
	require.NoError(t, err)
	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 10)
	require.NoError(t, err)

	n, err := add.Call(ctx, counters.At("host", 1, "gpu", 3), 5)
	require.NoError(t, err)
	require.EqualValues(t, 15, n)
	sum, err := cast.Reduce(ctx, counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 8*11+5, sum)
	all, err := cast.Gather(ctx, counters.Slice("gpu", 2, 4), add, 1)
	require.NoError(t, err)
	require.Equal(t, []int64{12, 12, 12, 17}, all.Values())

	_, err = crashCall(ctx, counters)
	require.ErrorIs(t, err, actor.ErrPanic)
	_, err = cast.Gather(ctx, counters, add, 1)
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, "host=0,gpu=1", partial.Coverage.FailedRegion())
	require.NoError(t, procs.Stop(ctx))
}

func crashCall(ctx context.Context, m mesh.ActorMesh[*Counter]) (actor.None, error) {
	return crash.Call(ctx, m.At("host", 0, "gpu", 1), actor.None{})
}
