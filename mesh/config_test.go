package mesh_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
)

// configured is a client with a configuration of its own.
func (c *cluster) configured(t *testing.T, cfg *config.Config) *mesh.Net {
	t.Helper()
	net, err := mesh.Connect(t.Context(), mesh.Options{
		Bus: &bus.Options{URL: c.server.URL(), Token: "secret"}, HostsQuiet: quiet, Config: cfg,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, net.Close(context.Background())) })
	return net
}

// settings are the keys of a proc that are not as they are by default, with their layers.
func settings(t *testing.T, net *mesh.Net, p mesh.ProcMesh, rank int) map[string]string {
	t.Helper()
	entries, err := agent.Settings.Call(t.Context(), agent.Of(p.Describe().Proc(rank, 0)).Via(net.Proc()), actor.None{})
	require.NoError(t, err)
	require.Len(t, entries, len(config.Keys()))
	said := map[string]string{}
	for _, e := range entries {
		if e.Layer != config.LayerDefault {
			said[e.Name] = e.Value + " " + string(e.Layer)
		}
	}
	return said
}

func TestConfig_whatAClientOverridesReachesItsProcsAndTheyMayChangeIt(t *testing.T) {
	c := newCluster(t, "a")
	cfg := &config.Config{}
	require.NoError(t, config.HostReady.Override(cfg, 2*time.Minute))
	require.NoError(t, config.DeliveryDeadline.Override(cfg, time.Minute))
	require.NoError(t, config.BusPing.Override(cfg, time.Second)) // local: it stays here
	net := c.configured(t, cfg)
	procs, err := c.hosts(t, net).SpawnProcs(t.Context(), mesh.Spawning{
		Name: "workers", PerHost: shape.Of("gpu", 2),
	})
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", int64(0))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"host.ready": "2m client", "delivery.deadline": "1m client"}, settings(t, net, procs, 0))

	_, err = wait.Call(t.Context(), counters.Ref(0), 3*time.Minute)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"host.ready": "3m runtime", "delivery.deadline": "1m client"}, settings(t, net, procs, 0))
	require.Equal(t, "2m client", settings(t, net, procs, 1)["host.ready"], "others are not touched")
	require.Equal(t, 2*time.Minute, config.HostReady.Get(cfg))
	_, err = wait.Call(t.Context(), counters.Ref(0), -time.Second)
	require.ErrorContains(t, err, "host.ready")
}

// ownCommand is this program, with more in its environment.
func ownCommand(t *testing.T, env ...string) mesh.Command {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return mesh.Command{Path: self, Env: env}
}

func TestConfig_theHostGoesByWhatTheClientSaysOfItsProcs(t *testing.T) {
	c := newCluster(t, "a")
	cfg := &config.Config{}
	require.NoError(t, config.HostReady.Set(cfg, time.Millisecond))
	net := c.configured(t, cfg)
	_, err := c.hosts(t, net).Spawn(t.Context(), "hasty", shape.Of("gpu", 1))
	require.ErrorContains(t, err, "not ready within 1ms")
	require.NoError(t, config.HostReady.Set(cfg, 0), "without end")
	require.NoError(t, config.ProcDrain.Set(cfg, time.Second))
	procs, err := c.hosts(t, net).SpawnProcs(t.Context(), mesh.Spawning{
		Name: "patient", PerHost: shape.Of("gpu", 1), Command: ownCommand(t, "CASTNET_PROC_DRAIN=3s", "CASTNET_ACTOR_MAILBOX=7"),
	})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"host.ready": "0 client", "proc.drain": "3s environment", "actor.mailbox": "7 environment",
	}, settings(t, net, procs, 0))
	_, err = c.hosts(t, net).SpawnProcs(t.Context(), mesh.Spawning{
		Name: "odd", PerHost: shape.Of("gpu", 1), Command: ownCommand(t, "CASTNET_PROC_DRAIN=soon"),
	})
	require.ErrorContains(t, err, `CASTNET_PROC_DRAIN="soon": want a duration`)
}
