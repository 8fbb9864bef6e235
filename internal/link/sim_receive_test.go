package link

import (
	"bytes"
	"fmt"

	"github.com/castnet-io/castnet/internal/wire"
)

// arrive is a packet at its process, or at the next incarnation.
func (w *world) arrive(p *proc, k *packet) {
	if k.lost || !k.held && k.life != p.conns[k.lane].life {
		return
	}
	switch {
	case k.hint:
		p.core.OnHint(w.now, p.peer(k.about), k.n)
	case k.lane == control:
		w.onControl(p, k)
	default:
		if err := w.onPacket(p, k, k.subject, k.bytes, true); err != nil {
			w.malformed(k, err)
		}
	}
}

// malformed takes an unusable packet: no process really sent it.
func (w *world) malformed(k *packet, err error) {
	w.logf("malformed: %v", err)
	w.counts.Malformed++
	if w.faults.forge == 0 && !k.forged {
		w.fail("a packet of %d is malformed: %v", k.from.index, err)
	}
}

// onPacket takes a packet of the data connection, as Links do.
func (w *world) onPacket(p *proc, k *packet, subject string, b []byte, outer bool) error {
	h, rest, err := wire.DecodeHead(b)
	if err != nil {
		return err
	}
	peer := p.peer(k.from)
	if w.mutant != nil && w.mutant.head != nil {
		w.mutant.head(peer)
	}
	if peer.dead != nil {
		w.counts.Fenced++
		return nil
	}
	w.mutateSays(p, peer)
	if err := p.core.OnHead(w.now, peer, h.Ack); err != nil {
		return err
	}
	a := Arrival{Seq: h.Seq, PrevSeq: h.PrevSeq, Size: len(rest),
		Packet: &letter{subject: subject, rest: rest, from: k.from}}
	switch h.Kind {
	case wire.Data:
		if subject != "" && subject[0] == 'k' {
			return w.onCast(p, peer, a)
		}
		w.take(p, peer, a)
	case wire.Repair:
		at, inner, err := wire.DecodeRepair(rest)
		if err != nil {
			return err
		}
		_, envelopes, err := wire.DecodeHead(inner)
		if err != nil {
			return err
		}
		a.Size, a.Packet = len(envelopes), &letter{subject: at, rest: envelopes, from: k.from}
		w.take(p, peer, a)
	case wire.Probe:
		p.core.OnProbe(w.now, peer, h.Seq, h.PrevSeq)
	case wire.Goodbye:
		p.core.OnGoodbye(w.now, peer)
	case wire.Fragment:
		cut, part, err := wire.DecodeFragment(rest)
		if err != nil || !outer {
			return fmt.Errorf("piece: %w", err)
		}
		w.counts.Pieces++
		if parts := p.core.Fragment(peer, h.Seq, cut, part); parts != nil {
			return w.onPacket(p, k, "", bytes.Join(parts, nil), false)
		}
	default:
		return fmt.Errorf("kind %d", h.Kind)
	}
	return nil
}

func (w *world) mutateSays(p *proc, peer *Peer) {
	if w.mutant != nil && w.mutant.says != nil {
		w.mutant.says(p, peer)
	}
}

// onCast takes a packet published to many.
func (w *world) onCast(p *proc, peer *Peer, a Arrival) error {
	es := wire.NewEnvelopeReader(a.Packet.(*letter).rest)
	var e wire.Envelope
	if _, ok := es.Next(&e); !ok {
		return fmt.Errorf("cast: %w", es.Err())
	}
	part := e.Kind == wire.Chunk
	if part {
		w.counts.Shared++
		e.Ext = wire.AfterChunkHead(e.Ext)
	}
	prev, err := castPrev(e.Ext, p.index)
	if err != nil || prev == NotIncluded {
		w.counts.NotMeant++
		return err
	}
	if a.PrevSeq = prev; prev == AllAcked {
		a.PrevSeq, a.AllAcked = 0, true
	}
	if a.ReplyAcks = e.Ext[0] != 0 && !part; a.ReplyAcks {
		a.Packet.(*letter).cast = a.Seq
	}
	w.take(p, peer, a)
	return nil
}

// letter is a packet in its turn.
type letter struct {
	subject string
	rest    []byte
	from    *proc
	cast    uint64 // its number, when its answer says that it is here
}

// take delivers a packet in its turn, and the packets behind it.
func (w *world) take(p *proc, peer *Peer, a Arrival) {
	if w.mutant != nil && w.mutant.arrive != nil {
		w.mutant.arrive(p, peer, &a)
	}
	a, ok := p.core.Arrive(w.now, peer, a)
	for ok {
		refused := w.deliver(p, peer, a)
		if w.chance(0.02) { // the timer, on its own goroutine
			p.core.Tick(w.now)
		}
		a, ok = p.core.Done(w.now, peer, a, refused)
	}
}

func (w *world) deliver(p *proc, peer *Peer, a Arrival) (refused []wire.Refusal) {
	l := a.Packet.(*letter)
	es := wire.NewEnvelopeReader(l.rest)
	var e wire.Envelope
	for i := 0; ; i++ {
		if _, ok := es.Next(&e); !ok {
			break
		}
		if why := w.deliverOne(p, peer, l, e, inRuns(a.Skip, i)); why != nil {
			refused = addRefusal(refused, i, why)
		}
	}
	if es.Err() != nil {
		w.fail("a packet of %d: %v", l.from.index, es.Err())
	}
	for i := range refused {
		refused[i].Seq = a.Seq
	}
	return refused
}

func (w *world) deliverOne(p *proc, peer *Peer, l *letter, e wire.Envelope, skip bool) (why []byte) {
	if e.Kind == wire.Chunk {
		parts, err := p.core.Chunk(peer, &e)
		switch {
		case err != nil:
			w.counts.Unmade++
			why = []byte(err.Error())
		case parts == nil:
			return nil
		default:
			es := wire.NewEnvelopeReader(bytes.Join(parts, nil))
			if _, ok := es.Next(&e); !ok {
				w.fail("parts that make no message: %v", es.Err())
			}
		}
	}
	if skip {
		w.counts.Skipped++
		return nil
	}
	if why != nil {
		return why
	}
	return w.enter(p, l.from, &e, l.cast)
}

// onControl takes a packet of the control connection, as Links do.
func (w *world) onControl(p *proc, k *packet) {
	kind, body, err := wire.DecodeControl(k.bytes)
	if err != nil {
		w.malformed(k, err)
		return
	}
	peer := p.peer(k.from)
	if peer.dead != nil {
		return
	}
	w.mutateSays(p, peer)
	switch b := body.(type) {
	case *wire.LinkStateBody:
		if err := p.core.OnState(w.now, peer, b); err != nil {
			w.malformed(k, err)
		}
	case *wire.ConfirmBody:
		p.core.OnConfirm(w.now, peer, b.Next)
	case *wire.ResetBody:
		if kind == wire.SenderReset {
			p.core.OnSenderReset(peer, b)
		} else {
			p.core.OnReceiverReset(peer, b)
		}
	case *wire.FateQueryBody:
		if kind == wire.FateQuery {
			p.core.OnQuery(w.now, peer, b)
		} else {
			p.core.OnVerdict(peer, b)
		}
	case nil:
		p.core.OnResume(w.now, peer)
	}
}
