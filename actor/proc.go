package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/subjects"
)

// giveUpWithin is how long an actor that is told to give up may take to return.
const giveUpWithin = time.Second

// What peers can cause is logged this often at most; the counters have it all.
const (
	noisyBurst  = 20
	noisyPeriod = 10 * time.Second
)

// Options configures a proc. ID, Bus and Registry are required; the rest has defaults. A proc with a Seat
// needs First, and takes Bus, Space and Links of it.
type Options struct {
	ID       subjects.ProcID
	Bus      *bus.Bus       // not owned: the proc does not close it
	Space    subjects.Space // zero: castnet, default
	Registry Registry       // what the proc can run; may be empty
	Log      zerolog.Logger

	// Coordinator takes the failure of an actor that has no parent, or whose parent did not survive
	// it. It runs on the goroutine of the actor that has ended and must not block. nil: the proc fails
	// (Proc.Failed).
	Coordinator func(Event)

	// First is the first proc of the OS process that the proc is in. It closes the others before itself.
	First *Proc

	// Cleanup bounds each of the things an actor does after its last message: waiting for its children, its
	// Cleanup method, and waiting for its tasks; 0: 10 s.
	Cleanup time.Duration

	// Relays are what relays have whose own options leave MaxUpdates or Max open; 0: 5 and 50 ms.
	Relays RelayOptions

	// Links bounds what is on the way between this proc and others; the zero value has the defaults.
	Links link.Config

	// Deadline is for a verb whose context has none, and then for the fate of its message; 0: 30 s.
	Deadline time.Duration
	// Mailbox is how many messages may wait for an actor whose spawn does not say; 0: 1,024.
	Mailbox int
}

// Proc is an actor runtime with an address: it runs actors, receives what the bus brings for them
// and sends what they say. All methods may be called on any goroutine.
type Proc struct {
	id       subjects.ProcID
	name     string // id as text
	self     subjects.ProcessID
	bus      *bus.Bus
	space    subjects.Space
	registry Registry
	log      zerolog.Logger
	loud     zerolog.Logger // log, thinned out, for what a peer can cause
	links    *link.Links
	targets  targets
	inbound  inbound
	process  *process
	later    incarnations // of the procs of meshes; the first proc's of a process
	turns    *workers     // of the process
	epoch    time.Time
	seats    *seats
	meters   meters
	scratch  sync.Pool // of *[]byte, to encode into
	nextPort atomic.Uint64
	counts   counters
	dead     deadLetters
	observed atomic.Bool // there are observers
	cleanup  time.Duration
	relays   RelayOptions

	lastFailure atomic.Pointer[Event]

	deadline    time.Duration // see Options
	mailbox     int           // the same
	coordinator func(Event)
	directory   directory
	roots       roots
	remote      remoteWatches
	failed      chan struct{} // closed once failure is set

	mu        sync.Mutex // guards the fields below
	failure   *Error
	ports     map[portKey]port
	watched   map[subjects.MeshID]*follow
	down      downs
	watchers  map[*watcher]struct{}
	observers map[*func(Event)]struct{}
	values    map[any]any
	subs      []*bus.Sub
	closing   bool // spawns nothing more
	closed    bool // receives nothing more
}

// NewProc starts a proc: when it returns, messages to it arrive (BUS-3).
func NewProc(ctx context.Context, o Options) (*Proc, error) {
	if !o.ID.IsValid() {
		return nil, fmt.Errorf("start proc: want a valid ID, got %q", o.ID)
	}
	if o.First != nil {
		if o.First.id != o.ID.Lead() || o.ID.Seat == 0 {
			return nil, fmt.Errorf("start proc %s: want one with a seat in the process of %s", o.ID, o.First.id)
		}
		o.Bus, o.Space = o.First.bus, o.First.space
	} else if o.ID.Seat > 0 {
		return nil, fmt.Errorf("start proc %s: want the first proc of its process, %s, in First", o.ID, o.ID.Lead())
	}
	if err := checkMailbox(o.Mailbox); err != nil {
		return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
	}
	if o.Bus == nil {
		return nil, fmt.Errorf("start proc %s: no bus", o.ID)
	}
	log := o.Log.With().Stringer("proc", o.ID).Logger()
	p := &Proc{
		id: o.ID, name: o.ID.String(), self: o.ID.Process(), bus: o.Bus, space: o.Space, registry: o.Registry, log: log,
		loud:    log.Sample(&zerolog.BurstSampler{Burst: noisyBurst, Period: noisyPeriod}),
		epoch:   time.Now(),
		cleanup: cmp.Or(max(0, o.Cleanup), cleanupTimeout), relays: o.Relays,
		deadline:    cmp.Or(o.Deadline, DefaultDeadline),
		mailbox:     cmp.Or(o.Mailbox, mailboxSize),
		coordinator: o.Coordinator, directory: directory{byName: map[string]*instance{}}, failed: make(chan struct{}),
		ports:    map[portKey]port{},
		watched:  map[subjects.MeshID]*follow{},
		watchers: map[*watcher]struct{}{}, observers: map[*func(Event)]struct{}{}, values: map[any]any{},
	}
	p.seats = newSeats(p.now)
	p.meters.now = p.now
	p.roots = roots{family: newFamily(OneForOne), alarms: map[*time.Timer]struct{}{}}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
	}
	if o.First != nil {
		p.process, p.links, p.turns = o.First.process, o.First.links, o.First.turns
		if err := p.subscribe(o.Bus.Data(), p.space.PortsOf(p.id), p.receivePort); err != nil {
			return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
		}
		p.process.join(p)
		return p, nil
	}
	o.Links.Deadline = cmp.Or(o.Links.Deadline, p.deadline)
	p.process, p.turns = &process{first: p, all: map[uint32]*Proc{0: p}}, new(workers)
	p.links = link.Open(link.Options{Self: p.self, Space: p.space, Bus: o.Bus, Handler: linked{p}, Config: o.Links, Unknown: &p.counts.unknown})
	for _, s := range []struct {
		conn    *bus.Conn
		subject string
		handle  func(bus.Msg)
	}{
		{o.Bus.Data(), p.space.PortsOf(p.id), p.receivePort},
		{o.Bus.Data(), p.space.FramesOf(p.self), p.receivePacket},
		{o.Bus.Data(), p.space.HintsOf(p.self), p.receiveHint},
		{o.Bus.Control(), p.space.ControlsOf(p.self), p.receiveControl},
	} {
		if err := p.subscribe(s.conn, s.subject, s.handle); err != nil {
			p.disconnect()
			p.links.Close()
			return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
		}
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

// Close stops every actor (each handles its mail), then the subscriptions. When ctx ends (without
// a deadline: after that of Options), actors that still run are told to give up; Close names those that do
// not, and leaves them behind. A second call does nothing.
func (p *Proc) Close(ctx context.Context) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		return nil
	}
	p.closing = true
	p.mu.Unlock()
	neighbours := p.closeOthers(ctx)
	p.roots.close()
	leaves := p.leaves()
	all := p.directory.close(p.stopped())
	for _, in := range all {
		if in.parent == nil { // its children are its own to stop
			in.asked(ending{reason: "the proc stops", cause: &leaves})
		}
	}
	for _, in := range all {
		select {
		case <-in.ended():
		case <-ctx.Done():
			in.fail(ending{code: CodeKilled, reason: "killed: the proc stops and the actor did not", cause: &leaves}) // no news to one that is done
		}
	}
	p.settle(ctx)
	p.disconnect()
	p.process.leave(p)
	if p == p.process.first {
		p.links.Close()
	}
	p.forgetPorts(func(string) bool { return true }, p.stopped())
	if err := p.bus.Data().Flush(ctx); err != nil { // who sends from now on is told that nobody listens
		p.log.Debug().Err(err).Msg("the server may not know yet that the proc is closed")
	}
	p.seats.close()
	p.remote.close()
	if p != p.process.first { // the workers are the first one's
		return nil
	}
	p.turns.retire()
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), giveUpWithin)
	defer done()
	if p.turns.wait(ctx) || p.turns.wait(grace) {
		return neighbours
	}
	return errors.Join(neighbours, stuck(all))
}

// closeOthers closes the other procs of the process, when this is the first.
func (p *Proc) closeOthers(ctx context.Context) error {
	if p != p.process.first {
		return nil
	}
	var errs []error
	for _, q := range p.process.procs() {
		if q != p {
			errs = append(errs, q.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

// settleWithin is how long the fates of what was sent may take when the proc closes.
const settleWithin = 2 * time.Second

// settle waits for the fates of what was sent, when there is a server that could bring them.
func (p *Proc) settle(ctx context.Context) {
	if p.bus.Data().URL() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	if err := p.links.Flush(ctx); err != nil {
		p.log.Debug().Err(err).Msg("not every message that was sent has a fate")
	}
}

// stuck names the actors that did not stop, and what they are at.
func stuck(all []*instance) error {
	var errs []error
	for _, in := range all {
		select {
		case <-in.ended():
			continue
		default:
		}
		what := "a task, its constructor or its end"
		if at := in.info().Current; at != "" {
			what = "its handler of " + at
		}
		errs = append(errs, fmt.Errorf("%s did not stop: %s has not returned", in.id(), what))
	}
	if len(errs) == 0 {
		return errors.New("a task of an actor that has ended did not return")
	}
	return errors.Join(errs...)
}

// disconnect ends everything the proc receives.
func (p *Proc) disconnect() {
	p.mu.Lock()
	p.closed = true
	subs := p.subs
	p.subs = nil
	p.mu.Unlock()
	for _, s := range subs {
		p.unsubscribe(s)
	}
}

func (p *Proc) find(name string) *instance { return p.directory.find(name) }

func (p *Proc) unsubscribe(s *bus.Sub) {
	if err := s.Unsubscribe(); err != nil && !errors.Is(err, bus.ErrClosed) {
		p.log.Debug().Err(err).Msg("unsubscribe")
	}
}

// Subscribe receives a subject on the data connection, in order with the messages of ports, until
// the proc closes. handle runs on the connection's pump and must not block.
func (p *Proc) Subscribe(subject string, handle func(bus.Msg)) error {
	return p.subscribe(p.bus.Data(), subject, handle)
}

// SubscribeLossy is Subscribe with a lossy Inbox: for requests of plain clients, in no order with anything else.
func (p *Proc) SubscribeLossy(in *bus.Inbox, subject string, handle func(bus.Msg)) error {
	return p.subscribe(in, subject, handle)
}

// subscriber is a lane, or a lossy Inbox.
type subscriber interface {
	Subscribe(subject string, handle func(bus.Msg)) (*bus.Sub, error)
}

func (p *Proc) subscribe(on subscriber, subject string, handle func(bus.Msg)) error {
	sub, err := on.Subscribe(subject, handle)
	if err != nil {
		return err
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.subs = append(p.subs, sub)
	}
	p.mu.Unlock()
	if closed {
		p.unsubscribe(sub)
		return p.stopped()
	}
	return nil
}

// Failed is closed when an actor's failure was nobody's to handle and failed the proc (Err says
// which). Its actors are stopped by then or about to be; whoever made the proc closes it.
func (p *Proc) Failed() <-chan struct{} { return p.failed }

// Err says why the proc failed; nil while it has not.
func (p *Proc) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		return nil
	}
	return p.failure
}

// fail ends a proc because of an actor's end that nobody handled.
func (p *Proc) fail(e Event) {
	p.mu.Lock()
	if p.closing || p.failure != nil {
		p.mu.Unlock()
		return
	}
	p.failure = errorf(CodeFailed, p.id.String(), "", "the proc failed: %s", e.Report())
	p.failure.Event = &e
	why := p.failure
	p.mu.Unlock()
	p.log.Error().Msg(why.Text)
	p.Emit(Event{
		Kind: KindProc, Status: string(Failed), Mesh: p.id.Mesh.String(), Rank: int(p.id.Rank), Gen: int(p.id.Gen),
		Code: CodeCascade, Reason: "its actor " + e.Actor + " failed: " + e.Reason, At: time.Now(),
	}.because(&e))
	p.roots.close()
	for _, in := range p.directory.close(why) {
		in.abandon(ending{reason: "the proc failed: its actor " + e.Actor + " failed: " + e.Reason, cause: &e}, false)
	}
	close(p.failed)
	p.forgetPorts(func(owner string) bool { return owner == clientName }, why)
}

// Barred is why code that is no actor can send nothing any more: the proc has failed. nil: it can. The actors of a
// proc that fails wind up what they have to.
func (p *Proc) Barred(sender string) error {
	if sender != clientName {
		return nil
	}
	select {
	case <-p.failed:
		return p.Err()
	default:
		return nil
	}
}

func (p *Proc) stopped() *Error {
	return errorf(CodeStopped, p.id.String(), "", "the proc has stopped")
}
