package actor

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
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

// ForeignMessage is a message of a plain NATS client.
type ForeignMessage struct {
	Msg    bus.Msg
	From   string
	Point  shape.Point   // for a cast: where the target stands in it
	Rank   string        // for a cast: the target's rank, for the answer's header
	TTL    time.Duration // how long an answer is of use; 0: the proc's deadline
	Refuse error         // why it is refused; nil: it is not
	Urgent bool          // it came by the control connection, and is answered there
}

// DeliverForeign delivers a message of a plain NATS client, at most once. If the message has a
// reply subject, it is answered in the same format (DEL-10). A bad message is answered, too.
func (p *Proc) DeliverForeign(actor, port string, m ForeignMessage) {
	p.counts.foreign.Add(1)
	admitted := p.limiters.allow(m.From)
	if !admitted && m.Msg.Reply == "" { // only count it: there may be very many
		p.counts.undeliverable.Add(1)
		p.sampledLog.Warn().Str("from", m.From).Int("rate", foreignRate).
			Msg("plain client exceeds the message rate limit")
		return
	}
	format, err := wire.FormatOf(m.Msg.Header.Get(HeaderContentType), m.Msg.Data)
	d := Delivery{
		Actor: actor, Port: port, Point: m.Point, Raw: m.Msg.Data, Format: format,
		Deadline: time.Now().Add(cmp.Or(m.TTL, p.deadline)),
	}
	d.Answer = func(a Answer) { p.logForeign(m, a) }
	if m.Msg.Reply != "" {
		if !p.MayAnswer(m.Msg.Reply, m.From) {
			p.counts.malformed.Add(1)
			p.sampledLog.Warn().Str("reply", m.Msg.Reply).Str("from", m.From).
				Msg("foreign message refused: its reply subject is not its sender's")
			return
		}
		d.Answer = func(a Answer) { p.answerForeign(m, format, a) }
	}
	if !admitted {
		p.rejectDelivery(&d, errorf(CodeTooMany, p.id.Actor(actor).String(), port, tooMany, m.From,
			foreignRate))
		return
	}
	if err := cmp.Or(m.Refuse, err); err != nil {
		p.rejectDelivery(&d, errorf(CodeBadMessage, p.id.Actor(actor).String(), port, "%v", err))
		return
	}
	p.Deliver(d)
}

// RefuseForeign answers a message of a plain NATS client with an unparsable subject. A peer's
// message has no sender to answer.
func (p *Proc) RefuseForeign(m bus.Msg, err error) {
	p.malformed(m, err)
	if wire.IsPacket(m.Data) || m.Reply == "" || !p.MayAnswer(m.Reply, "") || !p.limiters.allow("") {
		return
	}
	format, _ := wire.FormatOf(m.Header.Get(HeaderContentType), m.Data)
	p.answerForeign(ForeignMessage{Msg: m}, format, Answer{Err: errorf(CodeBadMessage, "", "", "%v", err)})
}

// AdmitForeign applies the rate limit of a plain NATS client; an error reports the excess.
func (p *Proc) AdmitForeign(from string) *Error {
	if p.limiters.allow(from) {
		return nil
	}
	return errorf(CodeTooMany, "", "", tooMany, from, foreignRate)
}

const tooMany = "%s sends more than %d messages a second"

// logForeign takes the outcome of a message without a reply subject. It counts as an answer: a
// plain client's message does not fail an actor (ACT-4).
func (p *Proc) logForeign(m ForeignMessage, a Answer) {
	if a.Err != nil {
		p.sampledLog.Warn().Err(a.Err).Str("subject", m.Msg.Subject).
			Msg("foreign message without a reply subject failed")
	}
}

// MayAnswer reports whether this proc may publish to a plain client's reply subject. Subjects of
// castnet and of the server are refused, except the sender's own.
func (p *Proc) MayAnswer(reply, from string) bool {
	if !foreignSubject(reply) {
		return false
	}
	if !p.space.Owns(reply) {
		return true
	}
	s, err := p.space.Parse(reply)
	return err == nil && s.Token != "" && s.From == from
}

func (p *Proc) answerForeign(m ForeignMessage, format wire.Format, a Answer) {
	out := bus.Msg{Subject: m.Msg.Reply, Header: bus.Header{}}
	out.Header.Set(HeaderContentType, format.ContentType())
	if m.Rank != "" {
		out.Header.Set(HeaderRank, m.Rank)
	}
	if a.Err == nil {
		out.Data, a.Err = format.Encode(a.Value)
	}
	if a.Err != nil {
		FailForeign(&out, format, a.Err)
	}
	conn := p.bus.Data()
	if m.Urgent {
		conn = p.bus.Control()
	}
	err := conn.PublishMsg(out)
	if errors.Is(err, bus.ErrTooLarge) {
		FailForeign(&out, format, busError("", "", err))
		err = conn.PublishMsg(out)
	}
	if err != nil {
		p.sampledLog.Warn().Err(err).Str("to", m.Msg.Reply).Msg("cannot answer a foreign client")
	}
}

// FailForeign turns an answer into an error: always with a body, for an empty one ends a stream.
func FailForeign(out *bus.Msg, format wire.Format, err error) {
	w := toWire(err)
	e := FromWire(EncodeError(err)) // bounded, and valid UTF-8
	out.Header.Set(HeaderError, strings.NewReplacer("\r", " ", "\n", " ").Replace(e.Error()))
	out.Header.Set(HeaderErrorCode, strconv.Itoa(e.HTTPCode()))
	body, merr := format.Encode(map[string]any{"code": w.Code, "error": w.Text, "actor": w.Actor,
		"endpoint": w.Endpoint})
	if merr != nil { // a map of numbers and bounded texts: cannot be
		panic(fmt.Sprintf("actor: encode an error as %s: %v", format.ContentType(), merr))
	}
	out.Data = body
}
