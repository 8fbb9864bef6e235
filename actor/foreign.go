package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Headers foreign NATS clients send and get.
const (
	HeaderContentType = "Content-Type"
	HeaderRank        = "Castnet-Rank"
	HeaderError       = "Nats-Service-Error"
	HeaderErrorCode   = "Nats-Service-Error-Code"
)

// IsAnswer reports whether a reply is a proc's answer to a plain request: it names its content
// type. The acknowledgement of a stream that records the request does not.
func IsAnswer(m bus.Msg) bool { return m.Header.Get(HeaderContentType) != "" }

// Foreign is the part of a proc that talks to plain NATS clients, within their rate (DEL-10). It is
// for packages of castnet that take requests from them; programs do not need it.
type Foreign struct {
	p        *Proc
	limiters rateLimiters
}

// Foreign returns the part of the proc that talks to plain NATS clients.
func (p *Proc) Foreign() *Foreign { return &p.foreign }

// Subscribe receives requests of plain clients in a lossy Inbox, in no order with anything else,
// until the proc closes. handle runs on the Inbox's pump and must not block.
func (f *Foreign) Subscribe(in *bus.Inbox, subject string, handle func(bus.Msg)) error {
	_, err := f.p.inbox.subscribe(in, handle, subject)
	return err
}

// Service is a connection for a NATS micro service, which anybody may ask, with its own inbox.
type Service struct {
	foreign *Foreign
	conn    *bus.Conn
	inbox   string
}

// Service returns a connection for a NATS micro service of this proc.
func (f *Foreign) Service(on *bus.Conn, inbox string) Service { return Service{f, on, inbox} }

// Subscribe is Foreign.Subscribe for the requests of the service.
func (s Service) Subscribe(subject string, handle func(bus.Msg)) error {
	return s.foreign.Subscribe(s.conn.Lossy(s.inbox), subject, handle)
}

// Answer publishes an answer where MayAnswer permits it. Otherwise a request could make this
// process send a command to another one.
func (s Service) Answer(m bus.Msg) error {
	if !s.foreign.MayAnswer(m.Subject, subjects.Sender{}) {
		return errorf(CodeBadMessage, "", "", "the reply subject %q takes no answers", m.Subject)
	}
	return s.conn.PublishMsg(m)
}

// ForeignMessage is a message of a plain NATS client.
type ForeignMessage struct {
	Msg    bus.Msg
	From   subjects.Sender
	Point  shape.Point   // for a cast: where the target stands in it
	Rank   string        // for a cast: the target's rank, for the answer's header
	TTL    time.Duration // how long an answer is of use; 0: the proc's deadline
	Refuse error         // why it is refused; nil: it is not
	Urgent bool          // it came by the control connection, and is answered there
}

// Deliver delivers a message of a plain NATS client, at most once. If the message has a
// reply subject, it is answered in the same format (DEL-10). A bad message is answered, too.
func (f *Foreign) Deliver(actor, port string, m ForeignMessage) {
	p := f.p
	p.counts.foreign.Add(1)
	admitted := f.limiters.allow(m.From)
	if !admitted && m.Msg.Reply == "" { // only count it: there may be very many
		p.counts.undeliverable.Add(1)
		p.sampledLog.Warn().Stringer("from", m.From).Int("rate", foreignRate).
			Msg("plain client exceeds the message rate limit")
		return
	}
	format, err := wire.FormatOf(m.Msg.Header.Get(HeaderContentType), m.Msg.Data)
	q := newRequest()
	q.Actor = actor
	q.Port = port
	q.Sender = m.From
	q.Raw = m.Msg.Data
	q.format = format
	q.Deadline = time.Now().Add(cmp.Or(m.TTL, p.options.Deadline))
	q.Trace = TraceIn(m.Msg.Header).encode()
	if !m.Point.Extent().Equal(shape.Unit()) {
		q.Point = func(int) shape.Point { return m.Point }
	}
	q.Answer = func(_ int, a Answer) {
		endSpan(q.Span, a.Err)
		f.log(m, a)
	}
	if m.Msg.Reply != "" {
		if !f.MayAnswer(m.Msg.Reply, m.From) {
			p.counts.malformed.Add(1)
			p.sampledLog.Warn().Str("reply", m.Msg.Reply).Stringer("from", m.From).
				Msg("foreign message refused: its reply subject is not its sender's")
			return
		}
		q.Answer = func(_ int, a Answer) {
			endSpan(q.Span, a.Err)
			f.answer(m, actor, port, format, a)
		}
	}
	if p.options.Tracer != nil {
		f.startSpan(q, m)
	}
	if !admitted {
		p.deadLetters.reject(q, "", errorf(CodeTooMany, p.id.Actor(actor).String(), port, tooMany, m.From,
			foreignRate))
		return
	}
	if err := cmp.Or(m.Refuse, err); err != nil {
		p.deadLetters.reject(q, "", errorf(CodeBadMessage, p.id.Actor(actor).String(), port, "%v", err))
		return
	}
	p.inbox.deliverOrReject(q)
}

// startSpan begins the span of a plain client's message, up to its answer.
func (f *Foreign) startSpan(q *request, m ForeignMessage) {
	tracer := f.p.options.Tracer
	if !tracer.Samples(context.Background(), origin{trace: q.Trace}.decision()) {
		return
	}
	q.Span = tracer.Start(context.Background(), decodeTrace(q.Trace), Operation{Kind: OpServe,
		Actor: f.p.id.Actor(q.Actor), Endpoint: q.Port, Awaited: m.Msg.Reply != ""})
	if q.Span != nil {
		q.Trace = q.Span.Trace().encode()
	}
}

// Refuse answers a message of a plain NATS client with an unparsable subject. A peer's
// message has no sender to answer.
func (f *Foreign) Refuse(m bus.Msg, err error) {
	f.p.inbox.malformed(m, err)
	var unknown subjects.Sender
	if wire.IsPacket(m.Data) || m.Reply == "" || !f.MayAnswer(m.Reply, unknown) || !f.limiters.allow(unknown) {
		return
	}
	format, _ := wire.FormatOf(m.Header.Get(HeaderContentType), m.Data)
	f.answer(ForeignMessage{Msg: m}, "", "", format, Answer{Err: errorf(CodeBadMessage, "", "", "%v", err)})
}

// Admit applies the rate limit of a plain NATS client; an error reports the excess.
func (f *Foreign) Admit(from subjects.Sender) *Error {
	if f.limiters.allow(from) {
		return nil
	}
	return errorf(CodeTooMany, "", "", tooMany, from, foreignRate)
}

const tooMany = "%s sends more than %d messages a second"

// log takes the outcome of a message without a reply subject. It counts as an answer: a plain
// client's message does not fail an actor (ACT-4).
func (f *Foreign) log(m ForeignMessage, a Answer) {
	if a.Err != nil {
		f.p.sampledLog.Warn().Err(a.Err).Str("subject", m.Msg.Subject).
			Msg("foreign message without a reply subject failed")
	}
}

// MayAnswer reports whether this proc may publish to a plain client's reply subject. Subjects of
// castnet and of the server are refused, except the sender's own.
func (f *Foreign) MayAnswer(reply string, from subjects.Sender) bool {
	if !foreignSubject(reply) {
		return false
	}
	if !f.p.space.Owns(reply) {
		return true
	}
	s, err := f.p.space.Parse(reply)
	return err == nil && s.Token != "" && s.Sender == from
}

func (f *Foreign) answer(m ForeignMessage, actor, port string, format wire.Format, a Answer) {
	out := bus.Msg{Subject: m.Msg.Reply, Header: bus.Header{}}
	out.Header.Set(HeaderContentType, format.ContentType())
	if m.Rank != "" {
		out.Header.Set(HeaderRank, m.Rank)
	}
	TraceIn(m.Msg.Header).AddTo(out.Header)
	if a.Err == nil {
		out.Data, a.Err = format.Encode(a.Value)
	}
	if a.Err != nil {
		FailForeign(&out, format, actor, port, a.Err)
	}
	conn := f.p.bus.Data()
	if m.Urgent {
		conn = f.p.bus.Control()
	}
	err := conn.PublishMsg(out)
	if errors.Is(err, bus.ErrTooLarge) {
		FailForeign(&out, format, actor, port, busError("", "", err))
		err = conn.PublishMsg(out)
	}
	switch {
	case err == nil:
	case errors.Is(err, bus.ErrClosed): // this process ends, as its client learns from the bus
		f.p.log.Debug().Err(err).Str("to", m.Msg.Reply).Msg("cannot answer a foreign client")
	default:
		f.p.sampledLog.Warn().Err(err).Str("to", m.Msg.Reply).Msg("cannot answer a foreign client")
	}
}

// publish sends a value to a plain NATS client.
func (f *Foreign) publish(subject string, v any, trace Trace) error {
	if f.p.space.Owns(subject) {
		return errorf(CodeInvalid, subject, "", "want a subject of the client, got one of castnet")
	}
	body, err := wire.JSON.Encode(v)
	if err != nil {
		return errorf(CodeInvalid, subject, "", "%v", err)
	}
	m := bus.Msg{Subject: subject, Data: body, Header: bus.Header{}}
	m.Header.Set(HeaderContentType, wire.JSON.ContentType())
	trace.AddTo(m.Header)
	return busError(subject, "", f.p.bus.Data().PublishMsg(m))
}

// FailForeign turns an answer into an error: always with a body, for an empty one ends a stream.
// The body names the addressed actor and endpoint, or those that the error names.
func FailForeign(out *bus.Msg, format wire.Format, actor, endpoint string, err error) {
	w := toWire(err)
	e := FromWire(EncodeError(err)) // bounded, and valid UTF-8
	out.Header.Set(HeaderError, strings.NewReplacer("\r", " ", "\n", " ").Replace(e.Error()))
	out.Header.Set(HeaderErrorCode, strconv.Itoa(e.HTTPCode()))
	body, merr := format.Encode(map[string]any{"code": w.Code, "error": w.Text,
		"actor": cmp.Or(w.Actor, actor), "endpoint": cmp.Or(w.Endpoint, endpoint)})
	if merr != nil { // a map of numbers and bounded texts: cannot be
		panic(fmt.Sprintf("actor: encode an error as %s: %v", format.ContentType(), merr))
	}
	out.Data = body
}
