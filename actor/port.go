package actor

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// portSize is how many messages may wait in a port before senders are refused.
const portSize = 1024

// Incoming is what arrives at a raw port.
type Incoming struct {
	From     subjects.ActorID
	Envelope wire.Envelope
	Local    bool
	Value    any // valid when Local: the message itself, which never left the process

	unknown *atomic.Uint64 // counts bodies with unknown fields
	links   *link.Links    // that it came by; nil: by none
	urged   bool           // it came by the control lane
}

// Answer reads an incoming Value or Failure.
func (in Incoming) Answer() Answer {
	if in.Envelope.Kind == wire.Failure {
		return Answer{Err: FromWire(in.Envelope.Body), overtook: in.urged}
	}
	return Answer{Value: &encoded{in.Envelope.Body, in.unknown}}
}

// Open reads an answer of type R on the goroutine that waited for it.
func Open[R any](a Answer) (R, error) {
	var zero R
	if e, is := a.Value.(*encoded); is && a.Err == nil {
		if v, quickly := quick[R](e.raw, nil); quickly {
			return v, nil
		}
	}
	v, err := a.open(decoder[R])
	if err != nil {
		return zero, err
	}
	r, ok := as[R](v)
	if !ok {
		return zero, ranError(errorf(CodeBadMessage, "", "", "the answer is %T, want %s", v, reflect.TypeFor[R]()))
	}
	return r, nil
}

// portKey names a port within a proc.
type portKey struct{ actor, port string }

// port is an open port.
type port interface {
	recv(Incoming) error // says why it cannot take a message
	closed(error)        // told that its actor or the proc has ended
}

// listener is a port made of functions.
type listener struct {
	take func(Incoming) error
	end  func(error) // may be nil
}

func (l *listener) recv(in Incoming) error { return l.take(in) }

func (l *listener) closed(why error) {
	if l.end != nil {
		l.end(why)
	}
}

// RawPort is a port that hands frames to a function: for packages that extend the runtime.
type RawPort struct {
	p   *Proc
	key portKey
	pt  port
}

// OpenRaw opens a port of the named actor; the actor need not exist. recv runs on a pump or on a
// local sender's goroutine and must not block. An open port of the same name is replaced.
func (p *Proc) OpenRaw(actor, name string, recv func(Incoming)) RawPort {
	return p.open(actor, name, raw(recv, nil))
}

// OpenPrivate opens a raw port under a fresh name. When its actor or the proc ends before it is
// closed, closed is told why: nothing comes any more.
func (p *Proc) OpenPrivate(actor string, recv func(Incoming), closed func(error)) RawPort {
	return p.open(actor, p.freshPort(), raw(recv, closed))
}

func raw(recv func(Incoming), closed func(error)) port {
	return &listener{end: closed, take: func(in Incoming) error {
		recv(in)
		return nil
	}}
}

// open opens a port; on a proc that has stopped it is closed at once.
func (p *Proc) open(actor, name string, pt port) RawPort {
	key := portKey{actor, name}
	if !p.openPort(key, pt) {
		pt.closed(p.stopped())
	} else if why := p.Barred(actor); why != nil {
		p.closePort(key, pt)
		pt.closed(why)
	}
	return RawPort{p, key, pt}
}

// openPort is open for those who see to it themselves that the proc has stopped: false.
func (p *Proc) openPort(key portKey, pt port) bool {
	p.mu.Lock()
	over := p.closed
	if !over {
		p.ports[key] = pt
	}
	p.mu.Unlock()
	if in := p.find(key.actor); in != nil {
		in.mu.Lock()
		in.ported = true // before it ends: it closes its ports then
		ended, why := in.state.terminal(), error(nil)
		if ended {
			why = in.why()
		}
		in.mu.Unlock()
		if ended {
			p.forgetPorts(func(owner string) bool { return owner == key.actor }, why)
		}
	}
	return !over
}

// ID is the port's address.
func (r RawPort) ID() subjects.PortID { return r.p.id.Actor(r.key.actor).Port(r.key.port) }

// Close ends the port; what still comes for it is counted and dropped. A port that replaced it
// stays.
func (r RawPort) Close() { r.p.closePort(r.key, r.pt) }

func (p *Proc) closePort(key portKey, pt port) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ports[key] == pt {
		delete(p.ports, key)
	}
}

// gone tells a sender, or who receives, that the port takes nothing more.
func (r RawPort) gone(format string, args ...any) *Error {
	return errorf(CodePortGone, r.ID().Actor.String(), r.key.port, format, args...)
}

// refusal tells the sender of an update why it was not taken.
func refusal(why error) *Error {
	err := errorf(CodeBadMessage, "", "", "the update was refused: %v", why)
	err.cause = why
	return err
}

func (p *Proc) findPort(actor, name string) port {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ports[portKey{actor, name}]
}

// noPort says why nothing takes what is sent to a port (PORT-2): it is over, or it never was.
func (p *Proc) noPort(actor, name string) *Error {
	target := p.id.Actor(actor).String()
	digits, private := strings.CutPrefix(name, "_0") // as freshPort writes it
	n, err := strconv.ParseUint(digits, 36, 64)
	if private && err == nil && 0 < n && n <= p.nextPort.Load() {
		return errorf(CodePortGone, target, name, "the port is closed")
	}
	return errorf(CodeNoEndpoint, target, name, "proc %s never had such a port", p.id)
}

// forgetPorts closes the ports of those that ended.
func (p *Proc) forgetPorts(of func(owner string) bool, err error) {
	p.mu.Lock()
	var gone []port
	for key, pt := range p.ports {
		if of(key.actor) {
			gone = append(gone, pt)
			delete(p.ports, key)
		}
	}
	p.mu.Unlock()
	for _, pt := range gone {
		pt.closed(err)
	}
}

// Port receives what is sent to its Ref, in order per sender.
type Port[T any] struct {
	raw   RawPort
	queue chan T
	once  sync.Once
	ended chan struct{} // closed once err is set
	err   error
}

// Opener is something ports belong to: a *Context (the port ends with the actor) or a *Proc (a
// port of code that is not an actor).
type Opener interface {
	opener() (p *Proc, owner string)
}

func (c *Context) opener() (*Proc, string) { return c.in.proc, c.in.name }
func (p *Proc) opener() (*Proc, string)    { return p, clientName }

// OpenPort opens a streaming port. It holds 1,024 messages; a sender that finds it full is told
// so. Close it.
func OpenPort[T any](at Opener) *Port[T] {
	t := newPort[T](portSize)
	t.raw = openAt(at, t.recv, t.end)
	return t
}

// newPort makes a port that holds size messages and is not open yet.
func newPort[T any](size int) *Port[T] {
	return &Port[T]{queue: make(chan T, size), ended: make(chan struct{})}
}

// openAt opens a port under a fresh name. recv is told which port it is, for something may come
// before openAt has returned.
func openAt(at Opener, recv func(RawPort, Incoming) error, closed func(error)) RawPort {
	p, owner := at.opener()
	l := &listener{end: closed}
	raw := RawPort{p, portKey{owner, p.freshPort()}, l}
	l.take = func(in Incoming) error { return recv(raw, in) }
	return p.open(owner, raw.key.port, l)
}

// read reads what came at a port as a T.
func read[T any](at RawPort, in Incoming) (T, error) {
	var zero T
	v, ok := as[T](in.Value)
	switch {
	case in.Local && !ok:
		return zero, errorf(CodeBadMessage, at.ID().Actor.String(), at.key.port, "the port takes %s, got %T", reflect.TypeFor[T](), in.Value)
	case in.Envelope.Kind != wire.Message:
		return zero, errorf(CodeBadMessage, at.ID().Actor.String(), at.key.port, "the port takes messages, got an answer")
	case !in.Local:
		if err := wire.UnmarshalCounting(in.Envelope.Body, &v, in.unknown); err != nil {
			return zero, errorf(CodeBadMessage, at.ID().Actor.String(), at.key.port, "%v", err)
		}
	}
	return v, nil
}

func (t *Port[T]) end(err error) {
	t.once.Do(func() {
		t.err = err
		close(t.ended)
	})
}

func (t *Port[T]) recv(at RawPort, in Incoming) error {
	v, err := read[T](at, in)
	if err != nil {
		return err
	}
	select {
	case t.queue <- v:
		return nil
	default:
		return errorf(CodeMailboxFull, at.ID().Actor.String(), at.key.port, "the port holds %d messages already", portSize)
	}
}

// Ref is the port's address, to be sent to others.
func (t *Port[T]) Ref() PortRef[T] { return PortRef[T]{id: t.raw.ID(), via: t.raw.p} }

// Recv waits for the next message, until ctx ends, or the port is closed or its actor ends; what
// came before the end is still received.
func (t *Port[T]) Recv(ctx context.Context) (T, error) {
	var zero T
	select {
	case v := <-t.queue:
		return v, nil
	case <-t.ended:
	case <-ctx.Done():
	}
	select {
	case v := <-t.queue: // it came at the same time
		return v, nil
	default:
	}
	select {
	case <-t.ended:
		return zero, fmt.Errorf("receive: %w", t.err)
	default:
		return zero, fmt.Errorf("receive: %w", context.Cause(ctx))
	}
}

// Close ends the port; senders from then on are told that it is gone.
func (t *Port[T]) Close() {
	t.raw.Close()
	t.end(errorf(CodeStopped, t.raw.ID().Actor.String(), t.raw.key.port, "the port is closed"))
}

// freshPort names a port nobody has used. The runtime's own ports start with a letter.
func (p *Proc) freshPort() string { return string(p.appendFreshPort(nil)) }

func (p *Proc) appendFreshPort(b []byte) []byte {
	return strconv.AppendUint(append(b, "_0"...), p.nextPort.Add(1), 36)
}
