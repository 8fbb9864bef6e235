package actor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Options configures a proc. ID, Bus and Registry are required; the rest has defaults.
type Options struct {
	ID       subjects.ProcID
	Bus      *bus.Bus       // not owned: the proc does not close it
	Space    subjects.Space // zero: castnet, default
	Registry Registry       // what the proc can run; may be empty
	Log      zerolog.Logger
}

// Proc is an actor runtime with an address: it runs actors, receives what the bus brings for them
// and sends what they say. All methods may be called on any goroutine.
type Proc struct {
	id       subjects.ProcID
	self     subjects.ProcessID
	bus      *bus.Bus
	space    subjects.Space
	registry Registry
	log      zerolog.Logger
	sender   *link.Sender
	receiver *link.Receiver
	turns    sync.WaitGroup // goroutines that run actors
	nextPort atomic.Uint64
	counts   counters

	mu        sync.Mutex // guards the fields below
	actors    map[string]*instance
	ports     map[portKey]*port
	calls     map[*call]struct{}
	watched   map[subjects.MeshID]*watch
	down      map[subjects.ProcID]Event
	watchers  map[*watcher]struct{}
	observers map[*func(Event)]struct{}
	values    map[any]any
	subs      []*bus.Sub
	closed    bool
}

// NewProc starts a proc: when it returns, messages to it arrive (BUS-3).
func NewProc(ctx context.Context, o Options) (*Proc, error) {
	if !o.ID.IsValid() {
		return nil, fmt.Errorf("start proc: want a valid ID, got %q", o.ID)
	}
	if o.Bus == nil {
		return nil, fmt.Errorf("start proc %s: no bus", o.ID)
	}
	p := &Proc{
		id: o.ID, self: o.ID.Process(), bus: o.Bus, space: o.Space, registry: o.Registry,
		log:    o.Log.With().Stringer("proc", o.ID).Logger(),
		sender: link.NewSender(), receiver: link.NewReceiver(),
		actors: map[string]*instance{}, ports: map[portKey]*port{}, calls: map[*call]struct{}{},
		watched: map[subjects.MeshID]*watch{}, down: map[subjects.ProcID]Event{},
		watchers: map[*watcher]struct{}{}, observers: map[*func(Event)]struct{}{}, values: map[any]any{},
	}
	for _, s := range []struct {
		conn    *bus.Conn
		subject string
		handle  func(bus.Msg)
	}{
		{o.Bus.Data(), p.space.PortsOf(p.id), p.receivePort},
		{o.Bus.Data(), p.space.HintsOf(p.self), p.receiveHint},
		{o.Bus.Control(), p.space.ControlsOf(p.self), p.receiveControl},
	} {
		sub, err := s.conn.Subscribe(s.subject, s.handle)
		if err != nil {
			p.unsubscribe()
			return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
		}
		p.subs = append(p.subs, sub)
	}
	return p, nil
}

// ID is the proc's address.
func (p *Proc) ID() subjects.ProcID { return p.id }

// Space is the namespace the proc lives in.
func (p *Proc) Space() subjects.Space { return p.space }

// Bus is the proc's pair of connections.
func (p *Proc) Bus() *bus.Bus { return p.bus }

// Log is the proc's logger.
func (p *Proc) Log() zerolog.Logger { return p.log }

// Registry is what the proc can run.
func (p *Proc) Registry() Registry { return p.registry }

// SetValue attaches a package's state to the proc, under a key of a type only that package has.
func (p *Proc) SetValue(key, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values[key] = value
}

// Value returns what SetValue attached.
func (p *Proc) Value(key any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.values[key]
}

// Spawning says what to spawn.
type Spawning struct {
	Type   string
	Name   string // the actor's name in the proc: a label, or label-uid
	Params any    // what the constructor takes; nil: decode Raw
	Raw    []byte // CBOR of the same
	Point  shape.Point
}

// Spawn makes an actor and waits until its constructor has returned. When ctx ends before, the
// actor is told to give up. Messages sent to it meanwhile wait in its mailbox.
func (p *Proc) Spawn(ctx context.Context, s Spawning) (subjects.ActorID, error) {
	def, err := p.registry.find(s.Type)
	if err != nil {
		return subjects.ActorID{}, err
	}
	if err := subjects.CheckName("actor", s.Name); err != nil {
		return subjects.ActorID{}, err
	}
	in, err := p.register(def, s)
	if err != nil {
		return subjects.ActorID{}, err
	}
	told := make(chan error, 1)
	in.construct(s.Params, s.Raw, told)
	select {
	case err = <-told:
	case <-ctx.Done():
		err = fromContext(ctx, in.id.String(), "")
		in.fail("its spawn was given up: " + err.Error())
	}
	return in.id, err
}

// register reserves the actor's name.
func (p *Proc) register(def Def, s Spawning) (*instance, error) {
	id := p.id.Actor(s.Name)
	in := &instance{
		proc: p, id: id, def: def, point: s.Point, log: p.log.With().Str("actor", s.Name).Logger(),
		done: make(chan struct{}), debts: map[debt]struct{}{}, status: Initializing,
	}
	in.ctx, in.cancel = context.WithCancelCause(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errorf(CodeStopped, id.String(), "", "the proc has stopped")
	}
	if old, ok := p.actors[s.Name]; ok && !old.snapshot().Status.Terminal() {
		return nil, errorf(CodeInvalid, id.String(), "", "an actor of that name is there already")
	}
	p.actors[s.Name] = in
	return in, nil
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

// Close stops every actor (each handles its mail), then the subscriptions. When ctx ends, actors
// that still run are told to give up; Close names those that do not. A second call does nothing.
func (p *Proc) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	all := make([]*instance, 0, len(p.actors))
	for _, in := range p.actors {
		all = append(all, in)
	}
	p.mu.Unlock()
	for _, in := range all {
		in.stop("the proc stops")
	}
	var stuck []error
	for _, in := range all {
		select {
		case <-in.done:
		case <-ctx.Done():
			in.fail("the proc stops and the actor did not")
			stuck = append(stuck, fmt.Errorf("%s did not stop", in.id))
		}
	}
	p.unsubscribe()
	p.failCalls(func(*call) bool { return true }, errorf(CodeStopped, p.id.String(), "", "the proc has stopped"))
	if !waitUntil(ctx, &p.turns) {
		stuck = append(stuck, errors.New("a handler did not return"))
	}
	return errors.Join(stuck...)
}

// unsubscribe ends everything the proc receives.
func (p *Proc) unsubscribe() {
	p.mu.Lock()
	subs := p.subs
	p.subs = nil
	for _, w := range p.watched {
		if w.sub != nil {
			subs = append(subs, w.sub)
		}
	}
	p.watched = map[subjects.MeshID]*watch{}
	p.mu.Unlock()
	for _, s := range subs {
		if err := s.Unsubscribe(); err != nil && !errors.Is(err, bus.ErrClosed) {
			p.log.Debug().Err(err).Msg("unsubscribe")
		}
	}
}

// Subscribe receives a subject on the data connection, in order with the messages of ports, until
// the proc closes. handle runs on the connection's pump and must not block.
func (p *Proc) Subscribe(subject string, handle func(bus.Msg)) error {
	sub, err := p.bus.Data().Subscribe(subject, handle)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subs = append(p.subs, sub)
	return nil
}

// freshPort names a port nobody has used.
func (p *Proc) freshPort() string { return "_" + strconv.FormatUint(p.nextPort.Add(1), 36) }
