package link

import (
	"bytes"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// Connections of a process.
const (
	data = iota
	control
)

// A conn is a connection of a process to the bus: its packets arrive at another connection in order
// while both live.
type conn struct {
	cut      bool
	life     int
	pipes    []Instant // when the last packet arrives, by process
	interest []Instant // from when on its server knows that the process listens
}

// packet is a NATS message on its way.
type packet struct {
	from    *proc
	lane    int
	life    int // of the receiver's connection
	subject string
	bytes   []byte
	hint    bool   // nobody listened
	about   *proc  // the same: where
	n       uint64 // the same: to which packet
	lost    bool
	held    bool // it was held back for long
	forged  bool
	sent    Instant
}

// flush carries out all effects of a Core.
func (w *world) flush(p *proc) {
	for again := true; again; {
		again = false
		for effects := p.core.Effects(p.effects[:0]); len(effects) > 0; effects = p.core.Effects(p.effects[:0]) {
			p.effects = nil // another one is made when this one is called again below
			for i := range effects {
				w.perform(p, &effects[i])
			}
			p.effects, again = effects, true
		}
		w.checkMemory(p)
		for w.now >= p.writesAt {
			pub, ok := p.core.Next(w.now)
			again = again || ok || len(p.core.effects) > 0 // of messages that have expired in the queue
			if !ok {
				p.hand, p.published = nil, nil
				break
			}
			w.publish(p, pub)
			w.checkMemory(p)
			w.choke(p)
		}
	}
	if w.mutant != nil && w.mutant.after != nil {
		w.mutant.after(p)
	}
	if due := p.core.Due(); due != 0 && (p.tickAt == 0 || due < p.tickAt) {
		p.tickAt = max(due, w.now)
		w.at(p.tickAt, evTick, p, 0, nil)
	}
	w.pollBarriers(p)
}

// choke blocks the socket of a process for a while.
func (w *world) choke(p *proc) {
	if !w.faulty || !w.chance(w.faults.choke) {
		return
	}
	w.counts.Faults[faultChoke]++
	p.writesAt = w.soon(400 * time.Millisecond)
	w.at(p.writesAt, evWrites, p, 0, nil)
}

// checkMemory checks that a packet is unchanged until the next one is requested: its publisher may
// be slow. It overwrites the buffers that the Core keeps for later.
func (w *world) checkMemory(p *proc) {
	if !bytes.Equal(p.hand, p.published) {
		w.fail("a packet of %d changed while it was published", p.index)
	}
	spare := p.core.freeBufs
	for ; p.spoilt < len(spare); p.spoilt++ {
		for i, room := 0, spare[p.spoilt].buf[:cap(spare[p.spoilt].buf)]; i < min(len(room), 256); i++ {
			room[i] = 0xaa
		}
	}
	p.spoilt = len(spare)
}

func (w *world) perform(p *proc, e *Effect) {
	if w.mutant != nil && w.mutant.effect != nil && !w.mutant.effect(p, e) {
		return
	}
	switch e.Kind {
	case EffectFate:
		w.logf("%d is told: group %s, %d messages, known %t, %d %s", p.index, e.Fate.Mark.Type, e.Fate.Count,
			e.Fate.Known, e.Fate.Reason, e.Fate.Text)
		w.history.fate(w, p, &e.Fate)
		w.onFate(&e.Fate)
	case EffectBroken:
		w.logf("%d: link with %d is over: %v", p.index, p.procOf(e.Peer).index, e.Err)
		w.counts.Broken++
		w.onBroken(p, e)
	case EffectForget:
		w.logf("%d forgets %d", p.index, p.procOf(e.Peer).index)
		w.counts.Forgotten++
	case EffectRoom:
		w.room(p, e.Peer)
	case EffectControl:
		b := wire.AppendHead(nil, wire.Head{Kind: e.Packet})
		if e.Body != nil {
			var err error
			if b, err = wire.AppendControl(nil, e.Packet, e.Body); err != nil {
				w.fail("control packet: %v", err)
			}
		}
		w.counts.Control[e.Packet]++
		to := p.procOf(e.Peer)
		w.logf("%d to %d: control %d %+v", p.index, to.index, e.Packet, e.Body)
		w.transmit(p, to, control, "c", b, Publish{})
	}
}

// publish hands a packet to the bus.
func (w *world) publish(p *proc, pub Publish) {
	if w.mutant != nil && w.mutant.publish != nil && !w.mutant.publish(p, &pub) {
		return
	}
	w.counts.Published++
	b := append([]byte(nil), pub.Data...)
	p.hand, p.published = pub.Data, b
	if pub.To != nil {
		w.transmit(p, p.procOf(pub.To), data, pub.Subject, b, pub)
		return
	}
	w.counts.Casts++
	for _, q := range w.procs {
		if q != p {
			w.transmit(p, q, data, pub.Subject, b, pub)
		}
	}
}

// learn is the moment when a process's server learns that another one listens.
func (w *world) learn(fresh, old *proc) {
	if fresh == old {
		return
	}
	for lane := range fresh.conns {
		old.conns[lane].interest[fresh.index] = w.soon(w.faults.lag)
		fresh.conns[lane].interest[old.index] = w.now
	}
}

// transmit carries a packet to one process, or not.
func (w *world) transmit(p, to *proc, lane int, subject string, b []byte, pub Publish) {
	c := &p.conns[lane]
	k := &packet{from: p, lane: lane, life: to.conns[lane].life, subject: subject, bytes: b, sent: w.now}
	if h, _, err := wire.DecodeHead(b); w.log != nil && lane == data {
		w.logf("%d to %d: %q kind %d n %d prev %d known %+v %v, %d bytes", p.index, to.index, subject, h.Kind,
			h.Seq, h.PrevSeq, h.Ack, err, len(b))
	}
	switch {
	case len(b) > p.limit && pub.Seq != 0 && pub.To == nil && len(b) <= w.limits[0]:
		w.counts.Faults[faultTail]++ // a cast that was ready when the server changed: it is refused
		return
	case len(b) > p.limit:
		w.fail("%d publishes %d bytes, its server takes %d", p.index, len(b), p.limit)
		return
	case c.cut:
		w.counts.Faults[faultTail]++
		return
	case !to.alive || to.conns[lane].cut || w.now < c.interest[to.index]:
		w.counts.Faults[faultLag]++
		if pub.WantHint {
			w.counts.Faults[faultHint]++
			hint := &packet{from: p, hint: true, about: to, n: pub.Seq, life: p.conns[data].life}
			w.at(w.soon(2*time.Millisecond), evPacket, p, 0, hint)
		}
		return
	case w.faulty && w.chance(w.faults.drop):
		w.counts.Faults[faultDrop]++
		w.logf("  dropped")
		return
	}
	at := w.soon(w.faults.delay)
	if w.faulty && w.chance(w.faults.spike) {
		w.counts.Faults[faultDelay]++
		at += w.rng.Int64N(int64(400 * time.Millisecond))
	}
	at = max(at, c.pipes[to.index])
	c.pipes[to.index] = at
	w.at(at, evPacket, to, 0, k)
	if w.faulty && w.chance(w.faults.dup) {
		w.counts.Faults[faultDup]++
		c.pipes[to.index] = at + w.rng.Int64N(int64(3*time.Millisecond))
		w.at(c.pipes[to.index], evPacket, to, 0, k)
	}
	if w.faulty && w.chance(w.faults.replay) {
		held := *k
		held.held = true
		w.at(w.soon(3*time.Second), evReplay, to, 0, &held)
	}
}
