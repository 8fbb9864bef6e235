package actor_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// child makes a child with a restart policy.
func child(t *testing.T, parent actor.Ref[*Box], r actor.RestartPolicy) actor.Ref[*Box] {
	t.Helper()
	var ref actor.Ref[*Box]
	_, err := do.Call(t.Context(), parent, func(ctx *actor.Context, _ *Box) (_ int64, err error) {
		ref, err = actor.SpawnChild(ctx, box, "kid", 0, actor.WithRestartPolicy(r))
		return 0, err
	})
	require.NoError(t, err)
	return ref
}

// status is the status of an actor.
func status(t *testing.T, p *actor.Proc, ref actor.Ref[*Box]) actor.Status {
	t.Helper()
	info, known := p.Actor(ref.ID().Name)
	require.True(t, known)
	return info.Status
}

func TestMonitor_canBeCancelledLocally_ACT8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		cancel, err := p.Monitor(spawn(t, p).ID(), func(actor.Down) { require.Fail(t, "it was cancelled") })
		require.NoError(t, err)
		cancel()
	})
}

func TestMonitor_watcherCanEndFirst_ACT8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, other := spawn(t, p), spawn(t, p)
		_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
			_, err := ctx.Monitor(other.ID(), func(*actor.Context, actor.Down) {})
			return 0, err
		})
		require.NoError(t, err)
		<-p.StopActor(ref.ID().Name, "first")
	})
}

func TestLink_actorCanStopBeforeItsPeer_ACT6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, other := spawn(t, p), spawn(t, p)
		_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
			return 0, ctx.Link(other.ID())
		})
		require.NoError(t, err)
		<-p.StopActor(ref.ID().Name, "first")
		require.Equal(t, actor.Running, status(t, p, other))
	})
}

func TestRestart_appliesToTopLevelActors_ACT6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, err := actor.Spawn(t.Context(), p, box, "box", 0,
			actor.WithRestartPolicy(actor.RestartPolicy{Restart: actor.Permanent}))
		require.NoError(t, err)
		_, err = boom.Call(t.Context(), ref, "once")
		require.ErrorIs(t, err, actor.ErrPanic)
		synctest.Wait()
		next := actor.Successor(ref)
		require.NotEqual(t, ref.ID(), next.ID())
		_, err = add.Call(t.Context(), next, 1)
		require.NoError(t, err)
	})
}

func TestRestart_exhaustedBudgetFailsTheParent_ACT6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		parent := spawn(t, p)
		ref := child(t, parent, actor.RestartPolicy{Restart: actor.Permanent})
		for range 3 { // within 5 s, as the zero Restart has it
			_, err := boom.Call(t.Context(), ref, "again")
			require.ErrorIs(t, err, actor.ErrPanic)
			synctest.Wait()
			require.Equal(t, actor.Running, status(t, p, parent))
			ref = actor.Successor(ref)
		}
		_, err := boom.Call(t.Context(), ref, "once too often")
		require.ErrorIs(t, err, actor.ErrPanic)
		synctest.Wait()
		require.Equal(t, actor.Failed, status(t, p, parent))
	})
}

func TestSupervisor_ignoresTheEndOfAStoppingChild_ACT6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		parent := spawn(t, p)
		ref := child(t, parent, actor.RestartPolicy{Restart: actor.Transient})
		_, err := p.Monitor(ref.ID(), func(d actor.Down) {
			p.StopActor(d.Actor.Name, "it need not come again")
			time.Sleep(time.Nanosecond) // the parent hears of that before it hears of the end
		})
		require.NoError(t, err)
		_, err = boom.Call(t.Context(), ref, "once")
		require.ErrorIs(t, err, actor.ErrPanic)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, actor.Running, status(t, p, parent))
		require.Equal(t, ref.ID(), actor.Successor(ref).ID())
	})
}

func TestStop_hasNoRaceWithFailure_ACT3(t *testing.T) {
	p := alone(t)
	for range 300 { // for the race detector
		ref := spawn(t, p)
		p.Observe(func(actor.Event) {})()
		ended := p.Done(ref.ID().Name)
		var wg sync.WaitGroup
		wg.Go(func() { _ = boom.Send(t.Context(), ref, "now") })
		wg.Go(func() { p.StopActor(ref.ID().Name, "now") })
		wg.Go(func() { p.StopActor(ref.ID().Name, "now") })
		wg.Wait()
		testkit.Next(t, ended)
	}
}

func TestKill_returnsMailHeldUpByControlFunctions_ACT5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, gate := spawn(t, p), make(chan struct{})
		release := blocked(t, ref)
		require.NoError(t, do.Send(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
			ctx.After(0, func(*actor.Context) { <-gate })
			time.Sleep(time.Nanosecond) // it interrupts this batch
			return 0, nil
		}))
		answers := make(chan error, 1)
		go func() { answers <- second(add.Call(t.Context(), ref, 1)) }()
		synctest.Wait()
		release()
		time.Sleep(time.Second)
		info, _ := p.Actor(ref.ID().Name)
		done := p.KillActor(ref.ID().Name, "now")
		synctest.Wait()
		came := len(answers)
		close(gate)
		<-done
		require.ErrorIs(t, <-answers, actor.ErrFailed)
		require.Equal(t, 1, came, "before the function returned")
		require.Equal(t, 1, info.Queued)
		require.EqualValues(t, 2, info.Handled)
	})
}

func TestChildren_endingActorCannotSpawn_ACT3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		parent := spawn(t, p)
		var kid actor.Ref[*Box]
		var refused error
		_, err := do.Call(t.Context(), parent, func(_ *actor.Context, b *Box) (int64, error) {
			b.cleanup = func(ctx *actor.Context, _ error) error {
				kid, refused = actor.SpawnChild(ctx, box, "kid", 0)
				return nil
			}
			return 0, nil
		})
		require.NoError(t, err)
		<-p.StopActor(parent.ID().Name, "enough")
		if refused == nil {
			require.True(t, status(t, p, kid).Terminal(), "it outlives its parent, and Close does not stop it")
		}
	})
}

func TestRestart_groupRestartsChildrenWithoutAPolicy_ACT6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		parent, err := actor.Spawn(t.Context(), p, box, "box", 0, actor.WithStrategy(actor.OneForAll))
		require.NoError(t, err)
		member := child(t, parent, actor.RestartPolicy{})
		failing := child(t, parent, actor.RestartPolicy{Restart: actor.Permanent})
		for range 2 {
			_, err := boom.Call(t.Context(), failing, "once")
			require.ErrorIs(t, err, actor.ErrPanic)
			synctest.Wait()
			require.Equal(t, actor.Running, status(t, p, parent))
			again := actor.Successor(member)
			require.NotEqual(t, member.ID(), again.ID())
			member, failing = again, actor.Successor(failing)
		}
	})
}
