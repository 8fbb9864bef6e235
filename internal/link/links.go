package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Handler is whom the links of a process work for. Its methods must not block.
type Handler interface {
	// Deliver puts messages into a mailbox in order, on the data pump, and returns how many. When that
	// is not all, why is the wire.Error for the next one, and those behind it are delivered again. What
	// it is given is used again after it returns; Ext and bodies may be kept.
	Deliver(*Inbound) (taken int, why []byte)
	// Told takes the fate of messages that were not delivered.
	Told(Fate)
	// Broken says that the link to or from a process is over: what waits for answers waits in vain, if it was
	// asked by that serial: see Asker.
	Broken(from subjects.ProcessID, serial uint64, why error)
	// Urgent takes a message or an answer that came on the control lane, perhaps again, and may keep it (LINK-19).
	Urgent(from *Peer, e *wire.Envelope)
	// Cancel says that a process waits for answers at these ports no longer.
	Cancel(from subjects.ProcessID, replies []string)
	// Malformed takes what could not be used.
	Malformed(subject string, size int, err error)
}

// Options are what Links stand on.
type Options struct {
	Self    subjects.ProcessID
	Space   subjects.Space
	Bus     *bus.Bus
	Handler Handler
	Config  Config
	Unknown *atomic.Uint64 // counts control packets with fields that this build does not know; may be nil
}

// Links are all links of a process: a Core and the goroutines that move its bytes and its time. All
// methods may be called on any goroutine, unless they say otherwise.
type Links struct {
	o     Options
	self  string
	epoch time.Time
	large int // bytes from which on a message surely leaves in parts

	mu      sync.Mutex // guards the fields below; held for no wait
	core    *Core
	timer   *time.Timer
	timerAt Instant
	rooms   map[*Peer]chan struct{}
	closing bool
	closed  bool // nothing happens any more

	performing sync.Mutex // who holds it does what the Core wants done, in order
	effects    []Effect   // guarded by performing

	reading reading // the data pump's

	publishing sync.Mutex // LINK-1: who holds it publishes, in the order of the numbers
	wanted     atomic.Bool
	lastAt     atomic.Int64 // when something was published last
	awake      atomic.Bool  // the flusher has been woken
	quiet      atomic.Int32 // pumps that must not publish: what is sent meanwhile is the flusher's
	gathering
	wake    chan struct{}
	errands chan struct{} // there are effects
	done    chan struct{}
	running sync.WaitGroup
	unwatch func()
}

// busyFor is how soon after a packet the next message is left to the flusher, which takes along what
// comes meanwhile; a link that was idle longer adds no hand-over.
const busyFor = 20 * time.Microsecond

// Open starts the links of a process. Close them.
func Open(o Options) *Links {
	l := &Links{
		o: o, self: o.Self.String(), epoch: time.Now(),
		core: NewCore(o.Config, o.Bus.Data().MaxPayload()), rooms: map[*Peer]chan struct{}{},
		wake: make(chan struct{}, 1), errands: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.large = l.core.cfg.ChunkSize
	l.lastAt.Store(-int64(time.Second))
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
	l.late = time.AfterFunc(time.Hour, l.rouse)
	l.late.Stop()
	l.unwatch = o.Bus.Watch(l.onState)
	l.running.Go(l.flusher)
	l.running.Go(l.errander)
	return l
}

// Close gives everything that has no fate one, and ends the goroutines.
func (l *Links) Close() {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		l.running.Wait()
		return
	}
	l.closing = true
	l.core.Bye()
	l.mu.Unlock()
	l.flushInTurn()
	l.mu.Lock()
	l.closed = true
	l.core.Close(errClosed)
	l.timer.Stop()
	l.late.Stop()
	l.mu.Unlock()
	l.unwatch()
	close(l.done)
	l.running.Wait()
	l.errand()
}

// now is never 0, which stands for no time.
func (l *Links) now() Instant { return max(1, Instant(time.Since(l.epoch))) }

// locked runs an event of the Core, and has what follows from it done.
func (l *Links) locked(event func(now Instant)) {
	l.mu.Lock()
	if !l.closed {
		event(l.now())
	}
	l.unlock()
}

// unlock ends an event: what is to be done is left to others, for the caller may be a pump.
func (l *Links) unlock() {
	errands, publish := len(l.core.effects) > 0, l.ripe()
	l.setTimer()
	l.mu.Unlock()
	if errands {
		l.send()
	}
	if publish {
		l.rouse()
	}
}

// setTimer sees to the next Tick. The lock is held.
func (l *Links) setTimer() {
	due := l.core.Due()
	if due == 0 || l.closed || l.timerAt != 0 && l.timerAt <= due {
		return
	}
	l.timerAt = due
	l.timer.Reset(max(0, time.Duration(due-l.now())))
}

// tickGrain is how much time lies between two Ticks at least.
const tickGrain = Instant(time.Millisecond)

func (l *Links) tick() {
	l.mu.Lock()
	l.timerAt = 0
	if !l.closed {
		now := l.now()
		l.core.Tick(now)
		if due := l.core.Due(); due != 0 && due < now+tickGrain {
			l.core.due = now + tickGrain
		}
	}
	l.unlock()
}

// Target makes a place to send to. Keep it: one is quicker than two of the same.
func (l *Links) Target(to subjects.PortID) *Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Target{
		Peer: l.core.Peer(to.Actor.Proc.Process()), Actor: to.Actor.Within(), Port: to.Port,
		Subject: l.o.Space.Port(to, l.self),
	}
}

// Unnamed is a Target for one message, whose packet need not be found by its subject.
func (l *Links) Unnamed(to subjects.PortID) *Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Target{Peer: l.core.Peer(to.Actor.Proc.Process()), Actor: to.Actor.Within(), Port: to.Port}
}

// Unnamed is Links.Unnamed for a peer that is known.
func (p *Peer) Unnamed(to subjects.PortID) *Target {
	return &Target{Peer: p, Actor: to.Actor.Within(), Port: to.Port}
}

// Send queues a message; nil says that it will have a fate. See Core.Send.
func (l *Links) Send(to *Target, e *wire.Envelope, m Mark, until Instant) error {
	return l.queue(to, e, m, until, false, nil)
}

// Track is Send, and has b, of NewBarrier, reached when the message has its fate.
func (l *Links) Track(to *Target, e *wire.Envelope, m Mark, until Instant, b *Barrier) error {
	return l.queue(to, e, m, until, false, b)
}

// Gather is Send for those who are about to send more: it leaves with that, and at most gatherFor later.
func (l *Links) Gather(to *Target, e *wire.Envelope, m Mark, until Instant) error {
	return l.queue(to, e, m, until, true, nil)
}

func (l *Links) queue(to *Target, e *wire.Envelope, m Mark, until Instant, gather bool, b *Barrier) error {
	var whole []byte
	if e.Len() > l.large { // not under the lock: it may be 64 MiB
		whole = Whole(to, e)
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errClosed
	}
	awake := l.awake.Load()
	now := l.lastAt.Load()
	if !awake || e.TTL != 0 { // else the flusher has just looked at the clock
		now = l.now()
	}
	err := l.core.SendWhole(now, to, e, whole, m, until, b)
	l.setTimer()
	gathers := err == nil && (gather || l.expected.Load() > 0) && l.gather(now)
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case gathers:
		if !gather && l.expected.Load() == 0 { // who was expected did not see it
			l.rouse()
		}
	case awake && l.awake.Load():
	case now-l.lastAt.Load() < int64(busyFor), l.quiet.Load() > 0:
		l.rouse()
	default:
		l.flush()
	}
	return nil
}

// Quietly runs f, which must not wait for the socket: what it sends is left to the flusher. It is for
// what a pump does.
func (l *Links) Quietly(f func()) {
	l.quiet.Add(1)
	defer l.quiet.Add(-1)
	f()
}

// Cast sends one message to many. See Core.Cast.
func (l *Links) Cast(k *Cast) (failed map[int]error, err error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errClosed
	}
	failed, err = l.core.Cast(l.now(), k)
	l.setTimer()
	l.mu.Unlock()
	l.flush()
	return failed, err
}

// Drop is the end of a group. See Core.Drop.
func (l *Links) Drop(g *Group) { l.locked(func(Instant) { l.core.Drop(g) }) }

// Flush waits until everything that was sent before has its fate.
func (l *Links) Flush(ctx context.Context) error {
	l.mu.Lock()
	closed := l.closed
	b := l.core.Barrier(l.now())
	l.mu.Unlock()
	if closed {
		return errClosed
	}
	l.flush()
	select {
	case <-b.Done():
		l.errand() // the fates are told, too
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		return errClosed
	}
}

// At is a point in time by the clock of the links; 0 for the zero time.
func (l *Links) At(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return max(1, Instant(t.Sub(l.epoch)))
}

// Taken says that messages that waited for room have been taken up, or will not be.
func (l *Links) Taken(p *Peer, bytes uint64) {
	if bytes > 0 {
		l.locked(func(now Instant) { l.core.Taken(now, p, bytes) })
	}
}

// HasPosted reports whether a message that can come back has left for a peer: an answer cannot, nor can a call.
func (l *Links) HasPosted(p *Peer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.catchUp(p)
	return p.out.posted
}

// Die says that a process is dead, and why. What it has sent before was delivered, if it is called on
// the data pump.
func (l *Links) Die(id subjects.ProcessID, why error) {
	l.locked(func(now Instant) { l.core.Die(now, l.core.Peer(id), why) })
}

// Break gives up the links with a process, because of something that cannot be mended.
func (l *Links) Break(id subjects.ProcessID, text string) {
	l.locked(func(Instant) {
		if p := l.core.Known(id); p != nil {
			l.core.giveUp(p, LinkOver, text)
		}
	})
}

// Cancel tells a process that nobody waits for an answer any more. It is told at most once.
func (l *Links) Cancel(to *Peer, reply string) {
	l.locked(func(Instant) { l.core.control(to, wire.Cancel, wire.CancelOf{Replies: []string{reply}}) })
}

// maxUrgent is how large a message on the control lane may be: it is no way for data.
const maxUrgent = 64 << 10

// Urge sends a message, or an answer, on the control lane (LINK-19). What is too large for that is not sent.
func (l *Links) Urge(to *Peer, e *wire.Envelope) {
	if e.Size() <= maxUrgent {
		packet := wire.AppendUrgent(make([]byte, 0, wire.HeadSize+e.Size()), e)
		l.locked(func(Instant) { l.core.control(to, wire.Urgent, packet) })
	}
}

// Stats returns the counts so far.
func (l *Links) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.Stats()
}

// onState takes what happens to the bus.
func (l *Links) onState(s bus.State) {
	switch {
	case s.Kind == bus.Denied:
		if denied, ok := errors.AsType[*bus.PermissionError](s.Err); ok && denied.Op == bus.OpPublish {
			l.onDenied(denied)
		}
	case s.Kind == bus.Closed:
		l.locked(func(Instant) { l.core.Close(&Error{Reason: NoBus, Text: "the bus is gone"}) })
	case s.Lane != bus.LaneData:
	case s.Kind == bus.Disconnected:
		l.locked(func(Instant) { l.core.Down() })
	case s.Kind == bus.Reconnected:
		limit := l.o.Bus.Data().MaxPayload()
		l.locked(func(now Instant) { l.core.Up(now, limit) })
	}
}

// onDenied gives up a link that the server does not let us use.
func (l *Links) onDenied(denied *bus.PermissionError) {
	s, err := l.o.Space.Parse(denied.Subject)
	if err != nil {
		return
	}
	switch s.Kind {
	case subjects.KindPort:
		l.Break(s.Proc.Process(), denied.Error())
	case subjects.KindFrame, subjects.KindControl:
		l.Break(s.Process, denied.Error())
	}
}

// Malformed says what cannot be a packet of ours.
func (l *Links) malformed(subject string, data []byte, err error) {
	l.o.Handler.Malformed(subject, len(data), fmt.Errorf("link: %w", err))
}
