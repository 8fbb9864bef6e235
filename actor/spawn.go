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
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// SpawnSpec describes an actor to spawn.
type SpawnSpec struct {
	Type   string
	Name   string // the actor's name in the proc: a label, or label-uid
	Params any    // the constructor's parameters; nil: decode Raw
	Raw    []byte // CBOR of the same
	Point  shape.Point

	Announce      bool          // publish its end and restarts on `ev.`; failures are published in any case
	AnnounceStart bool          // with Announce: also publish its start
	Mailbox       int           // the mailbox size in messages; 0: as in Options; Unbounded: none
	RestartPolicy RestartPolicy // the restart policy; zero: a failure goes to its parent
	Strategy      Strategy      // how its own children are started again
	NoWait        bool          // Spawn does not wait for the constructor

	// Parent is an actor of any proc: this one stops once it is gone. The zero ID: none. To handle
	// the end of this one, the parent calls Supervise.
	Parent subjects.ActorID
}

// Unbounded is the size of a mailbox without a bound. Its senders do not notice when the actor
// falls behind, and it costs memory.
const Unbounded = -1

// Option changes how Spawn and SpawnChild spawn.
type Option func(SpawnSpec) SpawnSpec

// NoWait does not wait for the constructor. If it fails, the actor's parent and senders are
// notified.
func NoWait() Option { return noWait }

func noWait(s SpawnSpec) SpawnSpec {
	s.NoWait = true
	return s
}

// Mailbox sets how many messages may wait for the actor; Unbounded is possible.
func Mailbox(size int) Option {
	return func(s SpawnSpec) SpawnSpec {
		s.Mailbox = size
		return s
	}
}

// WithRestartPolicy sets the actor's restart policy.
func WithRestartPolicy(r RestartPolicy) Option {
	return func(s SpawnSpec) SpawnSpec {
		s.RestartPolicy = r
		return s
	}
}

// WithStrategy sets the restart strategy of the actor's children.
func WithStrategy(y Strategy) Option {
	return func(s SpawnSpec) SpawnSpec {
		s.Strategy = y
		return s
	}
}

// Spawn creates an actor of a type in this process, under a fresh name that starts with label. It
// waits for the constructor, at most until ctx ends (without a deadline: 30 s). The actor has no
// parent: its failure goes to the proc.
func Spawn[A, P any](ctx context.Context, p *Proc, typ Type[A, P], label string, params P,
	opts ...Option) (Ref[A], error) {
	return spawnTyped(ctx, p, nil, typ, label, params, opts)
}

// SpawnChild is Spawn for a child of the actor of ctx. The child stops before its parent does, and
// the parent handles its end (Supervisor). The wait for its constructor ends with ctx, too.
func SpawnChild[A, P any](ctx *Context, typ Type[A, P], label string, params P,
	opts ...Option) (Ref[A], error) {
	return spawnTyped(ctx, ctx.in.proc, ctx.in, typ, label, params, opts)
}

// SpawnFor is SpawnChild for the actor that ctx belongs to or derives from. If there is none, or it
// lives in another proc, SpawnFor is Spawn in p.
func SpawnFor[A, P any](ctx context.Context, p *Proc, typ Type[A, P], label string, params P,
	opts ...Option) (Ref[A], error) {
	parent := originOf(ctx).in
	if parent != nil && parent.proc != p {
		parent = nil
	}
	return spawnTyped(ctx, p, parent, typ, label, params, opts)
}

func spawnTyped[A, P any](ctx context.Context, p *Proc, parent *instance, typ Type[A, P], label string,
	params P, opts []Option) (Ref[A], error) {
	name, err := subjects.NewName(label)
	if err != nil {
		return Ref[A]{}, err
	}
	s := SpawnSpec{Type: typ.name, Name: name, Params: params}
	for _, o := range opts {
		s = o(s)
	}
	in, err := p.spawn(ctx, parent, &s)
	return Ref[A]{actorRef{id: p.id.Actor(name), via: p, in: in}}, err
}

// Spawn creates an actor and waits for its constructor. If ctx ends before (without a deadline:
// after 30 s), the actor is cancelled. Messages sent to it meanwhile wait in its mailbox.
func (p *Proc) Spawn(ctx context.Context, s SpawnSpec) (subjects.ActorID, error) {
	in, err := p.spawn(ctx, nil, &s)
	if in == nil {
		return subjects.ActorID{}, err
	}
	return in.id(), err
}

// Spawn is Proc.Spawn without the wait, for actors that spawn many. then runs on the caller's turn,
// once the constructor has returned, or after 30 s.
func (c *Context) Spawn(s SpawnSpec, then func(*Context, error)) error {
	mustHold(then != nil, "Spawn", "a function, got nil")
	by := c.in
	p := by.proc
	def, err := p.options.Registry.find(s.Type)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return err
	}
	var heard atomic.Bool
	var cancel func() // read on later turns
	b := &spawnState{}
	b.onConstructed = func(in *instance, err error) {
		in.onConstructed(err)
		if !heard.CompareAndSwap(false, true) {
			return
		}
		by.runSoon(func(ctx *Context) {
			cancel()
			if err == nil {
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
	in, err := p.startInstance(def, nil, &s, b, nil)
	if err != nil {
		return err
	}
	cancel = c.After(DefaultDeadline, func(ctx *Context) {
		if heard.CompareAndSwap(false, true) {
			late := errorf(CodeDeadline, in.id().String(), "", "its constructor did not return within %s",
				DefaultDeadline)
			in.fail(ending{code: CodeKilled, reason: "killed: " + late.Text})
			then(ctx, late)
		}
	})
	return nil
}

// spawnState is the state of an actor's start and restarts.
type spawnState struct {
	spec          *SpawnSpec             // nil: the parameters are all that is needed
	params        any                    // nil: decode those of spec
	constructed   bool                   // its constructor has returned, or panicked
	isRestart     bool                   // it takes the place of another
	result        chan error             // holds one: the constructor's result; nil: no waiter
	onConstructed func(*instance, error) // the same, for a restart, or a spawner that goes on meanwhile
}

// isKept reports whether the spec is needed after the constructor.
func (s *SpawnSpec) isKept(parent *instance) bool {
	inGroup := parent != nil && parent.strategy != OneForOne // it may start it again
	return inGroup || s.RestartPolicy != (RestartPolicy{}) || !s.Point.Extent().Equal(shape.Unit())
}

func (p *Proc) spawn(ctx context.Context, parent *instance, s *SpawnSpec) (*instance, error) {
	def, err := p.options.Registry.find(s.Type)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, err
	}
	b := &spawnState{}
	if s.NoWait {
		return p.startInstance(def, parent, s, b, nil)
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	b.result = make(chan error, 1)
	in, err := p.startInstance(def, parent, s, b, nil)
	if err != nil {
		return nil, err
	}
	select {
	case err = <-b.result:
		if err != nil {
			select { // its name is free again when Spawn returns; its children may take their time
			case <-in.ended():
			case <-ctx.Done():
			}
		}
	case <-in.ended():
		select {
		case err = <-b.result:
		default: // it ended before its first turn
			err = in.refusalError()
		}
	case <-ctx.Done():
		select {
		case err = <-b.result: // both came at the same time
		default:
			err = fromContext(ctx, in.id().String(), "")
			in.fail(ending{code: CodeKilled, reason: "its spawn was canceled: " + err.Error()})
		}
	}
	return in, err
}

// check refuses invalid specs before any state changes.
func (s *SpawnSpec) check() error {
	if err := subjects.CheckName("actor", s.Name); err != nil {
		return err
	}
	if err := checkMailbox(s.Mailbox); err != nil {
		return errorf(CodeInvalid, "", "", "actor %q: %v", s.Name, err)
	}
	if err := s.RestartPolicy.policy().Check(); err != nil {
		return errorf(CodeInvalid, "", "", "actor %q: %v", s.Name, err)
	}
	if err := supervise.Strategy(s.Strategy).Check(); err != nil {
		return errorf(CodeInvalid, "", "", "actor %q: %v", s.Name, err)
	}
	return nil
}

func checkMailbox(size int) error {
	if size < Unbounded || size > maxMailbox {
		return fmt.Errorf("mailbox of %d messages: want 1 to %d, 0 for the default, or Unbounded", size,
			maxMailbox)
	}
	return nil
}

// startInstance creates an actor under its name and starts it. Its constructor is its first turn
// and precedes all messages. old is the replaced actor, or nil.
func (p *Proc) startInstance(def *Def, parent *instance, s *SpawnSpec, b *spawnState,
	old *instance) (*instance, error) {
	b.params = s.Params
	if s.isKept(parent) || s.Raw != nil || s.Parent.IsValid() {
		kept := *s
		b.spec = &kept
	}
	b.isRestart = old != nil
	in := &instance{
		proc: p, def: def, name: s.Name, parent: parent, spawn: b,
		announceEnd: s.Announce, announceStart: s.AnnounceStart ||
			old != nil, strategy: s.Strategy, limit: int32(cmp.Or(s.Mailbox, p.options.Mailbox)),
		phase: phaseBetween, // mail does not start it before its parent knows it
	}
	if in.limit == Unbounded {
		in.limit = maxMailbox
	}
	if err := p.directory.add(in); err != nil {
		return nil, err
	}
	if err := adopt(in, s.RestartPolicy); err != nil {
		p.directory.remove(in)
		return nil, err
	}
	if old != nil {
		in.joinRestartChain(old)
	}
	if b.result == nil && old == nil {
		p.workers.startQueued(in)
	} else {
		p.workers.start(in)
	}
	return in, nil
}

// construct is an actor's first turn: it makes the actor from its parameters.
func (in *instance) construct(ctx *Context) {
	b := in.spawn
	err := in.prepare(b)
	if err == nil {
		in.actor, err = in.def.construct(ctx, b.params)
	}
	if err == nil && isNil(in.actor) {
		err = errNilActor
	}
	in.finishConstruct(err)
}

// prepare decodes the parameters, and binds the actor to its remote parent.
func (in *instance) prepare(b *spawnState) (err error) {
	s := b.spec
	if s == nil {
		return nil
	}
	if b.params == nil && s.Raw != nil {
		b.params, err = in.def.params(wire.CBOR, s.Raw, &in.proc.counts.unknown)
		if err != nil {
			return errBadParams{err}
		}
	}
	if s.Parent.IsValid() {
		return in.stopWith(s.Parent)
	}
	return nil
}

// isNil reports whether there is no actor behind a value.
func isNil(a any) bool {
	v := reflect.ValueOf(a)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

var errNilActor = errors.New("its constructor returned nil: want an actor, or an error")

// errBadParams wraps an error of undecodable parameters.
type errBadParams struct{ error }

// finishConstruct takes the constructor's result: an error, or nil.
func (in *instance) finishConstruct(err error) {
	b := in.spawn
	b.constructed = true
	if err != nil {
		err = in.failConstructor(err)
	}
	in.mu.Lock()
	if err == nil && in.aborted { // it was killed meanwhile
		err = in.endError()
	}
	ahead := err == nil && in.state == initializing // else it was stopped meanwhile
	if ahead {
		in.state = running
	}
	in.mu.Unlock()
	if ahead && (in.announceEnd || in.proc.observers.some.Load()) {
		in.publishStatus(Running)
	}
	b.params = nil
	if b.spec == nil || !b.spec.isKept(in.parent) {
		in.spawn = nil
	}
	if b.result != nil {
		b.result <- err
	}
	if tell := b.onConstructed; tell != nil {
		b.onConstructed = nil // it knows the actor whose place this one took
		tell(in, err)
	}
}

// failConstructor fails an actor whose constructor failed, and describes the error.
//
//go:noinline
func (in *instance) failConstructor(err error) error {
	in.actor = nil // there is nothing to clean up
	if bad, is := errors.AsType[errBadParams](err); is {
		err = errorf(CodeBadMessage, in.id().String(), "", "actor type %s: parameters: %v",
			in.def.name, bad.error)
	} else if !in.handlerCrashed {
		err = fmt.Errorf("actor type %s: %w", in.def.name, err)
	}
	in.fail(ending{code: CodeHandler, reason: err.Error()}) // no effect after a panic
	return err
}

// StopActor asks an actor to stop after its accepted messages. The returned channel is closed once
// it has stopped; nil if there is no such actor.
func (p *Proc) StopActor(name, reason string) <-chan struct{} {
	in := p.find(name)
	if in == nil {
		return nil
	}
	in.requestStop(ending{reason: reason})
	return in.ended()
}

// KillActor ends an actor after the current handler: its context is cancelled, its mail comes back
// at once, and it ends as failed. The channel is closed once it has ended; nil if there is no such
// actor.
func (p *Proc) KillActor(name, reason string) <-chan struct{} {
	in := p.find(name)
	if in == nil {
		return nil
	}
	in.fail(ending{code: CodeKilled, reason: "killed: " + reason})
	return in.ended()
}

// Done returns a channel that is closed once the actor has ended; nil if the proc has none of that
// name.
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
	r := in.ensureExtra()
	if r.done == nil {
		r.done = make(chan struct{})
		if in.terminated {
			close(r.done)
		}
	}
	return r.done
}
