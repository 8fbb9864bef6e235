package actor_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// nursery is a Keeper in a bubble, with its reports.
type nursery struct {
	p      *actor.Proc
	es     *events
	parent actor.Ref[*Keeper]
	seen   chan actor.Event
}

// settled is longer than the restarts, delays and constructors of a test take.
const settled = 3 * time.Minute

func newNursery(t *testing.T, opts ...actor.Option) nursery {
	t.Helper()
	n := nursery{p: start(t, bustest.Server(t), "alone", keepers(), picks()), seen: make(chan actor.Event, 64)}
	n.es = record(n.p)
	var err error
	n.parent, err = actor.Spawn(t.Context(), n.p, keeper, "keeper",
		func(_ *actor.Context, e actor.Event) (bool, error) {
			n.seen <- e
			return true, nil
		}, opts...)
	require.NoError(t, err)
	return n
}

// next is the successor of an actor, if there is one.
func (n nursery) next(t *testing.T, ref actor.Ref[*Box]) (now actor.Ref[*Box], ok bool) {
	t.Helper()
	now = actor.Successor(ref)
	return now, now.ID() != ref.ID() && status(t, n.p, now) == actor.Running
}

func TestRestart_policyDecidesAfterEachEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when                         actor.Restart
		afterFailure, afterStop      bool // it is started again
		toldOfFailure, toldOfStopped bool
	}{
		{actor.Propagate, false, false, true, true},
		{actor.Temporary, false, false, true, true},
		{actor.Transient, true, false, false, true},
		{actor.Permanent, true, true, false, false},
	} {
		for _, end := range []string{"fails", "stops", "is asked to stop"} {
			t.Run(fmt.Sprint(c.when, " ", end), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNursery(t)
					kid := keptBy(t, n.parent, actor.WithRestartPolicy(actor.RestartPolicy{Restart: c.when}))
					again, told := false, true
					switch end {
					case "fails":
						failActor(t, n.p, kid, "no more")
						again, told = c.afterFailure, c.toldOfFailure
					case "stops":
						_, err := do.Call(t.Context(), kid,
							func(ctx *actor.Context, _ *Box) (int64, error) { ctx.Stop("enough"); return 0, nil })
						require.NoError(t, err)
						again, told = c.afterStop, c.toldOfStopped
					default:
						<-n.p.StopActor(kid.ID().Name, "enough")
					}
					time.Sleep(settled)
					_, restarted := n.next(t, kid)
					require.Equal(t, again, restarted)
					if told {
						require.Equal(t, kid.ID().Name, (<-n.seen).Actor)
					}
					require.Empty(t, n.seen)
				})
			})
		}
	}
}

func TestRestart_temporaryChildFailsNoParent_ACT6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		parent := spawn(t, p)
		failActor(t, p, child(t, parent, actor.RestartPolicy{Restart: actor.Temporary}), "no more")
		synctest.Wait()
		require.Equal(t, actor.Running, status(t, p, parent))
	})
}

func TestRestart_createsANewActor_ACT6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		kid := keptBy(t, n.parent, actor.WithRestartPolicy(actor.RestartPolicy{Restart: actor.Permanent}))
		_, err := add.Call(t.Context(), kid, 5)
		require.NoError(t, err)
		release := blocked(t, kid)
		require.NoError(t, fail.Send(t.Context(), kid, "no more"))
		answers := answerWait(t, 1, kid, n.p)
		release()
		require.ErrorIs(t, <-answers, actor.ErrFailed, "mail for the old one comes back")
		synctest.Wait()
		again, ok := n.next(t, kid)
		require.True(t, ok)
		require.Equal(t, "kid", again.ID().Name[:len("kid")])
		_, err = add.Call(t.Context(), kid, 1)
		require.ErrorIs(t, err, actor.ErrFailed)
		sum, err := add.Call(t.Context(), again, 1)
		require.NoError(t, err)
		require.EqualValues(t, 1, sum, "made from the same parameters")
		byID := actor.RefOf[*Box](kid.ID()).Via(n.p)
		require.Equal(t, again.ID(), actor.Successor(byID).ID())
		require.Equal(t, again.ID(), actor.Successor(again).ID())
		far := actor.RefOf[*Box](kid.ID())
		require.Equal(t, far, actor.Successor(far), "it is not known here")
		require.Equal(t, []string{"failed"}, n.es.of(kid.ID().Name)[1:])
		require.Equal(t, []string{"running"}, n.es.of(again.ID().Name))
	})
}

func TestRestart_backoffGrowsWithinTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		kid := keptBy(t, n.parent, actor.WithRestartPolicy(actor.RestartPolicy{
			Restart: actor.Transient, MaxRestarts: 10, Window: time.Minute,
			Backoff: time.Second, MaxBackoff: 3 * time.Second,
		}))
		for _, delay := range []time.Duration{1, 2, 3, 3} {
			failActor(t, n.p, kid, "no more")
			time.Sleep(delay*time.Second - time.Nanosecond)
			_, early := n.next(t, kid)
			require.False(t, early)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			again, ok := n.next(t, kid)
			require.True(t, ok, delay)
			kid = again
		}
		require.Empty(t, n.seen)
	})
}

func TestRestart_givesUpAfterMaxRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		kid := keptBy(t, n.parent, actor.WithRestartPolicy(actor.RestartPolicy{Restart: actor.Permanent, MaxRestarts: 2,
			Window: 10 * time.Second}))
		failNow := func() {
			failActor(t, n.p, kid, "no more")
			synctest.Wait()
			kid = actor.Successor(kid)
		}
		failNow()
		failNow()
		time.Sleep(10*time.Second + 1) // the window slides
		failNow()
		failNow()
		require.Empty(t, n.seen)
		failNow()
		require.Equal(t, "fail: no more", (<-n.seen).Reason)
		require.Equal(t, actor.Failed, status(t, n.p, kid), "it has no successor")
	})
}

func TestRestart_parentLearnsWhyThereIsNoRestart_ACT6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := make(chan actor.Event, 4)
		p := startWith(t, bustest.Server(t), func(e actor.Event) { failures <- e })
		parent := spawn(t, p)
		kid := child(t, parent, actor.RestartPolicy{Restart: actor.Transient, MaxRestarts: 1})
		failActor(t, p, kid, "no more")
		synctest.Wait()
		kid = actor.Successor(kid)
		failActor(t, p, kid, "no more")
		require.Equal(t, "actor "+parent.ID().String()+" (type box) failed: its child "+kid.ID().Name+
			" failed: fail: no more (1 restart within 5s)\n"+
			"  caused by: actor "+kid.ID().String()+" (type box) failed: fail: no more", (<-failures).Report())
		parent = spawn(t, p)
		plain := child(t, parent, actor.RestartPolicy{})
		child(t, parent, actor.RestartPolicy{Restart: actor.Permanent})
		failActor(t, p, plain, "no more")
		require.Equal(t, "its child "+plain.ID().Name+" failed: fail: no more", (<-failures).Reason,
			"as if its brother had no Restart")
	})
}

func TestRestart_restartsTheGroupInOrder(t *testing.T) {
	for strategy, want := range map[actor.Strategy][]int{
		actor.OneForOne: {1}, actor.OneForAll: {0, 1, 2, 3}, actor.RestForOne: {1, 2, 3},
	} {
		t.Run(fmt.Sprint(strategy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNursery(t, actor.WithStrategy(strategy))
				var kids []actor.Ref[*Box]
				for _, opts := range [][]actor.Option{
					{actor.WithRestartPolicy(actor.RestartPolicy{Restart: actor.Permanent})},
					{actor.WithRestartPolicy(actor.RestartPolicy{Restart: actor.Transient})}, {}, {actor.NoWait()},
				} {
					kids = append(kids, keptBy(t, n.parent, opts...))
				}
				for range 2 {
					synctest.Wait()
					n.es.clear()
					failActor(t, n.p, kids[1], "no more")
					synctest.Wait()
					var again []int
					var stops, starts []string
					for i, kid := range kids {
						if now, ok := n.next(t, kid); ok {
							again = append(again, i)
							stops, starts = append(stops, kid.ID().Name), append(starts, now.ID().Name)
							kids[i] = now
						}
					}
					require.Equal(t, want, again)
					// the failed one, then the others, the last first; and then the first first
					failed := slices.Index(again, 1)
					order := []string{stops[failed]}
					for i, name := range slices.Backward(stops) {
						if i != failed {
							order = append(order, name)
						}
					}
					require.Equal(t, append(order, starts...), n.es.names())
				}
				require.Empty(t, n.seen)
			})
		})
	}
}

func (es *events) clear() {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.all = nil
}

// names lists the actors something happened to, in order.
func (es *events) names() (names []string) {
	es.mu.Lock()
	defer es.mu.Unlock()
	for _, e := range es.all {
		names = append(names, e.Actor)
	}
	return names
}

func TestRestart_killsAGroupMemberThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t, actor.WithStrategy(actor.OneForAll))
		kid := keptBy(t, n.parent, actor.WithRestartPolicy(actor.RestartPolicy{Restart: actor.Permanent}))
		hangs := keptBy(t, n.parent)
		require.NoError(t, do.Send(t.Context(), hangs,
			func(ctx *actor.Context, _ *Box) (int64, error) { <-ctx.Done(); return 0, nil }))
		synctest.Wait()
		began := time.Now()
		ended := n.p.Done(hangs.ID().Name)
		failActor(t, n.p, kid, "no more")
		<-ended
		lasted(t, 10*time.Second, began)
		require.Equal(t, "killed: its group restarts and it did not stop", n.es.end(t, hangs.ID().Name).Reason)
		synctest.Wait()
		for _, ref := range []actor.Ref[*Box]{kid, hangs} {
			_, ok := n.next(t, ref)
			require.True(t, ok)
		}
		require.Empty(t, n.seen)
	})
}

func TestRestart_stopDuringBackoffCancelsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		kid := keptBy(t, n.parent, actor.WithRestartPolicy(
			actor.RestartPolicy{Restart: actor.Permanent, Backoff: time.Minute, MaxBackoff: time.Minute}))
		failActor(t, n.p, kid, "no more")
		time.Sleep(time.Second)
		require.Empty(t, n.seen, "its fate is open")
		<-n.p.StopActor(kid.ID().Name, "leave it")
		require.Equal(t, kid.ID().Name, (<-n.seen).Actor)
		time.Sleep(settled)
		_, again := n.next(t, kid)
		require.False(t, again)
		require.Equal(t, actor.Running, must(n.p.Actor(n.parent.ID().Name)).Status)
	})
}

func must(i actor.Info, _ bool) actor.Info { return i }

func TestRestart_exhaustedTopLevelActorFailsTheProc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := make(chan actor.Event, 4)
		p := startWith(t, bustest.Server(t), func(e actor.Event) { failures <- e }, picks())
		ref, err := actor.Spawn(t.Context(), p, box, "box", 0, actor.WithRestartPolicy(actor.RestartPolicy{
			Restart: actor.Permanent, MaxRestarts: 1, Backoff: time.Second, MaxBackoff: time.Second,
		}))
		require.NoError(t, err)
		failActor(t, p, ref, "no more")
		time.Sleep(time.Second)
		synctest.Wait()
		again := actor.Successor(ref)
		require.Equal(t, actor.Running, status(t, p, again))
		require.Empty(t, failures)
		failActor(t, p, again, "no more")
		require.Equal(t, "fail: no more (1 restart within 5s)", (<-failures).Reason)
		require.NoError(t, p.Err())

		var starts atomic.Int64
		ref, err = actor.Spawn(t.Context(), p, pick, "pick", func(*actor.Context) (*Box, error) {
			if starts.Add(1) == 2 {
				time.Sleep(time.Minute)
			}
			return &Box{}, nil
		}, actor.WithRestartPolicy(actor.RestartPolicy{Restart: actor.Transient}))
		require.NoError(t, err)
		failActor(t, p, ref, "no more")
		time.Sleep(settled)
		require.EqualValues(t, 3, starts.Load(), "a hung constructor is one more failure")
		require.Equal(t, actor.Running, status(t, p, actor.Successor(ref)))
		require.Empty(t, failures)
	})
}

func TestRestart_stopsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		later := actor.RestartPolicy{Restart: actor.Permanent, Backoff: time.Minute, MaxBackoff: time.Minute}
		root, err := actor.Spawn(t.Context(), n.p, box, "box", 0, actor.WithRestartPolicy(later))
		require.NoError(t, err)
		kid := keptBy(t, n.parent, actor.WithRestartPolicy(later))
		other := keptBy(t, n.parent, actor.WithRestartPolicy(actor.RestartPolicy{Restart: actor.Permanent}))
		failActor(t, n.p, root, "no more")
		failActor(t, n.p, kid, "no more")
		synctest.Wait()
		require.NoError(t, n.p.Close(testkit.Soon(t)))
		time.Sleep(settled)
		for _, ref := range []actor.Ref[*Box]{root, kid, other} {
			require.Equal(t, ref.ID(), actor.Successor(ref).ID())
		}
		require.Len(t, n.p.Actors(), 4)
	})
}
