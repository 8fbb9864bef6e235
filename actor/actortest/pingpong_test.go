package actortest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// throw starts a game and returns the channel of its end.
func throw(t testing.TB, rig *actortest.Rig, ttl uint64, from,
	to actor.Ref[*actortest.PingPong]) *actor.OncePort[bool] {
	t.Helper()
	done := actor.OpenOnce[bool](rig.Proc())
	t.Cleanup(done.Close)
	require.NoError(t, actortest.Ping.Send(rig.Context(), from,
		actortest.Ball{TTL: ttl, Peer: to, Done: done.Ref()}))
	return done
}

func TestPingPong_completes(t *testing.T) {
	for name, far := range map[string]func(*actortest.Rig) *actortest.Rig{
		"within a proc": func(r *actortest.Rig) *actortest.Rig { return r },
		"over the bus":  func(r *actortest.Rig) *actortest.Rig { return r.Peer() },
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T) {
				rig := actortest.New(t, actortest.Actors()...)
				ping := actortest.Spawn(rig, actortest.PingPongs, actortest.PingPongParams{})
				pong := actortest.Spawn(far(rig), actortest.PingPongs, actortest.PingPongParams{})
				ok, err := throw(t, rig, 101, ping, pong).Recv(testkit.Soon(t))
				require.NoError(t, err)
				require.True(t, ok)
			})
		})
	}
}

func TestPingPong_respectsItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := actortest.New(t, actortest.Actors()...)
		slow := actortest.PingPongParams{Delay: time.Minute}
		ping, pong := actortest.Spawn(rig, actortest.PingPongs, slow),
			actortest.Spawn(rig, actortest.PingPongs, slow)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		_, err := throw(t, rig, 60, ping, pong).Recv(ctx)
		require.NoError(t, err)
		require.Equal(t, time.Hour, time.Since(start))
	})
}

func TestPingPong_failsAtTheGivenRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := actortest.New(t, actortest.Actors()...)
		ping := actortest.Spawn(rig, actortest.PingPongs, actortest.PingPongParams{})
		pong := actortest.Spawn(rig, actortest.PingPongs, actortest.PingPongParams{FailAt: []uint64{3}})
		done := throw(t, rig, 10, ping, pong)
		require.Equal(t, "ping: requested failure at TTL 3", rig.ExpectFailure(pong).Reason)
		ctx, cancel := context.WithTimeout(rig.Context(), time.Second)
		defer cancel()
		_, err := done.Recv(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// 100 messages to an ended actor are 100 dead letters, for every kind of end and place of the
// actor.
func TestPingPong_deadPeerReturnsEachMessageOnce(t *testing.T) {
	const sent = 100
	for name, c := range map[string]struct {
		far    bool
		kill   func(t *testing.T, at *actortest.Rig, name string)
		reason *actor.Error
	}{
		"stopped here":      {false, stopActor, actor.ErrStopped},
		"stopped elsewhere": {true, stopActor, actor.ErrStopped},
		"its proc has closed": {true, func(t *testing.T, at *actortest.Rig, _ string) {
			require.NoError(t, at.Proc().Close(t.Context()))
		}, actor.ErrNoProc},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rig := actortest.New(t, actortest.Actors()...)
				at := rig
				if c.far {
					at = rig.Peer()
				}
				back := actor.OpenPort[actor.DeadLetter](rig.Proc())
				defer back.Close()
				ping := actortest.Spawn(rig, actortest.PingPongs, actortest.PingPongParams{Returned: back.Ref()})
				pong := actortest.Spawn(at, actortest.PingPongs, actortest.PingPongParams{})
				c.kill(t, at, pong.ID().Name)
				rig.Settle() // until the server knows
				for range sent {
					throw(t, rig, 5, ping, pong)
				}
				ctx := testkit.Soon(t)
				for range sent {
					r, err := back.Recv(ctx)
					require.NoError(t, err)
					require.ErrorIs(t, r.Reason, c.reason)
					require.Equal(t, pong.ID().String(), r.Reason.Actor)
					require.Equal(t, "ping", r.Reason.Endpoint)
					require.Equal(t, ping.ID(), r.From)
				}
				require.Len(t, rig.DeadLetters(), sent)
				require.EqualValues(t, sent, rig.Proc().Stats().Bounced)
			})
		})
	}
}

func stopActor(t *testing.T, at *actortest.Rig, name string) {
	t.Helper()
	testkit.Next(t, at.Proc().StopActor(name, "enough"))
}
