package actor

import (
	"context"
	"strings"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// PortRef is a typed address of a port, a value for use in messages. As text it is the port's ID,
// or a NATS subject of a plain client. So a plain client can write its inbox subject into a message
// and be answered there.
type PortRef[T any] struct {
	id      subjects.PortID
	foreign string // a NATS subject, in place of an ID
	via     *Proc
}

// ForeignPort is the port of a plain NATS client that subscribes to a subject. Messages to it are
// JSON, delivered at most once without acknowledgement.
func ForeignPort[T any](subject string) (PortRef[T], error) {
	if !foreignSubject(subject) {
		return PortRef[T]{}, errorf(CodeInvalid, "", "",
			"port %q: want mesh/rank.gen/actor:port, or a NATS subject of a client without wildcards",
			subject)
	}
	return PortRef[T]{foreign: subject}, nil
}

// ID is the port's address; the zero ID for a plain NATS client.
func (r PortRef[T]) ID() subjects.PortID { return r.id }

// Via binds the proc that sends for code that is not an actor.
func (r PortRef[T]) Via(p *Proc) PortRef[T] {
	r.via = p
	return r
}

func (r PortRef[T]) String() string {
	if r.foreign != "" {
		return r.foreign
	}
	return r.id.String()
}

// MarshalText writes the port's ID, or the subject.
func (r PortRef[T]) MarshalText() ([]byte, error) {
	if r.foreign != "" {
		return []byte(r.foreign), nil
	}
	return r.id.MarshalText()
}

// UnmarshalText parses the form of MarshalText.
func (r *PortRef[T]) UnmarshalText(text []byte) error {
	*r = PortRef[T]{}
	if r.id.UnmarshalText(text) == nil {
		return nil
	}
	if s := string(text); strings.Contains(s, "/") && strings.Contains(s, ":") { // an ID with a slip in it
		return errorf(CodeInvalid, "", "", "port %q: want mesh/rank.gen/actor:port, or a NATS subject", s)
	}
	var err error
	*r, err = ForeignPort[T](string(text))
	return err
}

// Send puts v into the port. A nil error says that the bus has the message, or that a port in this
// process took it.
func (r PortRef[T]) Send(ctx context.Context, v T) error {
	p, from := senderOf(ctx, r.via)
	if p == nil {
		return errorf(CodeInvalid, r.String(), "",
			"no sender: send from an actor's handler, or bind the port with Via")
	}
	if err := p.checkSend(from); err != nil {
		return err
	}
	return r.sendAs(p, from, v)
}

// sendAs is Send with a known sender.
func (r PortRef[T]) sendAs(p *Proc, from string, v T) error {
	if r.foreign != "" {
		return p.foreign.publish(r.foreign, v)
	}
	if r.id.Actor.Proc == p.id {
		pt := p.ports.find(r.id.Actor.Name, r.id.Port)
		if pt == nil {
			return p.ports.missingError(r.id.Actor.Name, r.id.Port)
		}
		return pt.recv(Incoming{From: p.id.Actor(from), Envelope: wire.Envelope{Kind: wire.Message},
			Local: true, Value: v})
	}
	return sendRemote(p, from, r.id.Actor, r.id.Port, typeName[T](), v, time.Time{}, nil)
}

// foreignSubject reports whether a plain NATS client may receive castnet messages on a subject.
func foreignSubject(s string) bool {
	return s != "" && !strings.HasPrefix(s, "$") && !strings.ContainsAny(s, "*> \t\r\n") && s[0] != '.' &&
		s[len(s)-1] != '.' && !strings.Contains(s, "..")
}
