package actor_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
)

// moody spawns an actor with another constructor from the second time on.
func moody(t *testing.T, n nursery, r actor.RestartPolicy, later made) (actor.Ref[*Box], *atomic.Int64) {
	t.Helper()
	var starts atomic.Int64
	var ref actor.Ref[*Box]
	_, err := bid.Call(t.Context(), n.parent, func(ctx *actor.Context) (err error) {
		ref, err = actor.SpawnChild(ctx, pick, "pick", func(ctx *actor.Context) (*Box, error) {
			if starts.Add(1) == 1 {
				return &Box{}, nil
			}
			return later(ctx)
		}, actor.WithRestartPolicy(r))
		return err
	})
	require.NoError(t, err)
	return ref, &starts
}

func TestRestart_constructorFailureCountsAsFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want  string
		later made
	}{
		"fails": {"actor type pick: cannot",
			func(*actor.Context) (*Box, error) { return nil, errors.New("cannot") }},
		"panics": {"the constructor of actor type pick panicked: cannot",
			func(*actor.Context) (*Box, error) { panic("cannot") }},
		"hangs": {"killed: its constructor did not return within 30s", func(ctx *actor.Context) (*Box, error) {
			<-ctx.Done()
			return nil, errors.New("late")
		}},
		"is late": {"killed: its constructor did not return within 30s", func(*actor.Context) (*Box, error) {
			time.Sleep(50 * time.Second)
			return &Box{}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNursery(t)
				ref, starts := moody(t, n, actor.RestartPolicy{Restart: actor.Transient, MaxRestarts: 2,
					Window: time.Hour}, c.later)
				failActor(t, n.p, ref, "no more")
				time.Sleep(settled)
				require.EqualValues(t, 3, starts.Load())
				e := <-n.seen
				require.Equal(t, []string{c.want, c.want}, []string{place.ReplaceAllString(e.Reason, ""),
					place.ReplaceAllString(e.Cause.Reason, "")}, "both starts")
				require.Equal(t, "fail: no more", e.RootCause().Reason)
				require.Equal(t, ref.ID().Name, e.RootCause().Actor)
				require.Empty(t, n.seen)
				require.Equal(t, actor.Successor(ref).ID().Name, e.Actor, "the last attempt")
				_, err := bid.Call(t.Context(), n.parent, func(*actor.Context) error { return nil })
				require.NoError(t, err)
				require.Equal(t, 3, ended(n.p, actor.Failed))
			})
		})
	}
}

func TestRestart_stopOrKillDuringStartTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNursery(t)
			policy := actor.RestartPolicy{Restart: actor.Permanent}
			ref, starts := moody(t, n, policy, func(ctx *actor.Context) (*Box, error) {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
				return &Box{}, nil
			})
			failActor(t, n.p, ref, "no more")
			synctest.Wait()
			next := actor.Successor(ref)
			require.Equal(t, actor.Initializing, status(t, n.p, next))
			if kill {
				<-n.p.KillActor(next.ID().Name, "now")
			} else {
				<-n.p.StopActor(next.ID().Name, "leave it")
			}
			time.Sleep(settled)
			if kill {
				require.EqualValues(t, 3, starts.Load(), "a kill is a failure")
				require.Empty(t, n.seen)
			} else {
				require.EqualValues(t, 2, starts.Load())
				require.Equal(t, next.ID().Name, (<-n.seen).Actor)
			}
		})
	}
}
