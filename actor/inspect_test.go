package actor_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestInspect_showsAnActorWithAHungHandler(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		local := actor.RefOf[*Box](ref.ID()).Via(home)
		release := blocked(t, local)
		defer release()
		for range 3 {
			require.NoError(t, add.Send(t.Context(), local, 1))
		}
		info, err := ref.Bound().Inspect(testkit.Soon(t), ref.ID())
		require.NoError(t, err)
		require.Equal(t, "do", info.Current)
		require.Positive(t, info.RunningFor)
		info.RunningFor = 0
		for i := range info.Endpoints {
			info.Endpoints[i].Waited, info.Endpoints[i].Ran = actor.Timing{}, actor.Timing{}
		}
		require.Equal(t, actor.Info{
			Kind: actor.KindActor, ID: ref.ID().String(), Name: ref.ID().Name, Type: "box", Status: actor.Running,
			Queued: 3, Handled: 1, Current: "do",
			Endpoints: []actor.EndpointInfo{{Name: "add"}, {Name: "do"}},
		}, info)
	})
}

func TestInspect_timesTheFirstAndEvery64thMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref := spawn(t, p)
		for range 65 {
			_, err := do.Call(t.Context(), ref, func(*actor.Context, *Box) (int64, error) {
				time.Sleep(time.Second)
				return 0, nil
			})
			require.NoError(t, err)
		}
		synctest.Wait() // the last message counts as handled once its answer has gone
		info, known := p.Actor(ref.ID().Name)
		require.True(t, known)
		require.Equal(t, []actor.EndpointInfo{{
			Name: "do", Handled: 65, Waited: actor.Timing{Samples: 2},
			Ran: actor.Timing{Samples: 2, Mean: time.Second, Max: time.Second},
		}}, info.Endpoints)
	})
}

func TestInspect_countsFailuresAndKeepsTheLast(t *testing.T) {
	p := alone(t)
	parent := spawn(t, p)
	var child actor.Ref[*Box]
	_, err := do.Call(t.Context(), parent, func(ctx *actor.Context, _ *Box) (_ int64, err error) {
		child, err = actor.SpawnChild(ctx, box, "child", 0,
			actor.WithRestartPolicy(actor.RestartPolicy{Restart: actor.Temporary}))
		return 0, err
	})
	require.NoError(t, err)
	info, _ := p.Actor(parent.ID().Name)
	require.Equal(t, []string{child.ID().Name}, info.Children)
	_, err = fail.Call(t.Context(), child, "for once")
	require.ErrorContains(t, err, "for once")
	info, _ = p.Actor(child.ID().Name)
	require.Equal(t, parent.ID().Name, info.Parent)
	require.EqualValues(t, 1, info.Endpoints[0].Failed)
	require.NoError(t, fail.Send(t.Context(), child, "for good"))
	testkit.Next(t, p.Done(child.ID().Name))
	testkit.Until(t, "told", func() bool { info, _ = p.Actor(parent.ID().Name); return info.Failure != nil })
	require.Empty(t, info.Children)
	require.Equal(t, child.ID().Name, info.Failure.Actor)
	require.Equal(t, "fail: for good", info.Failure.Reason)
	require.Equal(t, child.ID().Name, p.Info().Failure.Actor)
}

func TestInspectProc_showsTotalsAndMessageOrder(t *testing.T) {
	a, b := two(t)
	ref := spawn(t, b).Via(a)
	for range 3 {
		_, err := add.Call(t.Context(), ref, 1)
		require.NoError(t, err)
	}
	info, err := a.InspectProc(testkit.Soon(t), b.ID())
	require.NoError(t, err)
	require.Equal(t, actor.KindProc, info.Kind)
	require.Equal(t, b.ID().String(), info.ID)
	require.Equal(t, []string{ref.ID().Name}, info.Children)
	require.EqualValues(t, 3, info.Handled)
	require.Len(t, info.Peers, 1)
	peer := info.Peers[0]
	require.Equal(t, a.ID().Process(), peer.Process)
	require.True(t, peer.Heard)
	require.Positive(t, peer.Credit)
	require.Zero(t, peer.Gaps+peer.Duplicates+peer.Retransmitted)
	require.Empty(t, peer.StallReason+peer.DeadReason)
	testkit.Until(t, "the packets are counted, this answer's included", func() bool {
		p := b.Info().Peers[0]
		return p.Sent == 4 && p.Acked == 4 && p.Received == 4 && p.InFlight == 0 && p.Waiting == 0
	})
	require.NotNil(t, info.Stats)
	_, err = json.Marshal(info)
	require.NoError(t, err)
}

func TestInspect_unknownTargetIsAnError(t *testing.T) {
	a, b := two(t)
	_, err := a.Inspect(testkit.Soon(t), b.ID().Actor("nobody"))
	require.ErrorIs(t, err, actor.ErrNoActor)
	_, err = a.Inspect(testkit.Soon(t), b.ID().Actor(""))
	require.ErrorIs(t, err, actor.ErrInvalid)
}
