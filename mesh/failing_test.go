package mesh_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// hurt is a cluster of two hosts. If open is set, their procs run in the hosts' own process, on
// connections made by open.
func hurt(t *testing.T, open func(ctx context.Context, host int, o bus.Options) (*bus.Bus, error)) (*cluster,
	mesh.HostMesh) {
	t.Helper()
	c := newCluster(t)
	var ids []subjects.HostID
	for k, label := range []string{"a", "b"} {
		h, _ := c.Host(t, label, func(o *host.Options) {
			if open == nil {
				return
			}
			registry, err := actor.NewRegistry(defs()...)
			require.NoError(t, err)
			o.Local = &host.Local{Registry: registry, Open: func(ctx context.Context, name string) (*bus.Bus, error) {
				return open(ctx, k, bus.Options{URL: o.Settings.URL, Token: o.Settings.Token, Name: name})
			}}
		})
		ids = append(ids, h.ID())
	}
	hosts, err := c.Attach(t.Context(), "hosts", ids...)
	require.NoError(t, err)
	return c, hosts
}

// allRefused is refused, again while the error names only one of the two ranks: after the first
// failure the other has 2 s.
func allRefused(t *testing.T, c *cluster, hosts mesh.HostMesh, s mesh.SpawnSpec) (by map[int]agent.Status) {
	t.Helper()
	testkit.Until(t, "both ranks are named", func() bool {
		by = refused(t, c, hosts, s)
		return len(by) > 1
	})
	return by
}

// refused spawns an impossible mesh. It requires that the error names every failed rank with its
// host, and that nothing of the mesh remains.
func refused(t *testing.T, c *cluster, hosts mesh.HostMesh, s mesh.SpawnSpec) map[int]agent.Status {
	t.Helper()
	s.PerHost = shape.Unit()
	_, err := hosts.SpawnProcs(t.Context(), s)
	var failed *mesh.SpawnError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 2, failed.Ranks)
	by := map[int]agent.Status{}
	for _, f := range failed.Failed {
		require.Equal(t, hosts.Hosts()[f.Rank].String(), f.Host)
		require.Contains(t, err.Error(), f.Host)
		by[f.Rank] = f.Status
	}
	all, err := c.MeshesOn(t.Context(), hosts.Hosts())
	require.NoError(t, err)
	for _, m := range all {
		require.False(t, m.Alive(), "started ranks are stopped")
	}
	return by
}

// Meaning of test_failing_proc_allocation: the command of the hosts' workers is `false`. In-process
// hosts have no commands; their procs find no bus.
func TestSpawnProcs_failureEverywhereNamesEveryRank(t *testing.T) {
	t.Parallel()
	t.Run("processes", func(t *testing.T) {
		c, hosts := hurt(t, nil)
		path, err := filepath.EvalSymlinks("/bin/sh")
		require.NoError(t, err)
		by := allRefused(t, c, hosts, mesh.SpawnSpec{Name: "failing",
			Command: mesh.Command{Path: path, Args: []string{"-c", "echo no luck >&2; false"}}})
		want := agent.Status{Phase: agent.Failed, Reason: "exited with code 1\n  stderr: no luck"}
		require.Equal(t, map[int]agent.Status{0: want, 1: want}, by)
	})
	t.Run("local", func(t *testing.T) {
		c, hosts := hurt(t, func(context.Context, int, bus.Options) (*bus.Bus, error) {
			return nil, errors.New("no luck")
		})
		want := agent.Status{Phase: agent.Failed, Reason: "no luck"}
		require.Equal(t, map[int]agent.Status{0: want, 1: want},
			allRefused(t, c, hosts, mesh.SpawnSpec{Name: "failing"}))
	})
}

// Meaning of test_halting_proc_allocation: the worker of one host never reports, and that of the
// other runs.
func TestSpawnProcs_hungHostFailsOnlyItsRanks(t *testing.T) {
	t.Parallel()
	halted := func(t *testing.T, spawn func(time.Duration) map[int]agent.Status) (by map[int]agent.Status) {
		t.Helper()
		for timeout := 3 * time.Second; ; timeout *= 2 { // a busy machine needs longer for the other one
			if by = spawn(timeout); len(by) == 1 || timeout >= testkit.Patience {
				break
			}
		}
		require.Len(t, by, 1, "the other one ran")
		for _, s := range by {
			require.Equal(t, agent.Timeout, s.Phase)
			require.True(t, strings.HasPrefix(s.Reason, "still initializing after "), s.Reason)
		}
		return by
	}
	t.Run("processes", func(t *testing.T) {
		t.Parallel()
		c, hosts := hurt(t, nil)
		halted(t, func(timeout time.Duration) map[int]agent.Status {
			first := filepath.Join(t.TempDir(), "first") // whoever makes it halts
			script := "mkdir " + first + " 2>/dev/null && exec sleep 600; exec " + ownPath(t)
			return refused(t, c, hosts, mesh.SpawnSpec{
				Name: "halting", ProgressTimeout: timeout,
				Command: mesh.Command{Path: "/bin/sh", Args: []string{"-c", script}},
			})
		})
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		c, hosts := hurt(t, func(ctx context.Context, host int, o bus.Options) (*bus.Bus, error) {
			if host == 0 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return bus.Open(ctx, o)
		})
		by := halted(t, func(timeout time.Duration) map[int]agent.Status {
			return refused(t, c, hosts, mesh.SpawnSpec{Name: "halting", ProgressTimeout: timeout})
		})
		require.Contains(t, by, 0)
	})
}

func TestHostReady_endsAProcThatIsNotReadyInTime(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(context.Context, int, bus.Options) (*bus.Bus, error){
		"processes": nil,
		"local": func(ctx context.Context, _ int, _ bus.Options) (*bus.Bus, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, hosts := hurt(t, open)
			cfg := &config.Config{}
			require.NoError(t, config.ProcReadyTimeout.Set(cfg, 300*time.Millisecond))
			mine, err := c.Connect(t, configured(cfg)).Attach(t.Context(), "hosts", hosts.Hosts()...)
			require.NoError(t, err)
			want := agent.Status{
				Phase: agent.Failed, Reason: "not ready within 300ms: its program has to call proc.Main by then",
			}
			by := allRefused(t, c, mine, mesh.SpawnSpec{Name: "silent",
				Command: mesh.Command{Path: "/bin/sh", Args: []string{"-c", "exec sleep 60"}}})
			require.Equal(t, map[int]agent.Status{0: want, 1: want}, by)
		})
	}
}

// ownPath is this program.
func ownPath(t *testing.T) string {
	t.Helper()
	return ownCommand(t).Path
}
