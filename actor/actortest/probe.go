package actortest

import (
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Probe stands in for an actor of Go type A: whoever holds its Ref cannot tell. It has the endpoints
// that On names.
type Probe[A any] struct {
	rig     *Rig
	methods []actor.Method[stand]
	ref     func() actor.Ref[A]
}

// stand is the actor behind a probe.
type stand struct{}

// NewProbe makes a probe in the rig's proc, which must not have started. It runs from the first call
// of its Ref.
func NewProbe[A any](r *Rig) *Probe[A] {
	r.t.Helper()
	typ := actor.NewType[stand, actor.None](fmt.Sprintf("probe-%d", len(r.probes)))
	p := &Probe[A]{rig: r}
	enlist(p, typ, func(*actor.Context, actor.None) (stand, error) { return stand{}, nil })
	var ref actor.Ref[A]
	p.ref = func() actor.Ref[A] {
		r.t.Helper()
		if !ref.ID().IsValid() {
			ref = actor.RefOf[A](spawn(r, typ, actor.None{}, nil).ID()).Via(r.Proc())
		}
		return ref
	}
	return p
}

// InPlaceOf makes a probe that the actor under test spawns itself, in the belief that it is an actor
// of type typ, which the rig's defs must not have. It may be spawned any number of times; the
// recorders have the messages to all of them. born records each spawn: Value is what the constructor
// takes, To the new actor; an error of its Reply is the constructor's.
func InPlaceOf[A, P any](r *Rig, typ actor.Type[A, P]) (p *Probe[A], born *Recorder[P, actor.None]) {
	r.t.Helper()
	p = &Probe[A]{rig: r}
	born = newRecorder[P, actor.None](r, "constructor")
	var once sync.Once
	var first subjects.ActorID
	spawned := make(chan struct{}) // closed once first is set
	enlist(p, actor.NewType[stand, P](typ.Name()), func(ctx *actor.Context, params P) (stand, error) {
		_, err := born.take(ctx, params)
		once.Do(func() {
			first = ctx.Self()
			close(spawned)
		})
		return stand{}, err
	})
	p.ref = func() actor.Ref[A] {
		r.t.Helper()
		late := time.NewTimer(Patience)
		defer late.Stop()
		select {
		case <-spawned:
		case <-late.C:
			r.t.Fatalf("actortest: want a spawn of actor type %s, got none within %s", typ.Name(), Patience)
		}
		return actor.RefOf[A](first).Via(r.Proc())
	}
	return p, born
}

// enlist adds the type of a probe to those its rig will know.
func enlist[A, P any](p *Probe[A], typ actor.Type[stand, P], construct func(*actor.Context, P) (stand, error)) {
	r := p.rig
	r.t.Helper()
	p.early()
	r.probes = append(r.probes, func() actor.Def {
		return typ.Made(construct, p.methods...).Enduring() // an answer that is an error is no failure of the probe
	})
}

// early fails the test when it is too late to teach the rig.
func (p *Probe[A]) early() {
	p.rig.t.Helper()
	if p.rig.proc != nil {
		p.rig.t.Fatalf("actortest: want probes and their endpoints before the rig's proc has started, got one after (its first Spawn, Probe.Ref or Proc starts it)")
	}
}

// Ref is the probe's address. For a probe InPlaceOf another actor it is the first that was spawned,
// and Ref waits for it.
func (p *Probe[A]) Ref() actor.Ref[A] {
	p.rig.t.Helper()
	return p.ref()
}

// On gives a probe an endpoint, and returns the recorder of what is sent there. It must be called
// before the rig's proc has started.
func On[A, M, R any](p *Probe[A], e actor.Endpoint[A, M, R]) *Recorder[M, R] {
	p.rig.t.Helper()
	p.early()
	rec := newRecorder[M, R](p.rig, e.Name())
	// What is bound is known by its name: no value of type A is needed, which may be an interface.
	p.methods = append(p.methods, actor.NewEndpoint[stand, M, R](e.Name()).By(
		func(_ stand, ctx *actor.Context, m M) (R, error) { return rec.take(ctx, m) }))
	return rec
}
