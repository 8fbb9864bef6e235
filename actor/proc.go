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
// an Index above 0 needs Lead, and uses its Bus, Space, Links and Tracer.
type Options struct {
	ID  subjects.ProcID
	Bus *bus.Bus // not owned: the proc does not close it
	// Principal is the first part of the process's sender; zero: u-anon.
	Principal subjects.Principal
	Space     subjects.Space // zero: castnet, default
	Registry  Registry       // the actor types of the proc; may be empty
	Log       zerolog.Logger

	// Coordinator takes the failure of an actor without a living parent. It runs on the goroutine
	// of the ended actor and must not block. nil: the proc fails (Proc.Failed).
	Coordinator func(Event)

	// Lead is the first proc of the OS process. It closes the others before itself.
	Lead *Proc

	// Cleanup bounds each step of an actor's end after its last message: the wait for its children,
	// its Cleanup method, and the wait for its tasks; 0: 10 s.
	Cleanup time.Duration

	// Relays are the defaults of a relay's MaxUpdates and MaxDelay; 0: 5 and 50 ms.
	Relays RelayOptions

	// Links bounds the data in flight between this proc and others; the zero value has the
	// defaults.
	Links link.Config

	// Deadline is the timeout of a verb without a context deadline, and of its message's fate; 0:
	// 30 s.
	Deadline time.Duration
	// Mailbox is the default size of a mailbox, in messages; 0: 1,024.
	Mailbox int

	// Tracer makes spans of messages; nil: none.
	Tracer Tracer
}

// Proc is an actor runtime with an address: it runs actors, and receives and sends their messages
// on the bus. All methods may be called on any goroutine.
type Proc struct {
	options    Options // with its defaults
	id         subjects.ProcID
	name       string // id as text
	self       subjects.ProcessID
	sender     subjects.Sender // of the process
	bus        *bus.Bus
	space      subjects.Space
	log        zerolog.Logger
	sampledLog zerolog.Logger // log with a rate limit, for events that a peer can cause
	epoch      time.Time

	process *process
	links   *link.Links // of the process
	workers *workers    // of the process
	waiters *waiterPool

	directory   directory
	topLevel    topLevel
	ports       ports
	inbox       inbox
	outbox      outbox
	monitors    monitors
	deadLetters deadLetters
	observers   callbacks[func(Event)]
	counts      counters
	casts       Casts
	foreign     Foreign
	values      Values

	lastFailure atomic.Pointer[Event]
	failed      chan struct{} // closed once failure is set

	mu      sync.Mutex // guards the fields below
	failure *Error
	closing bool // spawns nothing more
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
		o.Tracer = o.Lead.options.Tracer
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
	o.Cleanup = cmp.Or(max(0, o.Cleanup), cleanupTimeout)
	o.Deadline = cmp.Or(o.Deadline, DefaultDeadline)
	o.Mailbox = cmp.Or(o.Mailbox, mailboxSize)
	log := o.Log.With().Stringer("proc", o.ID).Logger()
	p := &Proc{
		options: o, id: o.ID, name: o.ID.String(), self: o.ID.Process(), bus: o.Bus, space: o.Space, log: log,
		sampledLog: log.Sample(&zerolog.BurstSampler{Burst: logBurst, Period: logPeriod}),
		epoch:      time.Now(),
		directory:  directory{byName: map[string]*instance{}},
		values:     Values{all: map[any]any{}},
		failed:     make(chan struct{}),
	}
	p.waiters = newWaiterPool(p.now)
	p.topLevel = topLevel{p: p, children: newChildren(OneForOne), timers: map[*time.Timer]struct{}{}}
	p.ports = ports{p: p, open: map[portKey]port{}}
	p.inbox.p = p
	p.outbox.p = p
	p.monitors.p = p
	p.deadLetters.p = p
	p.casts.p = p
	p.foreign = Foreign{p: p, limiters: rateLimiters{now: p.now}}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
	}
	if o.Lead != nil {
		p.sender = o.Lead.sender
		p.process = o.Lead.process
		p.links = o.Lead.links
		p.workers = o.Lead.workers
		if _, err := p.inbox.subscribe(o.Bus.Data(), p.inbox.receivePort, p.space.PortsOf(p.id)); err != nil {
			return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
		}
		p.process.join(p)
		return p, nil
	}
	o.Principal = cmp.Or(o.Principal, subjects.UserPrincipal(subjects.Program, ""))
	p.sender = subjects.NewSender(o.Principal, p.self)
	o.Links.DefaultDeadline = cmp.Or(o.Links.DefaultDeadline, o.Deadline)
	p.process = &process{lead: p, all: map[uint32]*Proc{0: p}}
	p.process.members = Members{lead: p, subscriptions: map[subjects.MeshID]*meshSubscription{}}
	p.workers = new(workers)
	p.links = link.Open(link.Options{Self: p.self, Principal: o.Principal, Space: p.space, Bus: o.Bus,
		Handler: linkHandler{p}, Config: o.Links, Unknown: &p.counts.unknown})
	for _, s := range []struct {
		conn    *bus.Conn
		subject string
		handle  func(bus.Msg)
	}{
		{o.Bus.Data(), p.space.PortsOf(p.id), p.inbox.receivePort},
		{o.Bus.Data(), p.space.FramesOf(p.self), p.inbox.parsed(p.links.Receive)},
		{o.Bus.Data(), p.space.HintsOf(p.self), p.inbox.parsed(p.links.ReceiveHint)}, // no subscriber
		{o.Bus.Control(), p.space.ControlsOf(p.self), p.inbox.parsed(p.links.ReceiveControl)},
	} {
		if _, err := p.inbox.subscribe(s.conn, s.handle, s.subject); err != nil {
			p.inbox.close()
			p.links.Close()
			return nil, fmt.Errorf("start proc %s: %w", o.ID, err)
		}
	}
	return p, nil
}

// ID is the proc's address.
func (p *Proc) ID() subjects.ProcID { return p.id }

// Sender is the sender of the messages of the proc's process.
func (p *Proc) Sender() subjects.Sender { return p.sender }

// Space is the namespace of the proc.
func (p *Proc) Space() subjects.Space { return p.space }

// Bus is the proc's pair of connections.
func (p *Proc) Bus() *bus.Bus { return p.bus }

// Log is the proc's logger.
func (p *Proc) Log() *zerolog.Logger { return &p.log }

// Registry returns the actor types of the proc.
func (p *Proc) Registry() Registry { return p.options.Registry }

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
	p.ports.refuse()
	p.inbox.close()
	p.process.leave(p)
	if p == p.process.lead {
		p.links.Close()
	}
	p.ports.closeOf(func(string) bool { return true }, p.stopped())
	if err := p.bus.Data().Flush(ctx); err != nil { // later senders learn that the proc is gone
		p.log.Debug().Err(err).Msg("cannot flush the close of the proc")
	}
	p.waiters.close()
	p.monitors.close()
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

func (p *Proc) find(name string) *instance { return p.directory.find(name) }

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
		Rank: int(p.id.Rank), Gen: int(p.id.Gen), ProcIndex: int(p.id.Index),
		Code: CodeCascade, Reason: "its actor " + e.Actor + " failed: " + e.Reason, At: time.Now(),
	}.withCause(&e))
	p.topLevel.close()
	for _, in := range p.directory.close(why) {
		in.abort(ending{reason: "the proc failed: its actor " + e.Actor + " failed: " + e.Reason, cause: &e},
			false)
	}
	close(p.failed)
	p.ports.closeOf(func(owner string) bool { return owner == clientName }, why)
}

// checkSend returns the error of a failed proc for code that is not an actor; nil if sends are
// allowed. Actors of a failed proc may still send while they stop.
func (p *Proc) checkSend(sender string) error {
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
