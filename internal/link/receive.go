package link

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// deliverable is a packet to be delivered in its turn.
type deliverable interface {
	// deliver gives it to the handler; late is how long it waited for its turn.
	deliver(l *Links, p *Peer, late time.Duration, skip []int) []wire.Refusal
}

// Receive takes a packet for this process, on the data pump.
func (l *Links) Receive(m bus.Msg, s subjects.Subject) {
	from, err := s.Sender.Process()
	if err == nil {
		err = l.receivePacket(from, s, m.Data, true)
	}
	if err != nil {
		l.malformed(m.Subject, m.Data, err)
	}
}

// receivePacket takes a packet by its kind.
func (l *Links) receivePacket(from subjects.ProcessID, s subjects.Subject, data []byte, outer bool) error {
	h, rest, err := wire.DecodeHead(data)
	if err != nil {
		return err
	}
	p, err := l.onHead(from, s.Sender, h)
	if err != nil || p == nil {
		return err
	}
	switch {
	case h.Kind == wire.Data && s.Kind != subjects.KindCast:
		l.accept(p, Arrival{Seq: h.Seq, PrevSeq: h.PrevSeq, Size: len(rest),
			Packet: &dataPacket{subject: s, data: rest, age: h.Age}})
	case h.Kind == wire.Repair:
		return l.onRepair(p, s.Sender, h, rest)
	case h.Kind == wire.Probe:
		l.withCore(func(now Instant) { l.core.OnProbe(now, p, h.Seq, h.PrevSeq) })
	case h.Kind == wire.Goodbye:
		l.withCore(func(now Instant) { l.core.OnGoodbye(now, p) })
	case h.Kind == wire.Fragment && outer:
		cut, part, err := wire.DecodeFragment(rest)
		if err != nil {
			return err
		}
		var parts [][]byte
		l.withCore(func(Instant) { parts = l.core.Fragment(p, h.Seq, cut, part) })
		if parts != nil {
			return l.receivePacket(from, s, join(parts), false)
		}
	default:
		return fmt.Errorf("packet of kind %d on the subject of a %s", h.Kind, s.Kind)
	}
	return nil
}

// onHead takes the head of any packet; nil for a dead process (DEL-5).
func (l *Links) onHead(from subjects.ProcessID, by subjects.Sender, h wire.Head) (p *Peer, err error) {
	l.withCore(func(now Instant) {
		p = l.core.Peer(from)
		err = p.checkSender(by)
		if err != nil {
			return
		}
		if p.dead != nil {
			l.core.stats.Fenced++
			if h.Seq != 0 { // it lives, and must not wait in vain
				l.core.emitControl(p, wire.ReceiverReset,
					wire.ResetBody{Seq: h.Seq, Text: "known to be dead here: " +
						truncateText(p.dead.Error())})
			}
			p = nil
			return
		}
		err = l.core.OnHead(now, p, h.Ack)
	})
	return p, err
}

// onRepair takes a packet sent to this process alone in place of a cast or another subject.
func (l *Links) onRepair(p *Peer, from subjects.Sender, h wire.Head, rest []byte) error {
	subject, inner, err := wire.DecodeRepair(rest)
	if err != nil {
		return err
	}
	s, err := l.o.Space.Parse(subject)
	if err != nil {
		return err
	}
	ih, envelopes, err := wire.DecodeHead(inner)
	if err != nil {
		return err
	}
	if ih.Kind != wire.Data || s.Sender != from ||
		s.Kind != subjects.KindPort && s.Kind != subjects.KindCast {
		return fmt.Errorf("packet of kind %d for %q in a repair packet of %s", ih.Kind, subject, from)
	}
	l.accept(p, Arrival{Seq: h.Seq, PrevSeq: h.PrevSeq, Size: len(envelopes),
		Packet: &dataPacket{subject: s, data: envelopes, age: h.Age + ih.Age}})
	return nil
}

// CastHead is this process's part of a cast's ext.
type CastHead struct {
	PrevSeq   uint64              // the packet that must come before: a number, 0, AllAcked, or NotIncluded
	ReplyAcks bool                // see Cast
	Deliver   func() (why []byte) // called when it is the message's turn; not for a part
	Reject    func() error        // not nil: the cast is for an earlier process; called at once
}

// ReceiveCast takes a published cast packet, on the data pump. open decodes the ext of the cast
// with number n.
func (l *Links) ReceiveCast(m bus.Msg, s subjects.Subject,
	open func(n uint64, e *wire.Envelope) (CastHead, error)) {
	if err := l.receiveCast(m, s, open); err != nil {
		l.malformed(m.Subject, m.Data, err)
	}
}

func (l *Links) receiveCast(m bus.Msg, s subjects.Subject,
	open func(n uint64, e *wire.Envelope) (CastHead, error)) error {
	from, err := s.Sender.Process()
	if err != nil {
		return err
	}
	h, rest, err := wire.DecodeHead(m.Data)
	if err != nil {
		return err
	}
	if h.Kind != wire.Data {
		return fmt.Errorf("packet of kind %d on the subject of a cast", h.Kind)
	}
	es := wire.NewEnvelopeReader(rest)
	e := new(wire.Envelope)
	if _, ok := es.Next(e); !ok || e.Kind != wire.Cast && e.Kind != wire.Chunk {
		return fmt.Errorf("want one envelope of a cast: %w", es.Err())
	}
	first := true
	if e.Kind == wire.Chunk {
		part, err := wire.DecodeChunk(e.Ext, len(e.Body))
		if err != nil {
			return err
		}
		if es.Offset() != len(rest) {
			return fmt.Errorf("want one part of a cast: %d bytes follow it", len(rest)-es.Offset())
		}
		first = part.Offset == 0
		e.Ext = wire.AfterChunkHead(e.Ext)
	}
	e.Actor, e.Port = s.Actor, s.Port
	o, err := open(h.Seq, e)
	if err == nil && o.Reject != nil && first {
		err = o.Reject()
	}
	if err != nil || o.Reject != nil || o.PrevSeq == NotIncluded {
		return err
	}
	p, err := l.onHead(from, s.Sender, wire.Head{})
	if err != nil || p == nil {
		return err
	}
	a := Arrival{Seq: h.Seq, PrevSeq: o.PrevSeq, ReplyAcks: o.ReplyAcks, Size: len(rest),
		Packet: castDelivery(o.Deliver)}
	if e.Kind == wire.Chunk {
		a.ReplyAcks = false
		a.Packet = &dataPacket{subject: s, data: rest, age: h.Age}
	}
	if o.PrevSeq == AllAcked {
		a.PrevSeq = 0
		a.AllAcked = true
	}
	l.accept(p, a)
	return nil
}

// castDelivery is the message of a published cast packet.
type castDelivery func() (why []byte)

func (k castDelivery) deliver(_ *Links, _ *Peer, _ time.Duration, skip []int) []wire.Refusal {
	if inRuns(skip, 0) {
		return nil
	}
	if why := k(); why != nil {
		return []wire.Refusal{{Count: 1, Why: why}}
	}
	return nil
}

// accept delivers a packet in its turn, and the packets parked behind it.
func (l *Links) accept(p *Peer, a Arrival) {
	var ok bool
	l.withCore(func(now Instant) { a, ok = l.core.Arrive(now, p, a) })
	l.deliver(p, a, ok)
}

func (l *Links) deliver(p *Peer, a Arrival, ok bool) {
	for ok {
		var late time.Duration
		if a.ParkedAt != 0 {
			late = time.Duration(l.now() - a.ParkedAt)
		}
		refused := a.Packet.(deliverable).deliver(l, p, late, a.Skip)
		for i := range refused {
			refused[i].Seq = a.Seq
		}
		ok = false // links closed meanwhile deliver nothing more
		l.withCore(func(now Instant) { a, ok = l.core.Done(now, p, a, refused) })
	}
}

// dataPacket are the envelopes of a packet.
type dataPacket struct {
	subject subjects.Subject
	data    []byte
	age     time.Duration
}

func (k *dataPacket) deliver(l *Links, p *Peer, late time.Duration, skip []int) []wire.Refusal {
	k.age += late
	r := &l.reader
	r.links = l
	r.packet = k
	r.inbound.From = p
	r.inbound.Sender = k.subject.Sender
	r.inbound.Envelope = &r.first
	es := wire.NewEnvelopeReader(k.data)
	several := false
	for i := 0; ; i++ {
		if len(skip) == 0 {
			i += r.appendPlain(&es)
		}
		// their answers leave together
		if !several && i > 0 && (es.Offset() < len(k.data) || len(r.inbound.Bodies) > 1) {
			several = true
			l.BeginBatch()
			defer l.EndBatch()
		}
		r.deliver()
		if _, ok := es.Next(&r.next); !ok {
			break
		}
		r.start(i, es.Offset(), inRuns(skip, i))
	}
	if err := es.Err(); err != nil {
		l.malformed(k.subject.Sender.String(), k.data, err)
	}
	refused := r.refused
	*r = packetReader{inbound: Inbound{Bodies: r.inbound.Bodies}}
	return refused
}

func (l *Links) chunk(p *Peer, e *wire.Envelope) (parts [][]byte, err error) {
	l.withCore(func(Instant) { parts, err = l.core.Chunk(p, e) })
	return parts, err
}

// tooLarge is the refusal of a message in parts.
func (l *Links) tooLarge(actor, port string, err error) []byte {
	at := l.o.Self.ActorByLocalName(actor).String()
	why, merr := wire.Marshal(wire.Error{Code: TooLargeCode, Text: err.Error(), Actor: at,
		Endpoint: port}.Bounded())
	if merr != nil { // a number and bounded texts: cannot be
		panic(fmt.Sprintf("link: encode an error: %v", merr))
	}
	return why
}

// TooLargeCode is the code of a too large message, as in package actor.
const TooLargeCode = 12

// addRefusal adds a refusal, merged with its neighbour for the same reason.
func addRefusal(all []wire.Refusal, index int, why []byte) []wire.Refusal {
	if n := len(all); n > 0 {
		if last := &all[n-1]; last.Index+last.Count == index && bytes.Equal(last.Why, why) {
			last.Count++
			return all
		}
	}
	return append(all, wire.Refusal{Index: index, Count: 1, Why: why})
}

// inRuns reports whether an index is in one of the runs.
func inRuns(runs []int, index int) bool {
	for i := 0; i+1 < len(runs); i += 2 {
		if runs[i] <= index && index < runs[i]+runs[i+1] {
			return true
		}
	}
	return false
}

// ReceiveControl takes a message from the control connection, on its pump.
func (l *Links) ReceiveControl(m bus.Msg, s subjects.Subject) {
	if err := l.receiveControl(m, s); err != nil {
		l.malformed(m.Subject, m.Data, err)
	}
}

func (l *Links) receiveControl(m bus.Msg, s subjects.Subject) error {
	from, err := s.Sender.Process()
	if err != nil {
		return err
	}
	kind, body, err := wire.DecodeControlCounting(m.Data, l.o.Unknown)
	if err != nil {
		return err
	}
	if e, urgent := body.(*wire.Envelope); urgent {
		return l.urgent(from, s.Sender, e)
	}
	if c, cancels := body.(*wire.CancelBody); cancels {
		if err := l.checkSender(from, s.Sender); err != nil {
			return err
		}
		l.o.Handler.Cancel(from, c.Replies)
		return nil
	}
	l.withCore(func(now Instant) {
		p := l.core.Lookup(from)
		if p == nil {
			return
		}
		err = p.checkSender(s.Sender)
		if err != nil || p.dead != nil {
			return
		}
		switch b := body.(type) {
		case *wire.LinkStateBody:
			err = l.core.OnState(now, p, b)
		case *wire.ConfirmBody:
			l.core.OnConfirm(now, p, b.Next)
		case *wire.ResetBody:
			if kind == wire.SenderReset {
				l.core.OnSenderReset(p, b)
			} else {
				l.core.OnReceiverReset(p, b)
			}
		case *wire.FateQueryBody:
			if kind == wire.FateQuery {
				l.core.OnQuery(now, p, b)
			} else {
				l.core.OnVerdict(p, b)
			}
		case nil:
			l.core.OnResume(now, p)
		}
	})
	return err
}

// urgent takes an urgent message from the control connection. It does not touch the links.
func (l *Links) urgent(from subjects.ProcessID, by subjects.Sender, e *wire.Envelope) error {
	l.mu.Lock()
	p := l.core.Peer(from)
	err := p.checkSender(by)
	if p.dead != nil {
		l.core.stats.Fenced++
	}
	taken := err == nil && p.dead == nil && !l.closed
	l.mu.Unlock()
	if taken {
		l.o.Handler.Urgent(p, by, e)
	}
	return err
}

// checkSender refuses a packet of a known process from another sender than before.
func (l *Links) checkSender(from subjects.ProcessID, by subjects.Sender) (err error) {
	l.withCore(func(Instant) {
		if p := l.core.Lookup(from); p != nil {
			err = p.checkSender(by)
		}
	})
	return err
}

// SenderOf is the sender of the first packet of a process; zero for an unknown one.
func (l *Links) SenderOf(process subjects.ProcessID) (by subjects.Sender) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.core.Lookup(process); p != nil {
		by = p.sender
	}
	return by
}

// ReceiveHint takes the server's report that a publication of this process had no subscriber, on
// the data pump.
func (l *Links) ReceiveHint(m bus.Msg, s subjects.Subject) {
	if !m.NoResponders {
		return
	}
	n, err := strconv.ParseUint(s.Link, hintBase, 64)
	at, perr := l.o.Space.Parse(m.HintFor)
	if err != nil || perr != nil {
		l.malformed(m.Subject, m.Data, fmt.Errorf("unexpected hint for %q", m.HintFor))
		return
	}
	id := at.Proc.Process()
	l.withCore(func(now Instant) {
		if p := l.core.Lookup(id); p != nil {
			l.core.OnHint(now, p, n)
		}
	})
}
