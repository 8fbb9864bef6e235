package mesh_test

import (
	"errors"
	"iter"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// overseer is an actor that owns procs.
type overseer struct {
	net   *mesh.Net
	brave bool // it deals with failures itself
	heard chan actor.Event
}

type overseeing struct {
	brave bool
	heard chan actor.Event
}

var (
	overseerType = actor.NewType[*overseer, overseeing]("overseer")
	own          = actor.NewEndpoint[*overseer, actor.None, mesh.ProcMesh]("own")
)

func overseers() actor.Def {
	return overseerType.Define(func(ctx *actor.Context, o overseeing) (*overseer, error) {
		return &overseer{net: mesh.NetOf(ctx), brave: o.brave, heard: o.heard}, nil
	}, own.Handle((*overseer).own))
}

func (o *overseer) own(ctx *actor.Context, _ actor.None) (mesh.ProcMesh, error) {
	hosts, err := o.net.AwaitHosts(ctx, 1)
	if err != nil {
		return mesh.ProcMesh{}, err
	}
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 2))
	if err != nil {
		return mesh.ProcMesh{}, err
	}
	mesh.Supervise(ctx, procs, func(_ *actor.Context, e actor.Event) error {
		o.heard <- e
		if o.brave {
			return nil
		}
		return errors.New(e.Reason)
	})
	return procs, nil
}

func (o *overseer) Cleanup(ctx *actor.Context, _ error) error { return o.net.Close(ctx) }

// startOverseer starts an overseer in a program of its own, and waits until its procs run.
func (c *cluster) startOverseer(t *testing.T, o overseeing) (conn *mesh.Net, who actor.Ref[*overseer],
	procs mesh.ProcMesh) {
	t.Helper()
	conn = c.Connect(t, func(o *mesh.Options) { o.Actors = []actor.Def{overseers()} })
	who, err := actor.Spawn(t.Context(), conn.Proc(), overseerType, "overseer", o)
	require.NoError(t, err)
	procs, err = own.Call(t.Context(), who, actor.None{})
	require.NoError(t, err)
	return conn, who, procs
}

func TestOwner_actorHandlesFailuresAndItsMeshEndsWithIt_MESH2(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	heard := make(chan actor.Event, 4)
	conn, who, procs := c.startOverseer(t, overseeing{brave: true, heard: heard})
	for rank := range 2 {
		require.NoError(t, syscall.Kill(c.pids(t, procs)[rank], syscall.SIGKILL))
		require.Equal(t, rank, (<-heard).Rank)
		if rank == 0 {
			require.Len(t, c.pids(t, procs), 1, "the other one goes on")
		}
	}
	_, _, more := c.startOverseer(t, overseeing{brave: true, heard: heard})
	require.Len(t, c.pids(t, more), 2)
	<-conn.Proc().StopActor(who.ID().Name, "enough")
	conn, who, procs = c.startOverseer(t, overseeing{brave: true, heard: heard})
	<-conn.Proc().StopActor(who.ID().Name, "enough")
	require.Empty(t, c.pids(t, procs), "a mesh does not outlive its owner")
	require.Len(t, c.pids(t, more), 2)
}

func TestOwner_unhandledFailureFailsTheActorAndItsMesh_MESH21(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	heard := make(chan actor.Event, 4)
	conn, who, procs := c.startOverseer(t, overseeing{heard: heard})
	down := make(chan actor.Down, 1)
	_, err := conn.Proc().Monitor(who.ID(), func(d actor.Down) { down <- d })
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(c.pids(t, procs)[1], syscall.SIGKILL))
	<-heard
	d := <-down
	require.True(t, d.Failed())
	require.Contains(t, d.Reason.Event.Reason, "a mesh it owns has failed: killed by signal 9")
	require.Equal(t, 1, d.Reason.Event.RootCause().Rank)
	require.Empty(t, c.pids(t, procs))
}

// A program's procs and its main share one list of actors.
func TestConnect_actorsMayIncludeThatOfMeshes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	conn := c.Connect(t, func(o *mesh.Options) { o.Actors = []actor.Def{mesh.Def(), overseers()} })
	_, err := actor.Spawn(t.Context(), conn.Proc(), overseerType, "overseer", overseeing{})
	require.NoError(t, err)
}

func TestWatch_yieldsTheOrphansOfALostController_MESH6(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn := c.Connect(t)
	carriers, err := c.AllHosts(t, conn).Slice("host", 0, 1).Spawn(t.Context(), "carriers", shape.Unit())
	require.NoError(t, err)
	keepers, err := mesh.Spawn(t.Context(), carriers, keeperType, "keepers", actor.None{})
	require.NoError(t, err)
	kept, err := keepProcs.Call(t.Context(), keepers.Ref(0), c.AllHosts(t, conn).Slice("host", 1, 2))
	require.NoError(t, err)
	kept.Procs, kept.Actors = kept.Procs.Via(conn), kept.Actors.Via(conn)
	require.NoError(t, syscall.Kill(c.pids(t, carriers)[0], syscall.SIGKILL))
	testkit.Until(t, "the orphans have ended", func() bool {
		states, err := kept.Procs.States(t.Context())
		return err == nil && states.Values()[0].Status.Phase == agent.Stopped
	})
	for name, watch := range map[string]iter.Seq2[actor.Event, error]{
		"procs": kept.Procs.Watch(testkit.Soon(t)), "actors": kept.Actors.Watch(testkit.Soon(t)),
	} {
		var reasons []string
		var last error
		for e, err := range watch {
			if err == nil {
				reasons = append(reasons, e.Reason)
			}
			last = err
		}
		require.Equal(t, []string{agent.OrphanedReason(time.Second)}, reasons, name)
		require.ErrorAs(t, last, new(*mesh.ControllerError), name)
	}
}

// A keeper makes meshes with short leases.
type keeper struct{}

// keptMeshes are the meshes of a keeper.
type keptMeshes struct {
	Procs  mesh.ProcMesh
	Actors mesh.ActorMesh[*Counter]
}

var (
	keeperType = actor.NewType[keeper, actor.None]("keeper")
	keepProcs  = actor.NewEndpoint[keeper, mesh.HostMesh, keptMeshes]("keep")
)

func keepers() actor.Def {
	return keeperType.Define(func(*actor.Context, actor.None) (keeper, error) { return keeper{}, nil },
		keepProcs.Handle(func(_ keeper, ctx *actor.Context, h mesh.HostMesh) (k keptMeshes, err error) {
			k.Procs, err = h.Via(mesh.NetOf(ctx)).SpawnProcs(ctx, mesh.SpawnSpec{
				Name: "kept", PerHost: shape.Unit(), Lease: time.Second,
			})
			if err == nil {
				k.Actors, err = mesh.SpawnActors(ctx, k.Procs, counter,
					mesh.ActorSpawnSpec[int64]{Label: "counters", Lease: time.Minute})
			}
			return k, err
		}))
}

func TestWatch_reportsThatTheControllerIsGone_MESH12(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	var quick config.Config
	require.NoError(t, config.SupervisionControllerTimeout.Set(&quick, 400*time.Millisecond))
	watcher := c.Connect(t, configured(&quick))
	owner := c.Connect(t)
	procs, err := c.AllHosts(t, owner).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	said := make(chan error, 4)
	watching, ready := procs.Via(watcher), make(chan struct{})
	go func() {
		close(ready)
		for e, err := range watching.Watch(t.Context()) {
			if err == nil && e.Terminal() {
				continue // its owner stops it on the way
			}
			said <- err
		}
		close(said)
	}()
	<-ready
	require.NoError(t, owner.Close(t.Context()))
	var gone *mesh.ControllerError
	require.ErrorAs(t, <-said, &gone)
	require.Equal(t, procs.Describe().Owner, gone.Controller)
	_, more := <-said
	require.False(t, more)
}
