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

// Handler receives the messages and events of a process's links. Its methods must not block.
type Handler interface {
	// Deliver puts messages into a mailbox in order, on the data pump, and returns their number. On
	// a refusal, why is the wire.Error for the next message; those behind it are delivered again.
	// The argument is reused after the return; Ext and bodies may be kept.
	Deliver(*Inbound) (taken int, why []byte)
	// Undelivered takes the fate of messages that were not delivered.
	Undelivered(Fate)
	// Broken reports the end of a link to or from a process. Outstanding answers to requests up to
	// that serial will not come: see Asker.
	Broken(from subjects.ProcessID, serial uint64, why error)
	// Dead returns why a process is known to be dead, or nil. It must not use the links.
	Dead(subjects.ProcessID) error
	// Forgotten reports that the links forgot a process after its goodbye (LINK-11).
	Forgotten(subjects.ProcessID)
	// Urgent takes a message or an answer from the control connection, perhaps a copy, and may keep
	// it (LINK-19).
	Urgent(from *Peer, by subjects.Sender, e *wire.Envelope)
	// Cancel reports that a process no longer waits for answers at these ports.
	Cancel(from subjects.ProcessID, replies []string)
	// Malformed takes an invalid packet.
	Malformed(subject string, size int, err error)
}

// Options are the dependencies of Links.
type Options struct {
	Self      subjects.ProcessID
	Principal subjects.Principal // with Self, the sender of all packets
	Space     subjects.Space
	Bus       *bus.Bus
	Handler   Handler
	Config    Config
	Unknown   *atomic.Uint64 // counts control packets with fields unknown to this build; may be nil
}

// Links holds all links of a process: a Core, and the goroutines for its packets and timers. All
// methods may be called on any goroutine, unless stated otherwise.
type Links struct {
	o              Options
	self           subjects.Sender
	epoch          time.Time
	chunkThreshold int // messages of more bytes leave in parts
	maxMessage     int

	mu          sync.Mutex // guards the fields below; held for no wait
	core        *Core
	timer       *time.Timer
	timerAt     Instant
	roomWaiters map[*Peer]chan struct{}
	// suspects lists the peers to ask servers about: each once per change.
	suspects []*Peer
	closing  bool
	closed   bool // nothing happens any more

	effectsMu sync.Mutex // held while running the Core's effects, in order
	effects   []Effect   // guarded by performing

	reader packetReader // the data pump's

	publishMu      sync.Mutex // LINK-1: held while publishing, in the order of the numbers
	flushRequested atomic.Bool
	lastPublish    atomic.Int64 // when something was published last
	flusherAwake   atomic.Bool  // the flusher has been woken
	flushDeferred  atomic.Int32 // pumps that must not publish; the flusher publishes their messages
	coalescer
	wake         chan struct{}
	effectsReady chan struct{} // there are effects
	suspicion    chan struct{} // there are suspects
	done         chan struct{}
	end          context.CancelFunc // of the asker
	goroutines   sync.WaitGroup
	unwatch      func()
}

// busyWindow is the time after a packet in which messages are left to the flusher, which collects
// them. A link idle for longer publishes without that delay.
const busyWindow = 20 * time.Microsecond

// Open starts the links of a process. Close them.
func Open(o Options) *Links {
	l := &Links{
		o: o, self: subjects.NewSender(o.Principal, o.Self), epoch: time.Now(),
		core: NewCore(o.Config, o.Bus.Data().MaxPayload()), roomWaiters: map[*Peer]chan struct{}{},
		wake: make(chan struct{}, 1), effectsReady: make(chan struct{}, 1),
		suspicion: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.core.isDead = o.Handler.Dead
	l.chunkThreshold, l.maxMessage = l.core.cfg.ChunkSize, l.core.cfg.MaxMessage
	l.lastPublish.Store(-int64(time.Second))
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
	l.lateTimer = time.AfterFunc(time.Hour, l.wakeFlusher)
	l.lateTimer.Stop()
	l.unwatch = o.Bus.Watch(l.onState)
	l.goroutines.Go(l.flusher)
	l.goroutines.Go(l.effectLoop)
	life, end := context.WithCancel(context.Background())
	l.end = end
	l.goroutines.Go(func() { l.asker(life) })
	return l
}

// Close gives every open message a fate, and ends the goroutines.
func (l *Links) Close() {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		l.goroutines.Wait()
		return
	}
	l.closing = true
	l.core.Goodbye()
	l.mu.Unlock()
	l.flushInTurn()
	l.mu.Lock()
	l.closed = true
	l.core.Close(errClosed)
	l.timer.Stop()
	l.lateTimer.Stop()
	l.mu.Unlock()
	l.unwatch()
	close(l.done)
	l.end()
	l.goroutines.Wait()
	l.runEffects()
}

// now is never 0, because 0 stands for no time.
func (l *Links) now() Instant { return max(1, Instant(time.Since(l.epoch))) }

// withCore runs an event of the Core, and then its effects.
func (l *Links) withCore(event func(now Instant)) {
	l.mu.Lock()
	if !l.closed {
		event(l.now())
	}
	l.unlock()
}

// unlock ends an event and leaves its effects to other goroutines, because the caller may be a
// pump.
func (l *Links) unlock() {
	errands, publish := len(l.core.effects) > 0, l.readyToPublish()
	l.setTimer()
	l.mu.Unlock()
	if errands {
		l.signalEffects()
	}
	if publish {
		l.wakeFlusher()
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

// minTickInterval is the shortest time between two Ticks.
const minTickInterval = Instant(time.Millisecond)

func (l *Links) tick() {
	l.mu.Lock()
	l.timerAt = 0
	if !l.closed {
		now := l.now()
		l.core.Tick(now)
		if due := l.core.Due(); due != 0 && due < now+minTickInterval {
			l.core.nextTick = now + minTickInterval
		}
	}
	l.unlock()
}

// Target makes a place to send to. Keep it: one is quicker than two of the same.
func (l *Links) Target(to subjects.PortID) *Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Target{
		Peer: l.core.Peer(to.Actor.Proc.Process()), Actor: to.Actor.LocalName(), Port: to.Port,
		Subject: l.o.Space.Port(to, l.self),
	}
}

// UnnamedTarget is a Target for one message, without a port subject of its own.
func (l *Links) UnnamedTarget(to subjects.PortID) *Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Target{Peer: l.core.Peer(to.Actor.Proc.Process()), Actor: to.Actor.LocalName(), Port: to.Port}
}

// UnnamedTarget is Links.UnnamedTarget for a known peer.
func (p *Peer) UnnamedTarget(to subjects.PortID) *Target {
	return &Target{Peer: p, Actor: to.Actor.LocalName(), Port: to.Port}
}

// Send queues a message; nil means that it will have a fate. See Core.Send.
func (l *Links) Send(to *Target, e *wire.Envelope, m Mark, until Instant) error {
	return l.queue(to, e, m, until, false, nil)
}

// SendTracked is Send, and has b, of NewBarrier, reached when the message has its fate.
func (l *Links) SendTracked(to *Target, e *wire.Envelope, m Mark, until Instant, b *Barrier) error {
	return l.queue(to, e, m, until, false, b)
}

// SendBatched is Send for callers about to send more: the message leaves with those, or after
// maxCoalesceDelay.
func (l *Links) SendBatched(to *Target, e *wire.Envelope, m Mark, until Instant) error {
	return l.queue(to, e, m, until, true, nil)
}

func (l *Links) queue(to *Target, e *wire.Envelope, m Mark, until Instant, gather bool, b *Barrier) error {
	var whole *parts
	if e.BodyLen() > l.chunkThreshold { // not under the lock: it may be 64 MiB
		if err := l.admit(to, e); err != nil {
			return err
		}
		whole = encodeParts(to, e, l.chunkThreshold)
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errClosed
	}
	awake := l.flusherAwake.Load()
	now := l.lastPublish.Load()
	if !awake || e.TTL != 0 { // else the flusher has just looked at the clock
		now = l.now()
	}
	err := l.core.SendWhole(now, to, e, whole, m, until, b)
	l.setTimer()
	gathers := err == nil && (gather || l.expectedSenders.Load() > 0) && l.coalesce(now)
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case gathers:
		if !gather && l.expectedSenders.Load() == 0 { // the expected sender did not see it
			l.wakeFlusher()
		}
	case awake && l.flusherAwake.Load():
	case now-l.lastPublish.Load() < int64(busyWindow), l.flushDeferred.Load() > 0:
		l.wakeFlusher()
	default:
		l.flush()
	}
	return nil
}

// admit returns the reason to refuse a large message, before it is copied.
func (l *Links) admit(to *Target, e *wire.Envelope) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	return l.core.Admit(to, e)
}

// WithoutFlush runs f, which must not wait for the socket, and leaves its messages to the flusher.
// It is for pumps.
func (l *Links) WithoutFlush(f func()) {
	l.flushDeferred.Add(1)
	defer l.flushDeferred.Add(-1)
	f()
}

// Cast sends one message to many. See Core.Cast.
func (l *Links) Cast(k *Cast) (failed map[int]error, err error) {
	if k.Envelope.BodyLen() > l.chunkThreshold { // not under the lock: it may be 64 MiB
		if err := k.prepareAlone(l.chunkThreshold, l.maxMessage); err != nil {
			return nil, err
		}
	}
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

// DropGroup is the end of a group. See Core.DropGroup.
func (l *Links) DropGroup(g *Group) { l.withCore(func(Instant) { l.core.DropGroup(g) }) }

// Flush waits until every earlier message has its fate.
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
		l.runEffects() // includes reporting the fates
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

// HasReturnable reports whether a message that may come back has left for a peer: neither an answer
// nor a call.
func (l *Links) HasReturnable(p *Peer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.catchUp(p)
	return p.out.sentReturnable
}

// MarkDead ends the links with a process: Handler.Dead says that it is dead, and why. On the data
// pump, its earlier messages have been delivered before.
func (l *Links) MarkDead(id subjects.ProcessID, why error) {
	l.withCore(func(now Instant) {
		if p := l.core.Lookup(id); p != nil {
			l.core.MarkDead(now, p, why)
		}
	})
}

// Cancel notifies a process, at most once, that no caller waits for an answer any more.
func (l *Links) Cancel(to *Peer, reply string) {
	l.withCore(func(Instant) {
		l.core.emitControl(to, wire.Cancel,
			wire.CancelBody{Replies: []string{reply}})
	})
}

// maxUrgent is the largest message on the control connection, in bytes, because that is not for
// data.
const maxUrgent = 64 << 10

// SendUrgent sends a message, or an answer, on the control connection (LINK-19). A larger one is
// not sent.
func (l *Links) SendUrgent(to *Peer, e *wire.Envelope) {
	if e.Size() <= maxUrgent {
		packet := wire.AppendUrgent(make([]byte, 0, wire.HeadSize+e.Size()), e)
		l.withCore(func(Instant) { l.core.emitControl(to, wire.Urgent, packet) })
	}
}

// Stats returns the counts so far.
func (l *Links) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.Stats()
}

// onState handles a change of the bus connection.
func (l *Links) onState(s bus.State) {
	switch {
	case s.Kind == bus.Denied:
		if denied, ok := errors.AsType[*bus.PermissionError](s.Err); ok && denied.Op == bus.OpPublish {
			l.onDenied(denied)
		}
	case s.Kind == bus.Closed:
		l.withCore(func(Instant) { l.core.Close(&Error{Reason: BusClosed, Text: "the bus is closed"}) })
	case s.Conn != bus.DataConn:
	case s.Kind == bus.Disconnected:
		l.withCore(func(Instant) { l.core.OnDisconnect() })
	case s.Kind == bus.Reconnected:
		limit := l.o.Bus.Data().MaxPayload()
		l.withCore(func(now Instant) { l.core.OnReconnect(now, limit) })
	}
}

// onDenied counts a publication that the server did not permit, and ends its link, if it has one. A
// denied cast is sent again to each of its processes.
func (l *Links) onDenied(denied *bus.PermissionError) {
	s, err := l.o.Space.Parse(denied.Subject)
	l.withCore(func(Instant) {
		l.core.stats.Denied++
		if err != nil {
			return
		}
		switch s.Kind {
		case subjects.KindPort, subjects.KindFrame, subjects.KindControl:
			if p := l.core.Lookup(s.Proc.Process()); p != nil {
				l.core.resetOutgoing(p, Denied, denied.Error())
			}
		}
	})
}

// malformed reports an invalid packet.
func (l *Links) malformed(subject string, data []byte, err error) {
	l.o.Handler.Malformed(subject, len(data), fmt.Errorf("link: %w", err))
}
