package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/castnet-io/castnet/internal/supervise"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Spawning says what to spawn.
type Spawning struct {
	Type   string
	Name   string // the actor's name in the proc: a label, or label-uid
	Params any    // what the constructor takes; nil: decode Raw
	Raw    []byte // CBOR of the same
	Point  shape.Point

	Announce bool     // publish its end on `ev.`, and that another runs in its place; its failure is published in any case
	Greet    bool     // of one that is announced: publish that it runs, too, for those who wait for it
	Mailbox  int      // messages that may wait; 0: as many as Options say; Unbounded: as many as memory holds
	Restart  Restart  // what follows its end; zero: a failure goes to its parent
	Strategy Strategy // how its own children are started again
	NoWait   bool     // Spawn does not wait for the constructor
}

// Unbounded is the size of a mailbox that is never full: its senders are not told when the actor
// falls behind, and what it holds costs memory.
const Unbounded = -1

// Option changes how Spawn and SpawnChild spawn.
type Option func(*Spawning)

// NoWait does not wait for the constructor. When that fails, the actor's parent and its senders are
// told.
func NoWait() Option { return noWait }

func noWait(s *Spawning) { s.NoWait = true }

// Mailbox sets how many messages may wait for the actor; Unbounded is possible.
func Mailbox(size int) Option { return func(s *Spawning) { s.Mailbox = size } }

// WithRestart says what follows the actor's end.
func WithRestart(r Restart) Option { return func(s *Spawning) { s.Restart = r } }

// WithStrategy says how the actor's children are started again.
func WithStrategy(y Strategy) Option { return func(s *Spawning) { s.Strategy = y } }

// Spawn makes an actor of a type in this process, under a fresh name that starts with label, and
// waits until its constructor has returned, at most until ctx ends (without a deadline: 30 s). It
// has no parent: the proc is told when it fails.
func Spawn[A, P any](ctx context.Context, p *Proc, typ Type[A, P], label string, params P, opts ...Option) (Ref[A], error) {
	return spawnTyped(ctx, p, nil, typ, label, params, opts)
}

// SpawnChild is Spawn for an actor that belongs to the one whose Context ctx is: it stops before
// its parent does, and its parent is told when it ends (Supervisor). The wait for its constructor
// ends with ctx, too.
func SpawnChild[A, P any](ctx *Context, typ Type[A, P], label string, params P, opts ...Option) (Ref[A], error) {
	return spawnTyped(ctx, ctx.in.proc, ctx.in, typ, label, params, opts)
}

// SpawnFor is SpawnChild for the actor whose Context ctx is or derives from, and Spawn in p when there is
// none, or it lives in another proc.
func SpawnFor[A, P any](ctx context.Context, p *Proc, typ Type[A, P], label string, params P, opts ...Option) (Ref[A], error) {
	parent, _ := ctx.Value(senderKey{}).(*instance)
	if parent != nil && parent.proc != p {
		parent = nil
	}
	return spawnTyped(ctx, p, parent, typ, label, params, opts)
}

func spawnTyped[A, P any](ctx context.Context, p *Proc, parent *instance, typ Type[A, P], label string, params P, opts []Option) (Ref[A], error) {
	name, err := subjects.NewName(label)
	if err != nil {
		return Ref[A]{}, err
	}
	b := &birth{Spawning: Spawning{Type: typ.name, Name: name, Params: params}}
	for _, o := range opts {
		o(&b.Spawning)
	}
	in, err := p.spawn(ctx, parent, b)
	return Ref[A]{id: p.id.Actor(name), via: p, in: in}, err
}

// Spawn makes an actor and waits until its constructor has returned. When ctx ends before (without
// a deadline: after 30 s), the actor is told to give up. Messages sent to it meanwhile wait in its
// mailbox.
func (p *Proc) Spawn(ctx context.Context, s Spawning) (subjects.ActorID, error) {
	in, err := p.spawn(ctx, nil, &birth{Spawning: s})
	if in == nil {
		return subjects.ActorID{}, err
	}
	return in.id(), err
}

// Spawn is Proc.Spawn for actors that make many: it does not wait. then runs on the turn of the actor whose
// Context this is, once the constructor has returned, or has taken 30 s.
func (c *Context) Spawn(s Spawning, then func(*Context, error)) error {
	mustBe(then != nil, "Spawn", "a function, got nil")
	p, by := c.in.proc, c.in
	def, err := p.registry.find(s.Type)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return err
	}
	var heard atomic.Bool
	var cancel func() // read on the turns that follow this one
	b := &birth{Spawning: s}
	b.begun = func(in *instance, err error) {
		in.bornOf(err)
		if !heard.CompareAndSwap(false, true) {
			return
		}
		by.post(func(ctx *Context) {
			if cancel(); err == nil {
				then(ctx, nil)
				return
			}
			ctx.Go(func(work context.Context) func(*Context) { // until its name is free again
				select {
				case <-in.ended():
				case <-work.Done():
				}
				return func(ctx *Context) { then(ctx, err) }
			})
		})
	}
	in, err := p.bear(def, nil, b, nil)
	if err != nil {
		return err
	}
	cancel = c.After(DefaultDeadline, func(ctx *Context) {
		if heard.CompareAndSwap(false, true) {
			late := errorf(CodeDeadline, in.id().String(), "", "its constructor did not return within %s", DefaultDeadline)
			in.fail(ending{code: CodeKilled, reason: "killed: " + late.Text})
			then(ctx, late)
		}
	})
	return nil
}

// birth is how an actor comes to be, and comes to be again.
type birth struct {
	Spawning
	over  bool                   // its constructor has returned, or panicked
	told  chan error             // holds one: what became of the constructor; nil: nobody asks
	again bool                   // it takes the place of another
	begun func(*instance, error) // the same, for whoever starts an actor again, or goes on meanwhile
}

func (p *Proc) spawn(ctx context.Context, parent *instance, b *birth) (*instance, error) {
	def, err := p.registry.find(b.Type)
	if err == nil {
		err = b.check()
	}
	if err != nil {
		return nil, err
	}
	if b.NoWait {
		return p.bear(def, parent, b, nil)
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	b.told = make(chan error, 1)
	in, err := p.bear(def, parent, b, nil)
	if err != nil {
		return nil, err
	}
	select {
	case err = <-b.told:
		if err != nil {
			select { // so that its name is free again when Spawn returns; its children may take their time
			case <-in.ended():
			case <-ctx.Done():
			}
		}
	case <-in.ended():
		select {
		case err = <-b.told:
		default: // it ended before its first turn
			err = in.refused()
		}
	case <-ctx.Done():
		select {
		case err = <-b.told: // both came at the same time
		default:
			err = fromContext(ctx, in.id().String(), "")
			in.fail(ending{code: CodeKilled, reason: "its spawn was given up: " + err.Error()})
		}
	}
	return in, err
}

// check refuses what makes no sense before anything grows.
func (s *Spawning) check() error {
	if err := subjects.CheckName("actor", s.Name); err != nil {
		return err
	}
	if err := checkMailbox(s.Mailbox); err != nil {
		return errorf(CodeInvalid, "", "", "actor %q: %v", s.Name, err)
	}
	if err := s.Restart.policy().Check(); err != nil {
		return errorf(CodeInvalid, "", "", "actor %q: restart %v", s.Name, err)
	}
	if err := supervise.Strategy(s.Strategy).Check(); err != nil {
		return errorf(CodeInvalid, "", "", "actor %q: %v", s.Name, err)
	}
	return nil
}

func checkMailbox(size int) error {
	if size < Unbounded || size > maxMailbox {
		return fmt.Errorf("mailbox of %d messages: want 1 to %d, 0 for the default, or Unbounded", size, maxMailbox)
	}
	return nil
}

// bear makes an actor under its name and starts it: its constructor is its first turn, so no message
// is handled before. old is the actor whose place it takes, when it does.
func (p *Proc) bear(def *Def, parent *instance, b *birth, old *instance) (*instance, error) {
	b.again = old != nil
	in := &instance{
		proc: p, def: def, name: b.Name, parent: parent, birth: b,
		announced: b.Announce, greets: b.Greet || old != nil, strategy: b.Strategy, limit: int32(cmp.Or(b.Mailbox, p.mailbox)),
		phase: between, // mail does not start it before its parent knows it
	}
	if in.limit == Unbounded {
		in.limit = maxMailbox
	}
	if err := p.directory.add(in); err != nil {
		return nil, err
	}
	if err := p.adopt(parent, in, b.Restart); err != nil {
		p.directory.remove(in)
		return nil, err
	}
	if old != nil {
		in.takePlace(old)
	}
	if b.told == nil && old == nil {
		p.turns.startSoon(in)
	} else {
		p.turns.start(in)
	}
	return in, nil
}

// begin is an actor's first turn: it makes the actor from its parameters.
func (in *instance) begin(ctx *Context) {
	var err error
	b := in.birth
	if b.Params == nil && b.Raw != nil {
		b.Params, err = in.def.params(wire.CBOR, b.Raw, &in.proc.counts.unknown)
		if err != nil {
			err = errBadParams{err}
		}
	}
	if err == nil {
		in.actor, err = in.def.construct(ctx, b.Params)
	}
	if err == nil && isNil(in.actor) {
		err = errNilActor
	}
	in.constructed(err)
}

// isNil reports whether there is no actor behind a value.
func isNil(a any) bool {
	v := reflect.ValueOf(a)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

var errNilActor = errors.New("its constructor returned nil: want an actor, or an error")

// errBadParams is the error of parameters that do not decode.
type errBadParams struct{ error }

// constructed takes what became of the constructor: an error, or nil.
func (in *instance) constructed(err error) {
	b := in.birth
	b.over = true
	if err != nil {
		err = in.unborn(err)
	}
	in.mu.Lock()
	if err == nil && in.over { // it was killed meanwhile
		err = in.why()
	}
	ahead := err == nil && in.state == initializing // else it was told to stop meanwhile
	if ahead {
		in.state = running
	}
	in.mu.Unlock()
	if ahead && (in.announced || in.proc.observed.Load()) {
		in.happened(Running)
	}
	alone := in.parent == nil || in.parent.strategy == OneForOne // else its group may start it again
	if alone && b.Restart == (Restart{}) && b.Point.Extent().Equal(shape.Unit()) {
		in.birth = nil // nobody will ask
	}
	if b.told != nil {
		b.told <- err
	}
	if tell := b.begun; tell != nil {
		b.begun = nil // it knows the actor whose place this one took
		tell(in, err)
	}
}

// unborn fails an actor whose constructor did not make it, and puts the error in words.
//
//go:noinline
func (in *instance) unborn(err error) error {
	in.actor = nil // there is nothing to clean up
	if bad, is := errors.AsType[errBadParams](err); is {
		err = errorf(CodeBadMessage, in.id().String(), "", "actor type %s: parameters: %v", in.def.name, bad.error)
	} else if !in.crash {
		err = fmt.Errorf("actor type %s: %w", in.def.name, err)
	}
	in.fail(ending{code: CodeHandler, reason: err.Error()}) // changes nothing after a panic
	return err
}

// StopActor asks an actor to stop after the messages it has accepted, and returns a channel that
// is closed once it has; nil when there is no such actor.
func (p *Proc) StopActor(name, reason string) <-chan struct{} {
	in := p.find(name)
	if in == nil {
		return nil
	}
	in.asked(ending{reason: reason})
	return in.ended()
}

// KillActor ends an actor as soon as the handler that runs has returned: its context is cancelled,
// its mail comes back at once, and it ends as failed. The channel is closed once it has ended; nil
// when there is no such actor.
func (p *Proc) KillActor(name, reason string) <-chan struct{} {
	in := p.find(name)
	if in == nil {
		return nil
	}
	in.fail(ending{code: CodeKilled, reason: "killed: " + reason})
	return in.ended()
}

// Done is closed once an actor has ended; nil when the proc has none of that name.
func (p *Proc) Done(name string) <-chan struct{} {
	if in := p.find(name); in != nil {
		return in.ended()
	}
	return nil
}

// ended returns a channel that is closed after the terminal event.
func (in *instance) ended() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	r := in.rarely()
	if r.done == nil {
		r.done = make(chan struct{})
		if in.closed {
			close(r.done)
		}
	}
	return r.done
}
