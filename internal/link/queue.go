package link

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/internal/wire"
)

// Send queues a message. It keeps neither e, whose target is set, nor its memory. until is the
// deadline of its fate: 0 for the default, Never for the life of the link. An error means that the
// message was not queued; after QueueFull, EffectRoom signals the time to try again. An answer is
// never refused for want of room (DEL-6).
func (snd *sender) Send(now Instant, to *Target, e *wire.Envelope, m Mark, until Instant) error {
	return snd.SendWhole(now, to, e, nil, m, until, nil)
}

// Admit returns the reason for a refusal of SendWhole now.
func (snd *sender) Admit(to *Target, e *wire.Envelope) error {
	snd.leave(to.Peer)
	return snd.checkAdmit(to.Peer, e)
}

// SendWhole is Send for a large message that is encoded already. whole is kept; nil for other
// messages. Barrier b is reached when the message has its fate; it may be nil.
func (snd *sender) SendWhole(now Instant, to *Target, e *wire.Envelope, whole *parts, m Mark, until Instant,
	b *Barrier) error {
	p := to.Peer
	o := &p.out
	snd.leave(p)
	if err := snd.checkAdmit(p, e); err != nil {
		return err
	}
	if until == 0 {
		until = (now + Instant(snd.cfg.DefaultDeadline)) | deadlineGrain
	}
	m.To, m.Sender = to, e.Sender
	e.Actor, e.Port = to.Actor, to.Port
	if f := o.openFrame(e); f != nil && len(f.buf)+e.Size() < headroom+snd.packetSize() {
		snd.appendToFrame(now, p, f, e, to, &m, until)
		f.barriers = b.appendTo(f.barriers)
	} else {
		snd.enqueue(p, &message{to: to, envelope: *e, whole: whole, mark: m, until: until, sentAt: now,
			barriers: b.appendTo(nil)})
	}
	if asker, is := m.Call.(Asker); is {
		asker.Asked(snd.resets + 1)
	}
	o.deadline = soonest(o.deadline, until)
	snd.scheduleTick(p, until)
	snd.scheduleSend(p)
	return nil
}

// openFrame returns the frame open for a message; nil if there is none.
func (o *outgoing) openFrame(e *wire.Envelope) *frame {
	if n := len(o.queue); n > 0 && len(o.transfers) == 0 && o.queue[n-1].open &&
		len(o.queue[n-1].buf)+e.Size() <= cap(o.queue[n-1].buf) {
		return o.queue[n-1]
	}
	return nil
}

// appendToFrame adds a message to a frame of the queue.
func (snd *sender) appendToFrame(now Instant, p *Peer, f *frame, e *wire.Envelope, to *Target, m *Mark,
	until Instant) {
	before := f.size()
	ttl := e.TTL
	if ttl > 0 {
		e.TTL = max(ttl+f.age(now), 1) // 0 would be none
	}
	f.add(e, to, m, until)
	e.TTL = ttl
	snd.addQueued(p, f.size()-before)
}

// deadlineGrain rounds up default deadlines (by up to 67 ms), so that consecutive messages share
// one and are stored as one.
const deadlineGrain = 1<<26 - 1

// checkAdmit returns the reason to refuse a message.
func (snd *sender) checkAdmit(p *Peer, e *wire.Envelope) error {
	o := &p.out
	size := e.BodyLen() + len(e.Ext)
	switch {
	case snd.closed != nil:
		return snd.closed
	case p.dead != nil:
		return &Error{Reason: Dead, Text: p.dead.Error(), Err: p.dead}
	case p.evicted:
		return ErrEvicted
	case size > snd.cfg.MaxMessage:
		return &Error{Reason: TooLarge, Text: fmt.Sprintf("the message has %d bytes, want at most %d", size,
			snd.cfg.MaxMessage)}
	case e.Kind == wire.Value || e.Kind == wire.Failure || e.Kind == wire.Bounce:
		return nil
	case o.queuedBytes > 0 &&
		(size > snd.cfg.Outbox || o.queuedBytes-snd.oversizedRest(o)+size > snd.cfg.Outbox):
		o.roomWanted = true
		return &Error{Reason: QueueFull, Text: fmt.Sprintf("%d bytes are queued for %s already",
			o.queuedBytes, p.id)}
	case snd.queuedBytes > 0 && snd.queuedBytes+size > snd.cfg.OutboxAll:
		if !o.crowded {
			o.crowded = true
			snd.outboxWaiters = append(snd.outboxWaiters, p)
		}
		o.roomWanted = true
		return &Error{Reason: QueueFull, Text: fmt.Sprintf("%d bytes are queued for all processes already",
			snd.queuedBytes)}
	}
	return nil
}

// oversizedRest is the unsent rest of a message larger than the Outbox. Only one may be queued, in
// addition.
func (snd *sender) oversizedRest(o *outgoing) int {
	for _, t := range o.transfers {
		if t.whole.total > snd.cfg.Outbox {
			return t.whole.total - t.sent
		}
	}
	return 0
}

// enqueue puts a message in its place: behind an unfinished larger one of the same sender for the
// same actor (LINK-9).
func (snd *sender) enqueue(p *Peer, m *message) {
	o := &p.out
	e := &m.envelope
	if t := o.transferAhead(m.to, e.Sender); t != nil {
		own := *m
		own.envelope.Bytes = false
		own.envelope.Body = nil
		if m.whole == nil {
			own.envelope.Body = e.CopyBody()
		}
		own.envelope.Ext = bytes.Clone(e.Ext)
		t.followers = append(t.followers, own)
		snd.addQueued(p, own.size())
		return
	}
	if m.whole != nil || e.BodyLen()+len(e.Ext) > snd.chunkSize() {
		snd.startTransfer(p, m)
		return
	}
	var f *frame
	if n := len(o.queue); n > 0 && o.queue[n-1].open &&
		o.queue[n-1].size()+e.BodyLen()+len(e.Ext) < snd.packetSize() {
		f = o.queue[n-1]
	} else {
		f = newFrame(m.sentAt, m.to)
		snd.push(p, f)
	}
	snd.growFrame(f, e.Size())
	snd.appendToFrame(m.sentAt, p, f, e, m.to, &m.mark, m.until)
	f.barriers = append(f.barriers, m.barriers...)
}

// push queues a frame.
func (snd *sender) push(p *Peer, f *frame) {
	p.out.frameCount++
	f.serial = p.out.frameCount
	p.out.queue = append(p.out.queue, f)
}

// startTransfer queues a message that leaves in parts.
func (snd *sender) startTransfer(p *Peer, m *message) {
	o := &p.out
	if m.whole == nil {
		m.whole = encodeParts(m.to, &m.envelope, snd.chunkSize())
	}
	if m.whole.id == 0 { // else another member of its cast has it
		snd.chunkIDs++
		m.whole.id = snd.chunkIDs
	}
	t := &transfer{
		to: m.to, sender: m.envelope.Sender, whole: m.whole,
		afterFrame: o.frameCount, mark: m.mark, until: m.until, createdAt: m.sentAt, barriers: m.barriers,
	}
	t.share()
	o.transfers = append(o.transfers, t)
	snd.addQueued(p, t.whole.total)
}

// transferAhead returns the transfer that a message must not overtake.
func (o *outgoing) transferAhead(to *Target, sender string) *transfer {
	for i := len(o.transfers) - 1; i >= 0; i-- {
		if t := o.transfers[i]; sameName(t.to.Actor, to.Actor) && t.sender == sender {
			return t
		}
	}
	return nil
}

// sameName reports whether actors have one name, in whichever procs of their process: a cast is for
// all of them.
func sameName(a, b string) bool {
	return a[strings.IndexByte(a, '!')+1:] == b[strings.IndexByte(b, '!')+1:]
}

// packetSize and chunkSize are the configured sizes, within the bus's limit.
func (snd *sender) packetSize() int { return max(1, min(snd.cfg.PacketSize, snd.limit-headMargin)) }
func (snd *sender) chunkSize() int  { return max(1, min(snd.cfg.ChunkSize, snd.limit-headMargin)) }

// chunksInFlight is the configured number of parts, or more where the bus's limit makes them
// smaller: the receiver acknowledges a number of bytes at once.
func (snd *sender) chunksInFlight() int {
	size := snd.chunkSize()
	return (snd.cfg.ChunksInFlight*snd.cfg.ChunkSize + size - 1) / size
}

// headMargin is the space for a head, and for an envelope besides its body.
const headMargin = 4 << 10

func (snd *sender) addQueued(p *Peer, n int) {
	p.out.queuedBytes += n
	snd.queuedBytes += n
}

// removeQueued subtracts queued bytes, and wakes senders waiting for room.
func (snd *sender) removeQueued(p *Peer, n int) {
	snd.addQueued(p, -n)
	snd.signalRoom(p)
	for _, q := range snd.outboxWaiters {
		q.out.crowded = false
		snd.signalRoom(q)
	}
	clear(snd.outboxWaiters)
	snd.outboxWaiters = snd.outboxWaiters[:0]
}

// signalRoom wakes senders waiting for room to a peer.
func (snd *sender) signalRoom(p *Peer) {
	if p.out.roomWanted {
		p.out.roomWanted = false
		snd.addEffect(Effect{Kind: EffectRoom, Peer: p})
	}
}

// scheduleSend lets a peer's queue go on.
func (snd *sender) scheduleSend(p *Peer) {
	if !p.inTurn && !p.out.idleQueue() {
		p.inTurn = true
		snd.sendTurn = append(snd.sendTurn, p)
	}
}

// Next returns the next packet for the data connection; false if there is none now. Publish packets
// in the order of Next (LINK-1). A packet's memory is valid until the next call.
func (snd *sender) Next(now Instant) (Publish, bool) {
	for snd.connected {
		for len(snd.ready) == 0 && len(snd.sendTurn) > 0 {
			p := snd.sendTurn[0]
			snd.sendTurn = snd.sendTurn[1:]
			p.inTurn = false
			if snd.sendNext(now, p) {
				snd.scheduleSend(p)
			}
		}
		if len(snd.ready) == 0 {
			break
		}
		next := snd.popReady()
		if !next.resend {
			snd.setPublishing(next.frame)
			return next, true
		}
		if all := snd.nextResend(now, next.To); len(all) > 0 {
			snd.ready = slices.Insert(snd.ready, 0, all[1:]...)
			snd.setPublishing(nil)
			return all[0], true
		}
	}
	snd.setPublishing(nil)
	return Publish{}, false
}

// popReady takes the first ready packet.
func (snd *sender) popReady() Publish {
	next := snd.ready[0]
	snd.ready[0] = Publish{}
	snd.ready = snd.ready[1:]
	if len(snd.ready) == 0 {
		snd.ready = nil
	}
	return next
}

// setPublishing records the frame being published; the one before is free.
func (snd *sender) setPublishing(f *frame) {
	if snd.publishing != nil {
		snd.publishing.publishers--
	}
	snd.publishing = f
}

// HasPending reports whether Next has something to look at.
func (snd *sender) HasPending() bool {
	return snd.connected && (len(snd.ready) > 0 || len(snd.sendTurn) > 0)
}

// sendNext makes one packet of a peer's queue ready; false when none may leave now.
func (snd *sender) sendNext(now Instant, p *Peer) bool {
	o := &p.out
	if t := snd.nextTransfer(now, o); t != nil {
		return snd.sendPart(now, p, t)
	}
	for len(o.queue) > 0 {
		f := snd.expireQueued(now, p, o.queue[0])
		o.queue[0] = f
		if f == nil {
			o.queue = o.queue[1:]
			continue
		}
		if !o.hasCredit(f.windowCost()) {
			snd.requestAck(now, p)
			return false
		}
		o.queue[0] = nil
		o.queue = o.queue[1:]
		o.partNext = true
		snd.removeQueued(p, f.size())
		snd.publish(now, p, f)
		return true
	}
	return false
}

// expireQueued ends unsent messages past their deadline, and returns the frame with the others; nil
// if none is left.
func (snd *sender) expireQueued(now Instant, p *Peer, f *frame) *frame {
	if f.until == 0 || f.until > now {
		return f
	}
	before := f.size()
	for i := range f.fates {
		if o := &f.fates[i]; !o.settled && o.until <= now {
			snd.emitFate(p, o, o.count, Fate{Known: true, Reason: Expired, Text: expiredText})
			o.settled = true
		}
	}
	rest := f.withoutSettled()
	if rest == nil {
		snd.removeQueued(p, before)
		releaseBarriers(f.barriers)
		return nil
	}
	snd.removeQueued(p, before-rest.size())
	return rest
}
