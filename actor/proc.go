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

// cancelGrace is the time for a cancelled actor to return.
const cancelGrace = time.Second

// Limits of log lines that peers can cause; the counters count all of them.
const (
	logBurst  = 20
	logPeriod = 10 * time.Second
)

// Options configures a proc. ID, Bus and Registry are required; the rest has defaults. A proc with
// an Index above 0 needs Lead, and uses its Bus, Space and Links.
type Options struct {
	ID       subjects.ProcID
	Bus      *bus.Bus       // not owned: the proc does not close it
	Space    subjects.Space // zero: castnet, default
	Registry Registry       // the actor types of the proc; may be empty
	Log      zerolog.Logger

	// Coordinator takes the failure of an actor without a living parent. It runs on the goroutine
	// of the ended actor and must not block. nil: the proc fails (Proc.Failed).
	Coordinator func(Event)

	// Lead is the first proc of the OS process. It closes the others before itself.
	Lead *Proc

	// Cleanup bounds each step of an actor's end after its last message: the wait for its children,
	// its Cleanup method, and the wait for its tasks; 0: 10 s.
	Cleanup time.Duration

	// Relays are the defaults of a relay's MaxUpdates and Max; 0: 5 and 50 ms.
	Relays RelayOptions

	// Links bounds the data in flight between this proc and others; the zero value has the
	// defaults.
	Links link.Config

	// Deadline is the timeout of a verb without a context deadline, and of its message's fate; 0:
	// 30 s.
	Deadline time.Duration
	// Mailbox is the default size of a mailbox, in messages; 0: 1,024.
	Mailbox int
}

// Proc is an actor runtime with an address: it runs actors, and receives and sends their messages
// on the bus. All methods may be called on any goroutine.
type Proc struct {
	id          subjects.ProcID
	name        string // id as text
	self        subjects.ProcessID
	bus         *bus.Bus
	space       subjects.Space
	registry    Registry
	log         zerolog.Logger
	sampledLog  zerolog.Logger // log with a rate limit, for events that a peer can cause
	links       *link.Links
	targets     targets
	inbound     inbound
	process     *process
	generations generations // of the procs of meshes; the first proc's of a process
	workers     *workers    // of the process
	epoch       time.Time
	waiters     *waiterPool
	limiters    rateLimiters
	bufs        sync.Pool // of *[]byte, to encode into
	nextPort    atomic.Uint64
	counts      counters
	deadLetters deadLetters
	observed    atomic.Bool // there are observers
	cleanup     time.Duration
	relays      RelayOptions

	lastFailure atomic.Pointer[Event]

	deadline       time.Duration // see Options
	mailbox        int           // the same
	coordinator    func(Event)
	directory      directory
	topLevel       topLevel
	remoteMonitors remoteMonitors
	failed         chan struct{} // closed once failure is set

	mu            sync.Mutex // guards the fields below
	failure       *Error
	ports         map[portKey]port
	subscriptions map[subjects.MeshID]*meshSubscription
	dead          deadProcs
	ending        []deathRange // ends whose procs are not marked down yet
	watchers      map[*unreachableWatcher]struct{}
	observers     map[*func(Event)]struct{}
	values        map[any]any
	subs          []*bus.Sub
	closing       bool // spawns nothing more
	closed        bool // receives nothing more
}

// NewProc starts a proc: when it returns, messages to it arrive (BUS-3).
func NewProc(ctx context.Context, o Options) (*Proc, error) {
	if !o.ID.IsValid() {
		return nil, fmt.Errorf("start proc: want a valid ID, got %q", o.ID)
	}
	if o.Lead != nil {
		if o.Lead.id != o.ID.Lead() || o.ID.Index == 0 {
			return nil, fmt.Errorf("start proc %s: want an ID with an index in the process of %s",
				o.ID, o.Lead.id)
		}
		o.Bus, o.Space = o.Lead.bus, o.Lead.space
	} else if o.ID.Index > 0 {
		return nil, fmt.Errorf("start proc %s: want the lead proc of its process, %s, in Options.Lead", o.ID,
			o.ID.Lead())
	}
	if err := checkMailbox(o.Mailbox); err != nil {
		return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
	}
	if o.Bus == nil {
		return nil, fmt.Errorf("start proc %s: want a bus, got nil", o.ID)
	}
	log := o.Log.With().Stringer("proc", o.ID).Logger()
	p := &Proc{
		id: o.ID, name: o.ID.String(), self: o.ID.Process(), bus: o.Bus, space: o.Space,
		registry: o.Registry, log: log,
		sampledLog: log.Sample(&zerolog.BurstSampler{Burst: logBurst, Period: logPeriod}),
		epoch:      time.Now(),
		cleanup:    cmp.Or(max(0, o.Cleanup), cleanupTimeout), relays: o.Relays,
		deadline:    cmp.Or(o.Deadline, DefaultDeadline),
		mailbox:     cmp.Or(o.Mailbox, mailboxSize),
		coordinator: o.Coordinator, directory: directory{byName: map[string]*instance{}},
		failed:        make(chan struct{}),
		ports:         map[portKey]port{},
		subscriptions: map[subjects.MeshID]*meshSubscription{},
		watchers:      map[*unreachableWatcher]struct{}{}, observers: map[*func(Event)]struct{}{},
		values: map[any]any{},
	}
	p.waiters = newWaiterPool(p.now)
	p.limiters.now = p.now
	p.topLevel = topLevel{children: newChildren(OneForOne), timers: map[*time.Timer]struct{}{}}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
	}
	if o.Lead != nil {
		p.process = o.Lead.process
		p.links = o.Lead.links
		p.workers = o.Lead.workers
		if err := p.subscribe(o.Bus.Data(), p.space.PortsOf(p.id), p.receivePort); err != nil {
			return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
		}
		p.process.join(p)
		return p, nil
	}
	o.Links.DefaultDeadline = cmp.Or(o.Links.DefaultDeadline, p.deadline)
	p.process = &process{lead: p, all: map[uint32]*Proc{0: p}}
	p.workers = new(workers)
	p.links = link.Open(link.Options{Self: p.self, Space: p.space, Bus: o.Bus, Handler: linkHandler{p},
		Config: o.Links, Unknown: &p.counts.unknown})
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

// Space is the namespace of the proc.
func (p *Proc) Space() subjects.Space { return p.space }

// Bus is the proc's pair of connections.
func (p *Proc) Bus() *bus.Bus { return p.bus }

// Log is the proc's logger.
func (p *Proc) Log() zerolog.Logger { return p.log }

// Registry returns the actor types of the proc.
func (p *Proc) Registry() Registry { return p.registry }

// Close stops every actor (each handles its mail), then the subscriptions. When ctx ends (without a
// deadline: after that of Options), the remaining actors are cancelled. Close leaves stuck actors
// behind and names them in its error. A second call does nothing.
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
	neighbours := p.closeColocated(ctx)
	p.topLevel.close()
	leaves := p.stoppingEvent()
	all := p.directory.close(p.stopped())
	for _, in := range all {
		if in.parent == nil { // its children are its own to stop
			in.requestStop(ending{reason: "the proc stops", cause: &leaves})
		}
	}
	for _, in := range all {
		select {
		case <-in.ended():
		case <-ctx.Done():
			// It has no effect on an ended actor.
			reason := "killed: the proc stops and the actor did not"
			in.fail(ending{code: CodeKilled, reason: reason, cause: &leaves})
		}
	}
	p.awaitFates(ctx)
	p.disconnect()
	p.process.leave(p)
	if p == p.process.lead {
		p.links.Close()
	}
	p.closePortsOf(func(string) bool { return true }, p.stopped())
	if err := p.bus.Data().Flush(ctx); err != nil { // later senders learn that the proc is gone
		p.log.Debug().Err(err).Msg("cannot flush the close of the proc")
	}
	p.waiters.close()
	p.remoteMonitors.close()
	if p != p.process.lead { // the workers are the first one's
		return nil
	}
	p.workers.retire()
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer done()
	if p.workers.wait(ctx) || p.workers.wait(grace) {
		return neighbours
	}
	return errors.Join(neighbours, stuckError(all))
}

// closeColocated closes the other procs of the process, when this is the first.
func (p *Proc) closeColocated(ctx context.Context) error {
	if p != p.process.lead {
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

// closeFlushTimeout bounds the wait for fates of sent messages when the proc closes.
const closeFlushTimeout = 2 * time.Second

// awaitFates waits for the fates of sent messages, if a server is connected.
func (p *Proc) awaitFates(ctx context.Context) {
	if p.bus.Data().URL() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeFlushTimeout)
	defer cancel()
	if err := p.links.Flush(ctx); err != nil {
		p.log.Debug().Err(err).Msg("some sent messages have no fate")
	}
}

// stuckError names the stuck actors, and their current work.
func stuckError(all []*instance) error {
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
		p.log.Debug().Err(err).Msg("cannot unsubscribe")
	}
}

// Subscribe receives a subject on the data connection, in order with the messages of ports, until
// the proc closes. handle runs on the connection's pump and must not block.
func (p *Proc) Subscribe(subject string, handle func(bus.Msg)) error {
	return p.subscribe(p.bus.Data(), subject, handle)
}

// SubscribeLossy is Subscribe with a lossy Inbox: for requests of plain clients, in no order with
// anything else.
func (p *Proc) SubscribeLossy(in *bus.Inbox, subject string, handle func(bus.Msg)) error {
	return p.subscribe(in, subject, handle)
}

// subscriber is a bus connection, or a lossy Inbox.
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

// Failed is closed when an actor's failure had no other owner and failed the proc (Err has the
// reason). Its actors are stopping or stopped; the creator of the proc closes it.
func (p *Proc) Failed() <-chan struct{} { return p.failed }

// Err returns the failure of the proc; nil while it has not failed.
func (p *Proc) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		return nil
	}
	return p.failure
}

// fail ends a proc because of an actor's unhandled end.
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
		Kind: KindProc, Status: string(Failed), Mesh: p.id.Mesh.String(),
		Rank: int(p.id.Rank), Gen: int(p.id.Gen),
		Code: CodeCascade, Reason: "its actor " + e.Actor + " failed: " + e.Reason, At: time.Now(),
	}.withCause(&e))
	p.topLevel.close()
	for _, in := range p.directory.close(why) {
		in.abort(ending{reason: "the proc failed: its actor " + e.Actor + " failed: " + e.Reason, cause: &e},
			false)
	}
	close(p.failed)
	p.closePortsOf(func(owner string) bool { return owner == clientName }, why)
}

// CheckSend returns the error of a failed proc for code that is not an actor; nil if sends are
// allowed. Actors of a failed proc may still send while they stop.
func (p *Proc) CheckSend(sender string) error {
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
