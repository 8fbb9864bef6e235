package actor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// rule is a Keeper's decision on the end of a child.
type rule func(*actor.Context, actor.Event) (bool, error)

// Keeper is an actor that decides about the ends of its children.
type Keeper struct{ rule rule }

// errand is a task for a Keeper.
type errand func(*actor.Context) error

var (
	keeper = actor.NewType[*Keeper, rule]("keeper")
	bid    = actor.NewEndpoint[*Keeper, errand, actor.None]("bid")
)

func (k *Keeper) bid(ctx *actor.Context, o errand) (actor.None, error) { return actor.None{}, o(ctx) }

func (k *Keeper) Supervise(ctx *actor.Context, e actor.Event) (bool, error) { return k.rule(ctx, e) }

func keepers() actor.Def {
	return keeper.Define(func(_ *actor.Context, r rule) (*Keeper, error) { return &Keeper{r}, nil },
		bid.Handle((*Keeper).bid))
}

// kept is a Keeper and its child.
func kept(t *testing.T, p *actor.Proc, r rule, opts ...actor.Option) (actor.Ref[*Keeper], actor.Ref[*Box]) {
	t.Helper()
	parent, err := actor.Spawn(t.Context(), p, keeper, "keeper", r)
	require.NoError(t, err)
	return parent, keptBy(t, parent, opts...)
}

func keptBy(t *testing.T, parent actor.Ref[*Keeper], opts ...actor.Option) (ref actor.Ref[*Box]) {
	t.Helper()
	_, err := bid.Call(t.Context(), parent, func(ctx *actor.Context) (err error) {
		ref, err = actor.SpawnChild(ctx, box, "kid", 0, opts...)
		return err
	})
	require.NoError(t, err)
	return ref
}

// failActor makes an actor fail, and waits for that.
func failActor(t *testing.T, p *actor.Proc, ref actor.Ref[*Box], why string) {
	t.Helper()
	done := p.Done(ref.ID().Name)
	require.NoError(t, fail.Send(t.Context(), ref, why))
	testkit.Next(t, done)
}

// startWith is start with a Coordinator, or none.
func startWith(t *testing.T, srv *embed.Server, coordinator func(actor.Event),
	defs ...actor.Def) *actor.Proc {
	t.Helper()
	id, err := subjects.NewHostID("alone")
	require.NoError(t, err)
	registry, err := actor.NewRegistry(append(defs, boxes(), keepers())...)
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(),
		actor.Options{ID: id.Proc(), Bus: bustest.Open(t, srv), Registry: registry, Coordinator: coordinator})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		require.NoError(t, p.Close(ctx))
	})
	return p
}

func TestSupervisor_handlesTheEndOfItsChild_ACT6(t *testing.T) {
	p := alone(t, keepers())
	seen := make(chan actor.Event, 2)
	parent, kid := kept(t, p, func(_ *actor.Context, e actor.Event) (bool,
		error) {
		seen <- e
		return true, nil
	})
	failActor(t, p, kid, "no more")
	e := testkit.Next(t, seen)
	require.Equal(t, "actor "+kid.ID().String()+" (type box) failed: fail: no more", e.Report())
	stops := keptBy(t, parent)
	testkit.Next(t, p.StopActor(stops.ID().Name, "enough"))
	e = testkit.Next(t, seen)
	require.Equal(t, "actor "+stops.ID().String()+" (type box) stopped: enough", e.Report())
	info, _ := p.Actor(parent.ID().Name)
	require.Equal(t, actor.Running, info.Status)
	require.Empty(t, seen, "each end is reported once")
}

func TestSupervisor_failsOnAnUnhandledFailure_ACT6(t *testing.T) {
	for want, r := range map[string]rule{
		"its child %s failed: fail: no more": func(*actor.Context, actor.Event) (bool, error) { return false, nil },
		"cannot handle the end of child %s: cannot": func(*actor.Context, actor.Event) (bool, error) {
			return true, errors.New("cannot")
		},
		"panicked: cannot (%s)": func(_ *actor.Context, e actor.Event) (bool,
			error) {
			panic("cannot (" + e.Actor + ")")
		},
	} {
		p := alone(t, keepers())
		es := record(p)
		parent, kid := kept(t, p, r)
		failActor(t, p, kid, "no more")
		e := es.end(t, parent.ID().Name)
		require.Equal(t, "failed", e.Status)
		require.Equal(t, strings.ReplaceAll(want, "%s", kid.ID().Name), place.ReplaceAllString(e.Reason, ""))
	}
}

func TestSupervisor_ignoresAnOrderlyStop_ACT6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone", keepers())
		parent, kid := kept(t, p, func(*actor.Context, actor.Event) (bool, error) { return false, nil })
		other := spawn(t, p)
		grown := child(t, other, actor.RestartPolicy{})
		for _, name := range []string{kid.ID().Name, grown.ID().Name} {
			<-p.StopActor(name, "enough")
		}
		synctest.Wait()
		info, _ := p.Actor(parent.ID().Name)
		require.Equal(t, actor.Running, info.Status)
		require.Equal(t, actor.Running, status(t, p, other))
	})
}

// A chain of actors is each other's child; the first has no parent.
func chain(t *testing.T, p *actor.Proc, n int) []actor.Ref[*Box] {
	t.Helper()
	refs := []actor.Ref[*Box]{spawn(t, p)}
	for len(refs) < n {
		refs = append(refs, child(t, refs[len(refs)-1], actor.RestartPolicy{}))
	}
	return refs
}

func TestSupervisor_unhandledFailureReachesTheCoordinatorWithCauses_ACT6(t *testing.T) {
	failures := make(chan actor.Event, 4)
	p := startWith(t, bustest.Server(t), func(e actor.Event) { failures <- e })
	es := record(p)
	c := chain(t, p, 3)
	_, err := boom.Call(t.Context(), c[2], "crash test")
	require.ErrorIs(t, err, actor.ErrPanic)
	e := testkit.Next(t, failures)
	top, mid, low := c[0].ID(), c[1].ID(), c[2].ID()
	require.Equal(t, "actor "+top.String()+" (type box) failed: its child "+mid.Name+" failed: its child "+
		low.Name+" failed: boom: panicked: crash test\n"+
		"  caused by: actor "+mid.String()+" (type box) failed: its child "+low.Name+
		" failed: boom: panicked: crash test\n"+
		"  caused by: actor "+low.String()+" (type box) failed: boom: panicked: crash test",
		place.ReplaceAllString(e.Report(), ""))
	for _, ref := range c {
		require.Equal(t, "failed", es.end(t, ref.ID().Name).Status)
	}
	require.Empty(t, failures, "reported once")
	require.NoError(t, p.Err(), "the proc lives")
	require.Equal(t, []string{low.Name, mid.Name, top.Name}, es.order(c...), "children end first")
}

// order lists actors in the order of their ends.
func (es *events) order(refs ...actor.Ref[*Box]) []string {
	es.mu.Lock()
	defer es.mu.Unlock()
	var names []string
	for _, e := range es.all {
		for _, ref := range refs {
			if e.Terminal() && e.Actor == ref.ID().Name {
				names = append(names, e.Actor)
			}
		}
	}
	return names
}

func TestSupervisor_withoutACoordinatorTheProcFails_ACT6(t *testing.T) {
	p := startWith(t, bustest.Server(t), nil)
	es := record(p)
	bystander, ref := chain(t, p, 2), spawn(t, p)
	require.NoError(t, p.Err())
	failActor(t, p, ref, "no more")
	testkit.Next(t, p.Failed())
	err := p.Err()
	require.ErrorIs(t, err, actor.ErrFailed)
	require.EqualError(t, err, p.ID().String()+": the proc failed: actor "+ref.ID().String()+
		" (type box) failed: fail: no more")
	require.Equal(t, ref.ID().Name, asError(t, err).Event.Actor)
	for _, b := range bystander {
		require.Equal(t, "stopped", es.end(t, b.ID().Name).Status)
	}
	_, err = actor.Spawn(t.Context(), p, box, "box", 0)
	require.ErrorIs(t, err, actor.ErrFailed)
	proc := es.end(t, "")
	require.Equal(t, "proc "+p.ID().String()+" failed: its actor "+ref.ID().Name+" failed: fail: no more\n"+
		"  caused by: actor "+ref.ID().String()+" (type box) failed: fail: no more", proc.Report())
}

func TestChildren_endBeforeTheirParent_ACT3(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		es := record(home)
		top := actor.RefOf[*Box](ref.ID()).Via(home)
		mid := child(t, top, actor.RestartPolicy{})
		low := child(t, mid, actor.RestartPolicy{})
		testkit.Next(t, home.StopActor(top.ID().Name, "enough"))
		require.Equal(t, []string{low.ID().Name, mid.ID().Name, top.ID().Name}, es.order(top, mid, low))
		require.Equal(t, "its parent stopped: its parent stopped: enough", es.end(t, low.ID().Name).Reason)
	})
}

func TestCleanup_runsAfterTheChildrenEnd_ACT3(t *testing.T) {
	p := alone(t)
	parent := spawn(t, p)
	kid, es := child(t, parent, actor.RestartPolicy{}), record(p)
	var ended []string
	tidy(t, parent, func(*actor.Context, error) error { ended = es.of(kid.ID().Name); return nil })
	testkit.Next(t, p.StopActor(parent.ID().Name, "enough"))
	require.Equal(t, []string{"stopped"}, ended)
}

func TestChildren_drainMailOnStopButNotOnFailure_ACT5(t *testing.T) {
	for _, kill := range []bool{false, true} {
		p := alone(t)
		parent := spawn(t, p)
		var kids []actor.Ref[*Box]
		for range 3 {
			kids = append(kids, child(t, parent, actor.RestartPolicy{}))
		}
		handled := make(chan string, 3)
		var releases []func()
		for _, kid := range kids {
			releases = append(releases, blocked(t, kid))
			require.NoError(t, do.Send(t.Context(), kid,
				func(ctx *actor.Context, _ *Box) (int64, error) { handled <- ctx.Self().Name; return 0, nil }))
		}
		end, n := p.StopActor, 3
		if kill {
			end, n = p.KillActor, 0
		}
		done := end(parent.ID().Name, "now")
		if kill {
			testkit.Until(t, "told", func() bool { return p.Stats().Bounced == 3 })
			var order []string
			for _, dead := range p.DeadLetters() {
				require.ErrorContains(t, dead.Reason, "the actor stopped: its parent failed: killed: now")
				order = append(order, dead.Reason.Actor)
			}
			require.Equal(t, []string{kids[2].ID().String(), kids[1].ID().String(), kids[0].ID().String()}, order,
				"the youngest first")
		}
		for _, release := range releases {
			release()
		}
		testkit.Next(t, done)
		require.Len(t, handled, n)
	}
}

func TestChildren_hungChildIsKilledAndAbandoned_ACT3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		es, parent := record(p), spawn(t, p)
		kid, brother := child(t, parent, actor.RestartPolicy{}), child(t, parent, actor.RestartPolicy{})
		release := blocked(t, kid)
		began := time.Now()
		<-p.StopActor(parent.ID().Name, "enough")
		lasted(t, 10*time.Second, began)
		require.Equal(t, "stopped", es.end(t, parent.ID().Name).Status)
		require.Equal(t, actor.Stopping, status(t, p, kid))
		release()
		synctest.Wait()
		require.Equal(t, "killed: its parent stopped and it did not", es.end(t, kid.ID().Name).Reason)
		require.Equal(t, []string{brother.ID().Name, parent.ID().Name, kid.ID().Name},
			es.order(parent, kid, brother))
	})
}

// made is the constructor of a pick.
type made func(*actor.Context) (*Box, error)

var pick = actor.NewType[*Box, made]("pick")

func picks() actor.Def {
	return pick.Define(func(ctx *actor.Context, f made) (*Box, error) { return f(ctx) }, add.Handle((*Box).add),
		do.Handle((*Box).do), fail.Handle((*Box).fail))
}

func TestSpawnChild_constructorErrorReachesTheSpawnerOnly_ACT6(t *testing.T) {
	for want, f := range map[string]made{
		"actor type pick: cannot": func(*actor.Context) (*Box, error) {
			return nil, errors.New("cannot")
		},
		"the constructor of actor type pick panicked: crash": func(*actor.Context) (*Box, error) { panic("crash") },
	} {
		for _, r := range []actor.RestartPolicy{{}, {Restart: actor.Permanent}} {
			failures := make(chan actor.Event, 2)
			p := startWith(t, bustest.Server(t), func(e actor.Event) { failures <- e }, picks())
			seen := make(chan actor.Event, 2)
			parent, _ := kept(t, p, func(_ *actor.Context, e actor.Event) (bool,
				error) {
				seen <- e
				return false, nil
			})
			_, err := bid.Call(t.Context(), parent, func(ctx *actor.Context) error {
				_, err := actor.SpawnChild(ctx, pick, "pick", f, actor.WithRestartPolicy(r))
				return err
			})
			require.ErrorContains(t, err, want)
			_, err = actor.Spawn(t.Context(), p, pick, "pick", f, actor.WithRestartPolicy(r))
			require.ErrorContains(t, err, want)
			_, err = bid.Call(t.Context(), parent, func(*actor.Context) error { return nil })
			require.NoError(t, err, "its parent lives")
			require.Empty(t, seen)
			require.Empty(t, failures)
			require.Equal(t, 2, ended(p, actor.Failed), "no child restarts")
		}
	}
}

// ended counts the actors of a proc with a status.
func ended(p *actor.Proc, s actor.Status) (n int) {
	for _, info := range p.Actors() {
		if info.Status == s {
			n++
		}
	}
	return n
}

func TestSpawnChild_unawaitedConstructorErrorFailsTheParent_ACT6(t *testing.T) {
	p := alone(t, keepers(), picks())
	es := record(p)
	seen := make(chan actor.Event, 2)
	parent, _ := kept(t, p, func(_ *actor.Context, e actor.Event) (bool, error) { seen <- e; return false, nil })
	_, err := bid.Call(t.Context(), parent, func(ctx *actor.Context) error {
		_, err := actor.SpawnChild(ctx, pick, "pick",
			func(*actor.Context) (*Box, error) { return nil, errors.New("cannot") }, actor.NoWait())
		return err
	})
	require.NoError(t, err)
	e := testkit.Next(t, seen)
	require.Equal(t, "actor type pick: cannot", e.Reason)
	require.Equal(t, "its child "+e.Actor+" failed: actor type pick: cannot", es.end(t, parent.ID().Name).Reason)
}

func TestSpawnChild_canAbandonAHungConstructor(t *testing.T) {
	t.Parallel()
	for name, obeys := range map[string]bool{"obeys": true, "does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, bustest.Server(t), "alone", keepers(), picks())
				seen := make(chan actor.Event, 2)
				parent, _ := kept(t, p, func(_ *actor.Context, e actor.Event) (bool,
					error) {
					seen <- e
					return false, nil
				})
				began := time.Now()
				_, err := bid.Call(t.Context(), parent, func(ctx *actor.Context) error {
					_, err := actor.SpawnChild(ctx, pick, "pick", func(ctx *actor.Context) (*Box, error) {
						if obeys {
							<-ctx.Done()
						} else {
							time.Sleep(time.Minute)
						}
						return &Box{}, nil
					})
					return err
				})
				require.ErrorIs(t, err, actor.ErrDeadline)
				lasted(t, 30*time.Second, began)
				time.Sleep(settled)
				_, err = bid.Call(t.Context(), parent, func(*actor.Context) error { return nil })
				require.NoError(t, err)
				require.Empty(t, seen)
				require.Equal(t, 1, ended(p, actor.Failed))
			})
		})
	}
}

func TestSpawn_reportsInvalidOptions(t *testing.T) {
	p := alone(t)
	restarts := actor.WithRestartPolicy
	for want, o := range map[string]actor.Option{
		"mailbox of -2 messages: want 1 to 1073741824, 0 for the default, or Unbounded": actor.Mailbox(-2),
		"mailbox of 1073741825 messages: want 1 to 1073741824, 0 for the default, or Unbounded": actor.Mailbox(
			1<<30 + 1),
		"restart policy: restart(9): want one of [propagate temporary transient permanent]": restarts(
			actor.RestartPolicy{Restart: 9}),
		"restart policy: at most -1 restarts: want 1 to 1000, or 0 for 3": restarts(
			actor.RestartPolicy{MaxRestarts: -1}),
		"restart policy: restarts within -1ns: want a time above zero, or 0 for 5s": restarts(
			actor.RestartPolicy{Window: -1}),
		"restart policy: backoff from 2ns to 1ns: want a first delay of 0 or more, and a maximum no less": restarts(
			actor.RestartPolicy{Backoff: 2, MaxBackoff: 1}),
		"strategy(3): want one of [one-for-one one-for-all rest-for-one]": actor.WithStrategy(3),
	} {
		_, err := actor.Spawn(t.Context(), p, box, "box", 0, o)
		require.ErrorIs(t, err, actor.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
	require.Empty(t, p.Actors())
}

func TestSpawnChild_inAStoppingParentStops(t *testing.T) {
	p := alone(t)
	parent, es := spawn(t, p), record(p)
	release := blocked(t, parent)
	kids := make(chan actor.Ref[*Box], 1)
	require.NoError(t, do.Send(t.Context(), parent, func(ctx *actor.Context, _ *Box) (int64, error) {
		kid, err := actor.SpawnChild(ctx, box, "late", 0)
		kids <- kid
		return 0, err
	}))
	done := p.StopActor(parent.ID().Name, "enough")
	release()
	testkit.Next(t, done)
	kid := testkit.Next(t, kids)
	require.Equal(t, []string{kid.ID().Name, parent.ID().Name}, es.order(parent, kid))
}
