package actor_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// Slow is an actor with a constructor that waits for the test.
type Slow struct{}

var slow = actor.NewType[*Slow, chan struct{}]("slow")

func slowDef() actor.Def {
	return slow.Define(func(_ *actor.Context, gate chan struct{}) (*Slow, error) {
		if gate == nil {
			return nil, nil
		}
		<-gate
		return &Slow{}, nil
	})
}

func TestSpawn_reportsAKillDuringTheConstructor(t *testing.T) {
	p := alone(t, slowDef())
	gate := make(chan struct{})
	spawned := make(chan error, 1)
	go func() {
		_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "slow", Name: "slow", Params: gate})
		spawned <- err
	}()
	testkit.Until(t, "begun", func() bool { _, known := p.Actor("slow"); return known })
	p.KillActor("slow", "too slow")
	close(gate)
	err := testkit.Next(t, spawned)
	require.ErrorIs(t, err, actor.ErrFailed)
	require.ErrorContains(t, err, "killed: too slow")
}

func TestSpawn_nilFromTheConstructorIsAnError(t *testing.T) {
	p := alone(t, slowDef())
	_, err := actor.Spawn(t.Context(), p, slow, "slow", nil)
	require.ErrorContains(t, err, "its constructor returned nil: want an actor, or an error")
}

func TestClose_givesCancelledHandlersTimeToReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref := spawn(t, p)
		require.NoError(t, do.Send(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond)
			return 0, nil
		}))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, p.Close(ctx))
	})
}

func TestKill_endsAnActorThatAwaitsItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		parent := spawn(t, p)
		_, err := do.Call(t.Context(), parent, func(ctx *actor.Context, _ *Box) (int64, error) {
			child, err := actor.SpawnChild(ctx, box, "child", 0)
			if err != nil {
				return 0, err
			}
			return 0, do.Send(ctx, child, func(ctx *actor.Context, _ *Box) (int64, error) {
				<-ctx.Done()
				return 0, nil
			})
		})
		require.NoError(t, err)
		begun := time.Now()
		p.StopActor(parent.ID().Name, "enough")
		synctest.Wait()
		<-p.KillActor(parent.ID().Name, "at once")
		lasted(t, 0, begun)
	})
}

func TestRestart_keepsNoFormerGenerations_ACT6(t *testing.T) {
	p := alone(t)
	first, err := actor.Spawn(t.Context(), p, box, "box", 0, actor.WithRestartPolicy(actor.RestartPolicy{
		Restart: actor.Permanent, MaxRestarts: 1000, Window: time.Millisecond,
	}))
	require.NoError(t, err)
	restart := func(times int) {
		for range times {
			now := actor.Successor(first)
			_, _ = boom.Call(t.Context(), now, "again")
			testkit.Until(t, "started again", func() bool { return actor.Successor(first).ID() != now.ID() })
		}
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	restart(1500) // what a proc remembers is full
	before := heap()
	restart(1000)
	require.Less(t, heap(), before+3000)
}

func TestAPI_reportsInvalidArguments(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	_, err := actor.NewRegistry(actor.Def{})
	require.ErrorContains(t, err, "want a Def made by Type.Define")
	_, err = actor.NewRegistry(box.Define(newBox, actor.Method[*Box]{}))
	require.ErrorContains(t, err, "want methods made by Endpoint.Handle")
	_, err = p.Monitor(ref.ID(), nil)
	require.ErrorContains(t, err, "want a function, got nil")
	require.PanicsWithValue(t, "actor: Observe: want a function, got nil", func() { p.Observe(nil) })
	require.ErrorContains(t, new(actor.PortRef[int]).
		UnmarshalText([]byte(ref.ID().Proc.Mesh.String()+"/x.0/a:b")), "want mesh/rank.gen/actor:port")
	var none actor.Endpoint[*Box, int64, int64]
	_, err = none.Call(t.Context(), ref, 1)
	require.ErrorContains(t, err, "the zero Endpoint")
}

func TestSendWait_waitsForRoomUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, err := actor.Spawn(t.Context(), p, box, "box", 0, actor.Mailbox(2))
		require.NoError(t, err)
		release := blocked(t, ref)
		for range 2 {
			require.NoError(t, add.SendWait(t.Context(), ref, 1))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, add.SendWait(ctx, ref, 1), actor.ErrMailboxFull)
		posted := make(chan error, 3)
		for range 3 {
			go func() { posted <- add.SendWait(t.Context(), ref, 1) }()
		}
		synctest.Wait()
		require.Empty(t, posted)
		release()
		for range 3 {
			require.NoError(t, <-posted)
		}
		synctest.Wait() // all are handled, so that there is room
		n, err := add.Call(t.Context(), ref, 0)
		require.NoError(t, err)
		require.EqualValues(t, 5, n)
		release = blocked(t, ref)
		for range 2 {
			require.NoError(t, add.Send(t.Context(), ref, 1))
		}
		go func() { posted <- add.SendWait(t.Context(), ref, 1) }()
		synctest.Wait()
		p.KillActor(ref.ID().Name, "enough")
		require.ErrorIs(t, <-posted, actor.ErrFailed)
		release()
	})
}
