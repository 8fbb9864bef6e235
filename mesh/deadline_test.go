package mesh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// The hosts would give such a proc 30 s, and then report a failure.
func TestKey_meshSpawnDeadlineEndsAnUnboundedSpawn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	cfg := &config.Config{}
	require.NoError(t, config.MeshSpawnTimeout.Set(cfg, 2*time.Second))
	_, err := c.AllHosts(t, c.Connect(t, configured(cfg))).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "halting", PerHost: shape.Unit(), ProgressTimeout: -1,
		Command: mesh.Command{Path: "/bin/sleep", Args: []string{"60"}},
	})
	var failed *mesh.SpawnError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, agent.Timeout, failed.Failed[0].Status.Phase)
}

// An actor in its constructor has not failed: its rank is Timeout, and nothing of the mesh is left.
func TestKey_actorSpawnProgressTimeoutEndsASpawnWithHungConstructors(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	cfg := &config.Config{}
	require.NoError(t, config.MeshCleanupTimeout.Set(cfg, time.Second/2)) // they cannot be stopped, either
	procs, err := c.AllHosts(t, c.Connect(t, configured(cfg))).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	for name, free := range map[string]bool{"owned": false, "of nobody": true} {
		// A busy machine needs longer to make the other actor, and to answer.
		for timeout := time.Second; ; timeout *= 2 {
			require.NoError(t, config.ActorSpawnProgressTimeout.Set(cfg, timeout))
			_, err = mesh.SpawnActors(t.Context(), procs, halting,
				mesh.ActorSpawnSpec[time.Duration]{Label: "halting", Params: timeout + 2*time.Second, Uncontrolled: free})
			failed, named := errors.AsType[*mesh.SpawnError](err)
			if (!named || len(failed.Failed) > 1) && timeout < testkit.Patience {
				continue
			}
			require.True(t, named, "%s: %v", name, err)
			require.Len(t, failed.Failed, 1, "the other one was made")
			require.Equal(t, 1, failed.Failed[0].Rank)
			require.Equal(t, agent.Timeout, failed.Failed[0].Status.Phase, name)
			break
		}
	}
}

func TestSpawn_cancelledSpawnIsStopped(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	hosts := c.AllHosts(t, c.Net)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := hosts.SpawnProcs(ctx, mesh.SpawnSpec{
		Name: "halting", PerHost: shape.Unit(), Command: mesh.Command{Path: "/bin/sleep", Args: []string{"60"}},
	})
	require.Error(t, err)
	all, err := c.Meshes(t.Context())
	require.NoError(t, err)
	for _, m := range all {
		require.False(t, m.Alive())
	}
}
