package mesh_test

import (
	"context"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// configured gives a client a configuration of its own.
func configured(cfg *config.Config) func(*mesh.Options) {
	return func(o *mesh.Options) { o.Config = cfg }
}

// settings are the non-default keys of a proc, with their layers.
func settings(t *testing.T, conn *mesh.Net, p mesh.ProcMesh, rank int) map[string]string {
	t.Helper()
	return settingsOf(t, conn, p.Describe().ProcID(rank, 0))
}

// settingsOf are those of a proc or of a host.
func settingsOf(t *testing.T, conn *mesh.Net, id subjects.ProcID) map[string]string {
	t.Helper()
	entries, err := agent.GetConfig.Call(t.Context(), agent.Of(id).Via(conn.Proc()), actor.None{})
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

func TestConfig_procsGetClientOverridesAndCanChangeThem(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	cfg := &config.Config{}
	require.NoError(t, config.ProcReadyTimeout.Override(cfg, 2*time.Minute))
	require.NoError(t, config.DeliveryTimeout.Override(cfg, time.Minute))
	require.NoError(t, config.BusPingInterval.Override(cfg, time.Second)) // local: it stays here
	conn := c.Connect(t, configured(cfg))
	procs, err := c.AllHosts(t, conn).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", 2),
	})
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", int64(0))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"proc.ready-timeout": "2m client", "delivery.timeout": "1m client"},
		settings(t, conn, procs, 0))

	_, err = wait.Call(t.Context(), counters.Ref(0), 3*time.Minute)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"proc.ready-timeout": "3m runtime", "delivery.timeout": "1m client"},
		settings(t, conn, procs, 0))
	require.Equal(t, "2m client", settings(t, conn, procs, 1)["proc.ready-timeout"], "others are not touched")
	require.Equal(t, 2*time.Minute, config.ProcReadyTimeout.Get(cfg))
	_, err = wait.Call(t.Context(), counters.Ref(0), -time.Second)
	require.ErrorContains(t, err, "proc.ready-timeout")
}

func TestAttach_hostsTakeTheConfigurationOfTheProgram_MESH8(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	ids := c.AllHosts(t, c.Net).Hosts()
	cfg := &config.Config{}
	require.NoError(t, config.TerminateGrace.Set(cfg, 3*time.Second))
	require.NoError(t, config.BusPingInterval.Set(cfg, time.Second)) // local: it stays here
	require.NoError(t, config.HostAllowExec.Set(cfg, true))          // likewise
	_, err := c.Connect(t, configured(cfg)).Attach(t.Context(), "mine", ids...)
	require.NoError(t, err)
	for _, id := range ids {
		require.Equal(t, map[string]string{"terminate.grace": "3s client"}, settingsOf(t, c.Net, id.Proc()))
	}
	cfg = &config.Config{}
	require.NoError(t, config.LogsTailLines.Set(cfg, 7))
	_, err = c.Connect(t, configured(cfg)).Attach(t.Context(), "mine", ids[1])
	require.NoError(t, err)
	require.Equal(t, map[string]string{"logs.tail-lines": "7 client"}, settingsOf(t, c.Net, ids[1].Proc()),
		"a second push replaces the first")
	require.Equal(t, map[string]string{"terminate.grace": "3s client"}, settingsOf(t, c.Net, ids[0].Proc()))
}

func TestAllocate_hostsHaveTheConfigurationOfTheProgram_MESH8(t *testing.T) {
	t.Parallel()
	for flavour := range flavours(t, nil) {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			cfg := &config.Config{}
			require.NoError(t, config.TerminateGrace.Set(cfg, 3*time.Second))
			c.Net = c.Connect(t, configured(cfg))
			hosts, err := c.Allocate(t.Context(), flavours(t, c)[flavour](t), "hosts", shape.Of("replicas", 2))
			require.NoError(t, err)
			for _, id := range hosts.Hosts() {
				require.Equal(t, map[string]string{"terminate.grace": "3s client"}, settingsOf(t, c.Net, id.Proc()))
			}
			require.NoError(t, hosts.Shutdown(t.Context(), "done"))
		})
	}
}

func TestShutdown_hasTheGraceOfTheCaller_MESH5(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	cfg := &config.Config{}
	require.NoError(t, config.TerminateGrace.Set(cfg, 100*time.Millisecond))
	conn := c.Connect(t, operator, configured(cfg))
	hosts := c.AllHosts(t, conn)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", int64(0))
	require.NoError(t, err)
	(&cluster{c.As(conn)}).keepBusy(t, counters.Ref(0), time.Minute)
	began := time.Now()
	require.NoError(t, hosts.Shutdown(t.Context(), "done"))
	require.Less(t, time.Since(began), agent.DefaultGrace, "the host's own grace")
}

// ownCommand is this program, with more in its environment.
func ownCommand(t *testing.T, env ...string) mesh.Command {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return mesh.Command{Path: self, Env: env}
}

func TestEnv_procsOfAnActorInheritTheTypedEnvironmentOfItsMesh(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	id, err := subjects.NewHostID("root")
	require.NoError(t, err)
	first := run{ID: 1, Root: actor.RefOf[*Counter](id.Proc().Actor("root"))}
	_, err = mesh.NewEnv[chan int]("RUN").Append(nil, nil)
	require.ErrorContains(t, err, "cannot encode RUN")
	inherited, err := runEnv.Append([]string{"A=1", "RUN={"}, first)
	require.NoError(t, err)
	conn := c.Connect(t, func(o *mesh.Options) { o.Env = inherited })
	second, err := runEnv.Append(nil, run{ID: 2})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		own  []string
		want actor.Maybe[run]
	}{
		"inherited": {nil, actor.Maybe[run]{Value: first, OK: true}},
		"own":       {second, actor.Maybe[run]{Value: run{ID: 2}, OK: true}},
	} {
		procs, err := c.AllHosts(t, conn).SpawnProcs(t.Context(), mesh.SpawnSpec{
			Name: name, PerHost: shape.Unit(), Command: mesh.Command{Env: tc.own},
		})
		require.NoError(t, err)
		require.Equal(t, slices.Concat(inherited, tc.own), procs.Describe().Command.Env)
		counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", int64(0))
		require.NoError(t, err)
		got, err := env.Call(t.Context(), counters.Ref(0), actor.None{})
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
	}
	_, counters := c.workers(t, 1, 0)
	got, err := env.Call(t.Context(), counters.Ref(0), actor.None{})
	require.NoError(t, err)
	require.False(t, got.OK, "it is of one program")
}

func TestConfig_hostAppliesTheClientsProcSettings(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	cfg := &config.Config{}
	require.NoError(t, config.ProcReadyTimeout.Set(cfg, time.Millisecond))
	conn := c.Connect(t, configured(cfg))
	_, err := c.AllHosts(t, conn).Spawn(t.Context(), "hasty", shape.Of("gpu", 1))
	require.ErrorContains(t, err, "not ready within 1ms")
	require.NoError(t, config.ProcReadyTimeout.Set(cfg, 0), "without end")
	require.NoError(t, config.ProcDrainTimeout.Set(cfg, time.Second))
	procs, err := c.AllHosts(t, conn).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "patient", PerHost: shape.Of("gpu", 1),
		Command: ownCommand(t, "CASTNET_PROC_DRAIN_TIMEOUT=3s", "CASTNET_ACTOR_MAILBOX_SIZE=7"),
	})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"proc.ready-timeout": "0 client", "proc.drain-timeout": "3s environment",
		"actor.mailbox-size": "7 environment",
	}, settings(t, conn, procs, 0))
	_, err = c.AllHosts(t, conn).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "odd", PerHost: shape.Of("gpu", 1), Command: ownCommand(t, "CASTNET_PROC_DRAIN_TIMEOUT=soon"),
	})
	require.ErrorContains(t, err, `CASTNET_PROC_DRAIN_TIMEOUT="soon": want a duration`)
}

// silent is a host that listens and answers nothing.
func (c *cluster) silent(t *testing.T) subjects.HostID {
	t.Helper()
	id, err := subjects.NewHostID("silent")
	require.NoError(t, err)
	b := c.Open(t)
	mute := actor.NewType[*Counter, actor.None]("mute")
	registry, err := actor.NewRegistry(
		mute.Define(func(*actor.Context, actor.None) (*Counter, error) { return &Counter{}, nil },
			actor.NewEndpoint[*Counter, agent.GetRequest, []agent.State](agent.Get.Name()).
				Handle(unanswered[agent.GetRequest, []agent.State]),
			actor.NewEndpoint[*Counter, config.Snapshot, agent.HostInfo](agent.Attach.Name()).
				Handle(unanswered[config.Snapshot, agent.HostInfo])))
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(),
		actor.Options{ID: id.Proc(), Bus: b, Registry: registry, Coordinator: func(actor.Event) {}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	_, err = p.Spawn(t.Context(), actor.SpawnSpec{Type: mute.Name(), Name: agent.Name, Params: actor.None{}})
	require.NoError(t, err)
	return id
}

// unanswered drops the request.
func unanswered[M, R any](_ *Counter, ctx *actor.Context, _ M) (out R, err error) {
	actor.Defer[R](ctx)
	return out, nil
}

// With the defaults each of these would wait for 30 s and more, longer than the context. Yet the
// context does not end the wait.
func TestKeys_boundWaitsForSilentHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.silent(t)
	cfg := &config.Config{}
	for _, key := range []config.Key[time.Duration]{config.ProcQueryTimeout, config.AttachTimeout} {
		require.NoError(t, key.Set(cfg, 300*time.Millisecond))
	}
	conn := c.Connect(t, configured(cfg))
	for name, ask := range map[string]func(context.Context) error{
		"proc.query-timeout": func(ctx context.Context) error {
			_,
				err := conn.MeshesOn(ctx, []subjects.HostID{id})
			return err
		},
		"attach.timeout": func(ctx context.Context) error { _, err := conn.Attach(ctx, "hosts", id); return err },
	} {
		answered := make(chan error, 1)
		go func() { answered <- ask(context.Background()) }()
		select {
		case err := <-answered:
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
		case <-time.After(15 * time.Second):
			require.FailNow(t, name+" is not kept")
		}
	}
}

func TestKey_actorQueryTimeoutBoundsTheWaitForProcs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	cfg := &config.Config{}
	require.NoError(t, config.ActorQueryTimeout.Set(cfg, 300*time.Millisecond))
	conn := c.Connect(t, configured(cfg))
	procs, err := c.AllHosts(t, conn).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	pid := c.pids(t, procs)[0]
	proctest.Suspend(t, pid)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	answered := make(chan error, 1)
	go func() { _, err := procs.Actors(context.Background()); answered <- err }()
	select {
	case err := <-answered:
		require.Error(t, err)
	case <-time.After(15 * time.Second):
		require.FailNow(t, "actor.query-timeout is not kept")
	}
	proctest.Resume(t, pid)
}

func TestKey_procSpawnProgressTimeoutEndsASilentSpawn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	cfg := &config.Config{}
	require.NoError(t, config.ProcSpawnProgressTimeout.Set(cfg, time.Second))
	_, err := c.AllHosts(t, c.Connect(t, configured(cfg))).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "halting", PerHost: shape.Unit(), Command: mesh.Command{Path: "/bin/sleep", Args: []string{"60"}},
	})
	var failed *mesh.SpawnError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, agent.Timeout, failed.Failed[0].Status.Phase)
}

func TestKey_procStopProgressTimeoutEndsASilentStop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	cfg := &config.Config{}
	conn := c.Connect(t, configured(cfg))
	for timeout := 2 * time.Second; ; timeout *= 2 { // a busy machine needs longer to end the other one
		// an end is reported after a second at most
		require.NoError(t, config.ProcStopProgressTimeout.Set(cfg, timeout))
		require.NoError(t, config.TerminateGrace.Set(cfg, 10*timeout))
		procs, err := c.AllHosts(t, conn).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
		require.NoError(t, err)
		counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", int64(0))
		require.NoError(t, err)
		stay := make(chan struct{})
		go func() {
			defer close(stay)
			_, _ = hold.Call(context.Background(), counters.Ref(1), time.Hour) // its proc waits for it, and is killed
		}()
		require.Eventually(t, func() bool {
			states, err := procs.ActorStates(t.Context(), counters.Name())
			return err == nil && states.Values()[1].Actor.Current != ""
		}, testkit.Patience, 10*time.Millisecond)
		err = procs.Stop(t.Context())
		for _, pid := range c.pids(t, procs) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		<-stay
		var left *mesh.StopError
		require.ErrorAs(t, err, &left)
		if len(left.Remaining) > 1 && timeout < testkit.Patience {
			continue
		}
		require.Len(t, left.Remaining, 1)
		require.Equal(t, 1, left.Remaining[0].Rank)
		return
	}
}
