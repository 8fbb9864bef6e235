package actor

import (
	"context"
	"slices"

	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// maxEnded bounds how many ended actors a proc remembers: the newest.
const maxEnded = 1024

// Spawning says what to spawn.
type Spawning struct {
	Type   string
	Name   string // the actor's name in the proc: a label, or label-uid
	Params any    // what the constructor takes; nil: decode Raw
	Raw    []byte // CBOR of the same
	Point  shape.Point
}

// Spawn makes an actor and waits until its constructor has returned. When ctx ends before (without
// a deadline: after 30 s), the actor is told to give up. Messages sent to it meanwhile wait in its
// mailbox.
func (p *Proc) Spawn(ctx context.Context, s Spawning) (subjects.ActorID, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	def, err := p.registry.find(s.Type)
	if err != nil {
		return subjects.ActorID{}, err
	}
	if err := subjects.CheckName("actor", s.Name); err != nil {
		return subjects.ActorID{}, err
	}
	told := make(chan error, 1)
	in, err := p.register(def, s, told)
	if err != nil {
		return subjects.ActorID{}, err
	}
	select {
	case err = <-told:
		if err != nil {
			<-in.done // at once: its name is free again when Spawn returns
		}
	case <-in.done:
		err = in.outcome(told)
	case <-ctx.Done():
		err = fromContext(ctx, in.id.String(), "")
		in.fail("its spawn was given up: " + err.Error())
	}
	return in.id, err
}

// outcome is what an actor that has ended told of its constructor.
func (in *instance) outcome(told <-chan error) error {
	select {
	case err := <-told:
		return err
	default:
		in.mu.Lock()
		defer in.mu.Unlock()
		return in.refusalLocked("")
	}
}

// register makes an actor under its name and starts it. Its constructor is on its turn before
// anybody can find it, so no message is handled before.
func (p *Proc) register(def Def, s Spawning, told chan<- error) (*instance, error) {
	id := p.id.Actor(s.Name)
	in := &instance{
		proc: p, id: id, def: def, point: s.Point, log: p.log.With().Str("actor", s.Name).Logger(),
		done: make(chan struct{}), status: Initializing,
	}
	base := context.WithValue(context.Background(), senderKey{}, in)
	in.ctx, in.cancel = context.WithCancelCause(base)
	in.control = append(in.control, in.construct(s, told))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch old, taken := p.actors[s.Name]; {
	case p.closing:
		return nil, errorf(CodeStopped, id.String(), "", "the proc has stopped")
	case s.Name == clientName:
		return nil, errorf(CodeInvalid, id.String(), "", "that is the name of code that is not an actor: take another")
	case taken && !old.snapshot().Status.Terminal():
		return nil, errorf(CodeInvalid, id.String(), "", "an actor of that name is there already")
	}
	p.actors[s.Name] = in
	in.mu.Lock()
	defer in.mu.Unlock()
	in.wakeLocked()
	return in, nil
}

// retire remembers an actor that has ended, in place of the one that ended longest ago.
func (p *Proc) retire(in *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = append(p.ended, in)
	if len(p.ended) <= maxEnded {
		return
	}
	oldest := p.ended[0]
	p.ended = slices.Delete(p.ended, 0, 1)
	if name := oldest.id.Name; p.actors[name] == oldest { // not one of the same name after it
		delete(p.actors, name)
	}
}

// Spawn makes an actor of a type in this process, under a fresh name that starts with label.
func Spawn[A, P any](ctx context.Context, p *Proc, typ Type[A, P], label string, params P) (Ref[A], error) {
	name, err := subjects.NewName(label)
	if err != nil {
		return Ref[A]{}, err
	}
	id, err := p.Spawn(ctx, Spawning{Type: typ.name, Name: name, Params: params})
	return Ref[A]{id: id, via: p}, err
}

// Done is closed once an actor has ended; nil when the proc has none of that name.
func (p *Proc) Done(name string) <-chan struct{} {
	if in := p.find(name); in != nil {
		return in.done
	}
	return nil
}

// StopActor asks an actor to stop after the messages it has accepted, and returns a channel that
// is closed once it has; nil when there is no such actor.
func (p *Proc) StopActor(name, reason string) <-chan struct{} {
	in := p.find(name)
	if in == nil {
		return nil
	}
	in.stop(reason)
	return in.done
}

func (p *Proc) find(name string) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.actors[name]
}
