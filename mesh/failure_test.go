package mesh_test

import (
	"bytes"
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// A careless actor makes a mesh and does not watch it.
type careless struct {
	net *mesh.Net
	own bool
}

var (
	carelessType = actor.NewType[*careless, *mesh.Net]("careless") // nil: it has a Net of its own
	makes        = actor.NewEndpoint[*careless, actor.None, mesh.ProcMesh]("makes")
)

func carelessDef() actor.Def {
	return carelessType.Define(func(ctx *actor.Context, conn *mesh.Net) (*careless, error) {
		if conn != nil {
			return &careless{net: conn}, nil
		}
		return &careless{mesh.NetOf(ctx), true}, nil
	}, makes.Handle((*careless).makes))
}

func (o *careless) makes(ctx *actor.Context, _ actor.None) (mesh.ProcMesh, error) {
	hosts, err := o.net.AwaitHosts(ctx, 1)
	if err != nil {
		return mesh.ProcMesh{}, err
	}
	return hosts.Spawn(ctx, "workers", shape.Of("gpu", 2))
}

func (o *careless) Cleanup(ctx *actor.Context, _ error) error {
	if !o.own {
		return nil
	}
	return o.net.Close(ctx)
}

// words collects log lines.
type words struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// handling is one more client, with a handler for failures.
func (c *cluster) handling(t *testing.T, log zerolog.Logger, onFailure func(actor.Event)) *mesh.Net {
	t.Helper()
	return c.Connect(t, func(o *mesh.Options) {
		o.Log, o.OnFailure, o.Actors = log, onFailure, []actor.Def{carelessDef(), actors()}
	})
}

func TestFailure_unwatchedMeshFailsTheActorThatMadeIt_MESH21(t *testing.T) { // CTL-19
	t.Parallel()
	c := newCluster(t, "a")
	said := &words{}
	conn := c.handling(t, zerolog.New(said), nil)
	hosts := c.AllHosts(t, conn)
	who, err := actor.Spawn(t.Context(), conn.Proc(), carelessType, "careless", nil)
	require.NoError(t, err)
	procs, err := makes.Call(t.Context(), who, actor.None{})
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs.Via(conn), counter, "counters", 0)
	require.NoError(t, err)
	require.NoError(t, conn.Context().Err())

	require.NoError(t, syscall.Kill(c.pids(t, procs)[1], syscall.SIGKILL))
	<-conn.Context().Done()
	e, ok := context.Cause(conn.Context()).(*actor.Error)
	require.True(t, ok)
	require.ErrorIs(t, e, actor.ErrFailed)
	require.Equal(t, 1, e.Event.RootCause().Rank, e.Event.Report())
	require.Contains(t, e.Event.Report(), "careless")
	require.Contains(t, e.Event.Report(), "killed by signal 9")
	require.Contains(t, said.String(), "killed by signal 9")

	_, err = add.Call(t.Context(), counters.Ref(0), 1)
	require.ErrorIs(t, err, actor.ErrFailed, "a call")
	require.ErrorIs(t, add.Send(t.Context(), counters.Ref(0), 1), actor.ErrFailed, "a post")
	_, err = cast.Gather(t.Context(), counters, add, 1)
	require.ErrorIs(t, err, actor.ErrFailed, "a cast")
	_, err = hosts.Spawn(t.Context(), "more", shape.Of("gpu", 1))
	require.Error(t, err, "a spawn")
}

func TestFailure_failsTheMakerDespiteAProgramHandler_MESH21(t *testing.T) {
	c := newCluster(t, "a")
	told, said := make(chan actor.Event, 8), &words{}
	conn := c.handling(t, zerolog.New(said).Level(zerolog.WarnLevel), func(e actor.Event) { told <- e })
	who, err := actor.Spawn(t.Context(), conn.Proc(), carelessType, "careless", conn)
	require.NoError(t, err)
	procs, err := makes.Call(t.Context(), who, actor.None{})
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(c.pids(t, procs)[1], syscall.SIGKILL))
	e := testkit.Next(t, told)
	require.Equal(t, who.ID().Name, e.Actor, e.Report())
	require.Equal(t, procs.ID().String(), e.RootCause().Mesh, e.Report())
	require.Equal(t, 1, e.RootCause().Rank)
	require.NoError(t, conn.Context().Err())
	require.Empty(t, c.pids(t, procs))
	require.Empty(t, told)
	require.NotContains(t, said.String(), "missed")
}

func TestFailure_programHandlerReceivesUnhandledFailures_MESH21(t *testing.T) { // CTL-19
	t.Parallel()
	c := newCluster(t, "a")
	told := make(chan actor.Event, 8)
	conn := c.handling(t, zerolog.Nop(), func(e actor.Event) { told <- e })
	hosts := c.AllHosts(t, conn)
	spawn := func(name string) mesh.ProcMesh {
		procs, err := hosts.Spawn(t.Context(), name, shape.Of("gpu", 2))
		require.NoError(t, err)
		return procs
	}
	watched, stopped, left := spawn("watched"), spawn("stopped"), spawn("left")
	require.NoError(t, syscall.Kill(c.pids(t, watched)[0], syscall.SIGKILL))
	for e, err := range watched.Watch(t.Context()) {
		require.NoError(t, err)
		require.True(t, e.Failed())
		break
	}
	require.NoError(t, stopped.Stop(t.Context()))
	require.NoError(t, syscall.Kill(c.pids(t, left)[1], syscall.SIGKILL))
	e := <-told
	require.Equal(t, left.ID().String(), e.Mesh)
	require.Equal(t, 1, e.Rank)
	require.Empty(t, told)
	require.NoError(t, conn.Context().Err())

	lone, err := actor.Spawn(t.Context(), conn.Proc(), counter, "lone", 0)
	require.NoError(t, err)
	_, err = crash.Call(t.Context(), lone, actor.None{})
	require.ErrorIs(t, err, actor.ErrPanic)
	require.Equal(t, lone.ID().Name, (<-told).Actor)
	require.NoError(t, conn.Context().Err())
}

func TestFailure_actorsLostWithARestartedProcAreAFailure_MESH21(t *testing.T) { // CTL-19
	t.Parallel()
	c := newCluster(t, "a")
	told := make(chan actor.Event, 8)
	conn := c.handling(t, zerolog.Nop(), func(e actor.Event) { told <- e })
	restart := mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond}
	procs, err := c.AllHosts(t, conn).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", 2), RestartPolicy: restart,
	})
	require.NoError(t, err)
	_, err = mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "kept", RestartPolicy: restart})
	require.NoError(t, err)
	lost, err := mesh.Spawn(t.Context(), procs, counter, "lost", 0)
	require.NoError(t, err)

	require.NoError(t, procs.Restart(t.Context(), mesh.RollingRestart{Force: true}))
	again, err := mesh.Spawn(t.Context(), procs, counter, "again", 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(c.pids(t, procs)[1], syscall.SIGKILL))
	e := testkit.Next(t, told)
	require.Equal(t, again.Name(), e.Actor, "%s has ended on request: %s", lost.Name(), e.Report())
	require.Equal(t, 1, e.Rank)
	require.Contains(t, e.Report(), "killed by signal 9")
	require.Empty(t, told)
}
