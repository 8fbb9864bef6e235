package actor

import (
	"context"
	"strings"

	"github.com/castnet-io/castnet/subjects"
)

// PortRef is a typed address of a port, a value for use in messages. As text it is the port's ID,
// or a NATS subject of a plain client. So a plain client can write its inbox subject into a message
// and be answered there. The zero PortRef is no port; it travels as an empty text.
type PortRef[T any] struct{ portRef }

// portRef is a PortRef without the Go type.
type portRef struct {
	id      subjects.PortID
	foreign string // a NATS subject, in place of an ID
	via     *Proc
}

// ForeignPort is the port of a plain NATS client that subscribes to a subject. Messages to it are
// JSON, delivered at most once without acknowledgement.
func ForeignPort[T any](subject string) (PortRef[T], error) {
	r, err := foreignPort(subject)
	return PortRef[T]{r}, err
}

func foreignPort(subject string) (portRef, error) {
	if !foreignSubject(subject) {
		return portRef{}, errorf(CodeInvalid, "", "",
			"port %q: want mesh/rank.gen/actor:port, or a NATS subject of a client without wildcards",
			subject)
	}
	return portRef{foreign: subject}, nil
}

// ID is the port's address; the zero ID for a plain NATS client.
func (r portRef) ID() subjects.PortID { return r.id }

// Via binds the proc that sends for code that is not an actor.
func (r PortRef[T]) Via(p *Proc) PortRef[T] {
	r.via = p
	return r
}

func (r portRef) String() string {
	if r.foreign != "" {
		return r.foreign
	}
	return r.id.String()
}

// MarshalText writes the port's ID, or the subject; "" for the zero PortRef.
func (r portRef) MarshalText() ([]byte, error) {
	if r.foreign != "" || r.id == (subjects.PortID{}) {
		return []byte(r.foreign), nil
	}
	return r.id.MarshalText()
}

// UnmarshalText parses the form of MarshalText.
func (r *portRef) UnmarshalText(text []byte) error {
	*r = portRef{}
	if len(text) == 0 || r.id.UnmarshalText(text) == nil {
		return nil
	}
	if s := string(text); strings.Contains(s, "/") && strings.Contains(s, ":") { // an ID with a slip in it
		return errorf(CodeInvalid, "", "", "port %q: want mesh/rank.gen/actor:port, or a NATS subject", s)
	}
	var err error
	*r, err = foreignPort(string(text))
	return err
}

// Send puts v into the port. A nil error says that the bus has the message, or that a port in this
// process took it.
func (r PortRef[T]) Send(ctx context.Context, v T) error { return r.send(ctx, nil, v) }

// SendWait is Send with a wait for room, at most until ctx ends (without a deadline: 30 s). To
// another proc it waits while the port's owner has not received 8 MiB of such messages; they enter
// even a full port. To a plain NATS client it is Send.
func (r PortRef[T]) SendWait(ctx context.Context, v T) error { return r.send(ctx, ctx, v) }

// send waits for room until the context wait ends; nil: not at all.
func (r PortRef[T]) send(ctx, wait context.Context, v T) error {
	p, from, err := portSender(ctx, r.portRef)
	if err != nil {
		return err
	}
	if r.foreign != "" {
		return p.foreign.publish(r.foreign, v, TraceOf(ctx))
	}
	return sendToPort(wait, p, from, r.portRef, v)
}

// portSender returns the sender of ctx.
func portSender(ctx context.Context, r portRef) (*Proc, string, error) {
	p, from := senderOf(ctx, r.via)
	if p == nil {
		return nil, "", errorf(CodeInvalid, r.String(), "",
			"no sender: send from an actor's handler, or bind the port with Via")
	}
	return p, from, p.checkSend(from)
}

// sendToPort is PortRef.send with a known sender, to a port of castnet.
func sendToPort[T any](wait context.Context, p *Proc, from string, to portRef, v T) error {
	if to.id.Actor.Proc == p.id {
		err := p.ports.put(from, to.id, v)
		if wait == nil {
			return err
		}
		return p.awaitRoom(wait, p, to.id, err, func(context.Context) error { return p.ports.put(from, to.id, v) })
	}
	o := newOutbound(from, to.id, typeName[T]())
	o.wait = wait
	o.envelope.Wait = wait != nil
	buf, err := encode(&p.outbox, &o.envelope, v)
	return p.outbox.sendEncoded(&o, buf, err)
}

// foreignSubject reports whether a plain NATS client may receive castnet messages on a subject.
func foreignSubject(s string) bool {
	return s != "" && !strings.HasPrefix(s, "$") && !strings.ContainsAny(s, "*> \t\r\n") && s[0] != '.' &&
		s[len(s)-1] != '.' && !strings.Contains(s, "..")
}
