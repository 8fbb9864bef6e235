package system_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// faller is an actor that fails on request.
type faller struct{}

var (
	fallerType = actor.NewType[faller, actor.None]("faller")
	fall       = actor.NewEndpoint[faller, actor.None, actor.None]("fall")
)

// keepJoined keeps a new proc of a world's mesh joined. said gets each response, and the
// proc pauses until it is read. gone gets the end.
func (r *rig) keepJoined(
	t *testing.T, world, mesh string,
) (p *actor.Proc, said chan error, leave func(), gone chan struct{}) {
	t.Helper()
	id, err := subjects.ParseMeshID(mesh)
	require.NoError(t, err)
	o := actor.Options{ID: subjects.ProcID{Mesh: id}, Bus: r.Open(t), Coordinator: func(actor.Event) {}}
	p, _ = testproc.Start(t, r.Server, testproc.Options{Options: o}, fallerType.Define(
		func(*actor.Context, actor.None) (faller, error) { return faller{}, nil },
		fall.Handle(func(faller, *actor.Context, actor.None) (actor.None, error) { panic("fall") })))
	said, gone = make(chan error), make(chan struct{})
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		defer close(gone)
		j := system.JoinRequest{World: world, Proc: &system.ProcJoin{ID: p.ID()}}
		system.KeepJoined(ctx, p, j, func(_ system.JoinResponse, err error) {
			select {
			case said <- err:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() {
		leave()
		<-gone
	})
	return p, said, leave, gone
}

func TestKeepJoined_procBeatsUntilItLeaves_WORLD9(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		r.serve(t, "s")
		w := r.declare(t, spec("w", shape.Of("x", 1), 1))
		p, said, leave, gone := r.keepJoined(t, "w", w.Mesh)
		require.NoError(t, testkit.Next(t, said))
		r.await(t, "w", "world.live")
		time.Sleep(time.Minute) // many times world.proc-timeout
		require.Equal(t, system.StatusLive, r.snapshot(t, "w").Status)
		_, err := p.Spawn(testkit.Soon(t), actor.SpawnSpec{Type: "faller", Name: "faller", Params: actor.None{}})
		require.NoError(t, err)
		to := actor.RefOf[faller](p.ID().Actor("faller")).Via(p)
		_, err = fall.Call(testkit.Soon(t), to, actor.None{})
		require.Error(t, err)
		require.Contains(t, r.await(t, "w", "world.unhealthy").Reason, "faller")
		leave()
		<-gone
		require.Empty(t, r.snapshot(t, "w").Procs)
	})
}

func TestKeepJoined_procFollowsTheNextControllerAndClosesWithoutOne_WORLD9(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		_, kill := r.serve(t, "s")
		w := r.declare(t, spec("w", shape.Of("x", 1), 1))
		p, said, _, gone := r.keepJoined(t, "w", w.Mesh)
		require.NoError(t, testkit.Next(t, said))
		kill()
		_, kill = r.serve(t, "next")
		testkit.Find(t, said, func(err error) bool { return err == nil })
		require.Equal(t, system.StatusLive, r.snapshot(t, "w").Status)
		kill()
		began := time.Now()
		testkit.Find(t, said, func(err error) bool { return err == system.ErrSilent })
		require.Less(t, time.Since(began), time.Minute)
		<-gone
		_, err := p.Spawn(testkit.Soon(t), actor.SpawnSpec{Type: "faller", Name: "faller", Params: actor.None{}})
		require.Error(t, err, "the proc is closed")
	})
}

// A proc that was stopped, or starved, has not asked meanwhile.
func TestKeepJoined_pauseOfTheProcIsNoSilence_WORLD9(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		_, kill := r.serve(t, "s")
		w := r.declare(t, spec("w", shape.Of("x", 1), 1))
		kill()
		_, said, _, _ := r.keepJoined(t, "w", w.Mesh)
		time.Sleep(time.Minute)
		require.Error(t, testkit.Next(t, said))
		r.serve(t, "next")
		require.NoError(t, testkit.Find(t, said, func(err error) bool {
			return err == nil || errors.Is(err, system.ErrSilent)
		}))
	})
}
