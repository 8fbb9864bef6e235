package actortest

import (
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Probe stands in for an actor of Go type A: its Ref looks the same. On adds its endpoints.
type Probe[A any] struct {
	rig     *Rig
	methods []actor.Method[probeActor]
	ref     func() actor.Ref[A]
}

// probeActor is the actor behind a probe.
type probeActor struct{}

// NewProbe creates a probe in the rig's proc, before that has started. The first call of Ref starts
// it.
func NewProbe[A any](r *Rig) *Probe[A] {
	r.t.Helper()
	typ := actor.NewType[probeActor, actor.None](fmt.Sprintf("probe-%d", len(r.probes)))
	p := &Probe[A]{rig: r}
	registerProbe(p, typ, func(*actor.Context, actor.None) (probeActor, error) { return probeActor{}, nil })
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

// ReplaceType creates a probe that the actor under test spawns itself as type typ; the rig's defs
// must not contain typ. It may be spawned any number of times; the recorders have the messages to
// all of them. born records each spawn: Value is the constructor's parameter, To the new actor; an
// error of its Reply is the constructor's.
func ReplaceType[A, P any](r *Rig, typ actor.Type[A, P]) (p *Probe[A], born *Recorder[P, actor.None]) {
	r.t.Helper()
	p = &Probe[A]{rig: r}
	born = newRecorder[P, actor.None](r, "constructor")
	var once sync.Once
	var first subjects.ActorID
	spawned := make(chan struct{}) // closed once first is set
	registerProbe(p, actor.NewType[probeActor, P](typ.Name()),
		func(ctx *actor.Context, params P) (probeActor, error) {
			_, err := born.record(ctx, params)
			once.Do(func() {
				first = ctx.Self()
				close(spawned)
			})
			return probeActor{}, err
		})
	p.ref = func() actor.Ref[A] {
		r.t.Helper()
		late := time.NewTimer(Timeout)
		defer late.Stop()
		select {
		case <-spawned:
		case <-late.C:
			r.t.Fatalf("actortest: want a spawn of actor type %s, got none within %s", typ.Name(), Timeout)
		}
		return actor.RefOf[A](first).Via(r.Proc())
	}
	return p, born
}

// registerProbe adds the type of a probe to those its rig will know.
func registerProbe[A, P any](p *Probe[A], typ actor.Type[probeActor, P],
	construct func(*actor.Context, P) (probeActor, error)) {
	r := p.rig
	r.t.Helper()
	p.requireUnstarted()
	r.probes = append(r.probes, func() actor.Def {
		return typ.Define(construct, p.methods...).ResumeOnError() // an error as an answer must not fail the probe
	})
}

// requireUnstarted fails the test when the rig's proc has started.
func (p *Probe[A]) requireUnstarted() {
	p.rig.t.Helper()
	if p.rig.proc != nil {
		p.rig.t.Fatalf("actortest: want probes and their endpoints before the rig's proc starts " +
			"(the first Spawn, Probe.Ref or Proc starts it)")
	}
}

// Ref is the probe's address. For a probe of ReplaceType it is the first one spawned, and Ref waits
// for it.
func (p *Probe[A]) Ref() actor.Ref[A] {
	p.rig.t.Helper()
	return p.ref()
}

// On adds an endpoint to a probe, and returns the recorder of its messages. Call it before the
// rig's proc has started.
func On[A, M, R any](p *Probe[A], e actor.Endpoint[A, M, R]) *Recorder[M, R] {
	p.rig.t.Helper()
	p.requireUnstarted()
	rec := newRecorder[M, R](p.rig, e.Name())
	// The binding is by name: it needs no value of type A, which may be an interface.
	p.methods = append(p.methods, actor.NewEndpoint[probeActor, M, R](e.Name()).Handle(
		func(_ probeActor, ctx *actor.Context, m M) (R, error) { return rec.record(ctx, m) }))
	return rec
}
