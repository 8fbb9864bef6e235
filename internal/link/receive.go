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

// parcel is a packet whose turn it is, or will be.
type parcel interface {
	// deliver gives it to the handler; late is how long it waited for its turn.
	deliver(l *Links, p *Peer, late time.Duration, skip []int) []wire.Refusal
}

// Receive takes a packet that came for this process, on the data pump.
func (l *Links) Receive(m bus.Msg, s subjects.Subject) {
	from, err := subjects.ParseProcessID(s.From)
	if err == nil {
		err = l.packet(from, s, m.Data, true)
	}
	if err != nil {
		l.malformed(m.Subject, m.Data, err)
	}
}

// packet takes a packet by its kind.
func (l *Links) packet(from subjects.ProcessID, s subjects.Subject, data []byte, outer bool) error {
	h, rest, err := wire.DecodeHead(data)
	if err != nil {
		return err
	}
	p, err := l.head(from, h)
	if err != nil || p == nil {
		return err
	}
	switch {
	case h.Kind == wire.Data && s.Kind != subjects.KindCast:
		l.arrive(p, Arrival{N: h.N, Prev: h.Prev, Size: len(rest), Packet: &letters{subject: s, data: rest, age: h.Age}})
	case h.Kind == wire.Repair:
		return l.repair(p, h, rest)
	case h.Kind == wire.Beat:
		l.locked(func(now Instant) { l.core.OnBeat(now, p, h.N, h.Prev) })
	case h.Kind == wire.Bye:
		l.locked(func(Instant) { l.core.OnBye(p) })
	case h.Kind == wire.Piece && outer:
		cut, part, err := wire.DecodePiece(rest)
		if err != nil {
			return err
		}
		var whole []byte
		l.locked(func(Instant) { whole = l.core.Piece(p, h.N, cut, part) })
		if whole != nil {
			return l.packet(from, s, whole, false)
		}
	default:
		return fmt.Errorf("packet of kind %d on the subject of a %s", h.Kind, s.Kind)
	}
	return nil
}

// head takes what the head of any packet says; nil for a process that is known to be dead (DEL-5).
func (l *Links) head(from subjects.ProcessID, h wire.Head) (p *Peer, err error) {
	l.locked(func(now Instant) {
		p = l.core.Peer(from)
		if p.dead != nil {
			l.core.stats.Fenced++
			if h.N != 0 { // it lives, and must not wait for what never comes
				l.core.control(p, wire.Break, wire.BreakOf{N: h.N, Text: "known to be dead here: " + bounded(p.dead.Error())})
			}
			p = nil
			return
		}
		err = l.core.OnHead(now, p, h.Known)
	})
	return p, err
}

// repair takes a packet that went to many, or by another subject, for this process alone.
func (l *Links) repair(p *Peer, h wire.Head, rest []byte) error {
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
	if ih.Kind != wire.Data || s.From != p.id.String() || s.Kind != subjects.KindPort && s.Kind != subjects.KindCast {
		return fmt.Errorf("a packet of kind %d for %q, within one of %s", ih.Kind, subject, p.id)
	}
	l.arrive(p, Arrival{N: h.N, Prev: h.Prev, Size: len(envelopes), Packet: &letters{subject: s, data: envelopes, age: h.Age + ih.Age}})
	return nil
}

// Opened is what the ext of a cast says to this process.
type Opened struct {
	Prev    uint64              // what must have been seen before: a number, 0, Settled, or Left
	Answers bool                // see Cast
	Deliver func() (why []byte) // called when it is the message's turn
}

// ReceiveCast takes a packet that was published to many, on the data pump. open reads the ext of the cast,
// which has number n.
func (l *Links) ReceiveCast(m bus.Msg, s subjects.Subject, open func(n uint64, e *wire.Envelope) (Opened, error)) {
	if err := l.receiveCast(m, s, open); err != nil {
		l.malformed(m.Subject, m.Data, err)
	}
}

func (l *Links) receiveCast(m bus.Msg, s subjects.Subject, open func(n uint64, e *wire.Envelope) (Opened, error)) error {
	from, err := subjects.ParseProcessID(s.From)
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
	es := wire.NewEnvelopes(rest)
	e := new(wire.Envelope)
	if _, ok := es.Next(e); !ok || e.Kind != wire.Cast {
		return fmt.Errorf("want one envelope of a cast: %w", es.Err())
	}
	e.Actor, e.Port = s.Actor, s.Port
	o, err := open(h.N, e)
	if err != nil || o.Prev == Left {
		return err
	}
	p, err := l.head(from, wire.Head{})
	if err != nil || p == nil {
		return err
	}
	a := Arrival{N: h.N, Prev: o.Prev, Answers: o.Answers, Size: len(rest), Packet: cast(o.Deliver)}
	if o.Prev == Settled {
		a.Prev, a.Settled = 0, true
	}
	l.arrive(p, a)
	return nil
}

// cast is the one message of a packet that was published to many.
type cast func() (why []byte)

func (k cast) deliver(_ *Links, _ *Peer, _ time.Duration, skip []int) []wire.Refusal {
	if skips(skip, 0) {
		return nil
	}
	if why := k(); why != nil {
		return []wire.Refusal{{Count: 1, Why: why}}
	}
	return nil
}

// arrive delivers a packet when it is its turn, and those that waited for it.
func (l *Links) arrive(p *Peer, a Arrival) {
	var ok bool
	l.locked(func(now Instant) { a, ok = l.core.Arrive(now, p, a) })
	l.deliver(p, a, ok)
}

func (l *Links) deliver(p *Peer, a Arrival, ok bool) {
	for ok {
		var late time.Duration
		if a.Came != 0 {
			late = time.Duration(l.now() - a.Came)
		}
		refused := a.Packet.(parcel).deliver(l, p, late, a.Skip)
		if k, is := a.Packet.(*letters); is {
			a.Waits = k.waits
		}
		for i := range refused {
			refused[i].N = a.N
		}
		ok = false // of links that are closed meanwhile nothing follows
		l.locked(func(now Instant) { a, ok = l.core.Done(now, p, a, refused) })
	}
}

// letters are the envelopes of a packet.
type letters struct {
	subject subjects.Subject
	data    []byte
	age     time.Duration
	waits   uint64 // bytes of messages that wait for room, as far as they were read
}

func (k *letters) deliver(l *Links, p *Peer, late time.Duration, skip []int) []wire.Refusal {
	k.age += late
	r := &l.reading
	r.links, r.packet, r.in.From, r.in.Envelope = l, k, p, &r.first
	es, several := wire.NewEnvelopes(k.data), false
	for i := 0; ; i++ {
		if len(skip) == 0 {
			i += r.join(&es)
		}
		if !several && i > 0 && (es.At() < len(k.data) || len(r.in.Letters) > 1) { // what answers them leaves together
			several = true
			l.Expect()
			defer l.Come()
		}
		r.deliver()
		if _, ok := es.Next(&r.next); !ok {
			break
		}
		r.begin(i, es.At(), skips(skip, i))
	}
	if err := es.Err(); err != nil {
		l.malformed(k.subject.From, k.data, err)
	}
	refused := r.refused
	*r = reading{in: Inbound{Letters: r.in.Letters}}
	return refused
}

func (l *Links) chunk(p *Peer, e *wire.Envelope) (whole []byte, err error) {
	l.locked(func(Instant) { whole, err = l.core.Chunk(p, e) })
	return whole, err
}

// tooLarge is why a message that came in parts is refused.
func (l *Links) tooLarge(actor, port string, err error) []byte {
	at := l.o.Self.Within(actor).String()
	why, merr := wire.Marshal(wire.Error{Code: TooLargeCode, Text: err.Error(), Actor: at, Endpoint: port}.Bounded())
	if merr != nil { // a number and bounded texts: cannot be
		panic(fmt.Sprintf("link: encode an error: %v", merr))
	}
	return why
}

// TooLargeCode is the code of an Error that says that a message is too large, as package actor has it.
const TooLargeCode = 12

// refuse adds a refusal, as one with its neighbour when they are for the same reason.
func refuse(all []wire.Refusal, index int, why []byte) []wire.Refusal {
	if n := len(all); n > 0 {
		if last := &all[n-1]; last.Index+last.Count == index && bytes.Equal(last.Why, why) {
			last.Count++
			return all
		}
	}
	return append(all, wire.Refusal{Index: index, Count: 1, Why: why})
}

// skips reports whether an index is in one of the runs.
func skips(runs []int, index int) bool {
	for i := 0; i+1 < len(runs); i += 2 {
		if runs[i] <= index && index < runs[i]+runs[i+1] {
			return true
		}
	}
	return false
}

// ReceiveControl takes what came on the control lane, on its pump.
func (l *Links) ReceiveControl(m bus.Msg, s subjects.Subject) {
	if err := l.receiveControl(m, s); err != nil {
		l.malformed(m.Subject, m.Data, err)
	}
}

func (l *Links) receiveControl(m bus.Msg, s subjects.Subject) error {
	from, err := subjects.ParseProcessID(s.From)
	if err != nil {
		return err
	}
	kind, body, err := wire.DecodeControlCounting(m.Data, l.o.Unknown)
	if err != nil {
		return err
	}
	switch b := body.(type) {
	case *wire.CancelOf:
		l.o.Handler.Cancel(from, b.Replies)
		return nil
	case *wire.Envelope:
		l.urgent(from, b)
		return nil
	}
	l.locked(func(now Instant) {
		p := l.core.Known(from)
		if p == nil || p.dead != nil {
			return
		}
		switch b := body.(type) {
		case *wire.StateOf:
			err = l.core.OnState(now, p, b)
		case *wire.ConfirmOf:
			l.core.OnConfirm(now, p, b.Next)
		case *wire.BreakOf:
			if kind == wire.Gone {
				l.core.OnGone(p, b)
			} else {
				l.core.OnBreak(p, b)
			}
		case *wire.QueryOf:
			if kind == wire.Query {
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

// urgent takes a message of the control lane. It says nothing of how the links stand.
func (l *Links) urgent(from subjects.ProcessID, e *wire.Envelope) {
	l.mu.Lock()
	p := l.core.Peer(from)
	if p.dead != nil {
		l.core.stats.Fenced++
	}
	taken := p.dead == nil && !l.closed
	l.mu.Unlock()
	if taken {
		l.o.Handler.Urgent(p, e)
	}
}

// ReceiveHint takes the server's word that nobody listened where this process published, on the data
// pump.
func (l *Links) ReceiveHint(m bus.Msg, s subjects.Subject) {
	if !m.NoResponders {
		return
	}
	n, err := strconv.ParseUint(s.Link, hintBase, 64)
	at, perr := l.o.Space.Parse(m.HintFor)
	if err != nil || perr != nil {
		l.malformed(m.Subject, m.Data, fmt.Errorf("a hint for %q", m.HintFor))
		return
	}
	id := at.Process
	if at.Kind == subjects.KindPort {
		id = at.Proc.Process()
	}
	l.locked(func(now Instant) {
		if p := l.core.Known(id); p != nil {
			l.core.OnHint(now, p, n)
		}
	})
}
