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
func (c *Core) Send(now Instant, to *Target, e *wire.Envelope, m Mark, until Instant) error {
	return c.SendWhole(now, to, e, nil, m, until, nil)
}

// SendWhole is Send for a large message already encoded by EncodeWhole. whole is kept; nil for
// other messages. Barrier b is reached when the message has its fate; it may be nil.
func (c *Core) SendWhole(now Instant, to *Target, e *wire.Envelope, whole []byte, m Mark, until Instant,
	b *Barrier) error {
	p := to.Peer
	o := &p.out
	c.leave(p)
	if err := c.checkAdmit(p, e); err != nil {
		return err
	}
	if until == 0 {
		until = (now + Instant(c.cfg.DefaultDeadline)) | deadlineGrain
	}
	m.To, m.Sender = to, e.Sender
	e.Actor, e.Port = to.Actor, to.Port
	if f := o.openFrame(e); f != nil && len(f.buf)+e.Size() < headroom+c.packetSize() {
		c.appendToFrame(now, p, f, e, to, &m, until)
		f.barriers = b.appendTo(f.barriers)
	} else {
		c.enqueue(p, &message{to: to, envelope: *e, whole: whole, mark: m, until: until, sentAt: now,
			barriers: b.appendTo(nil)})
	}
	if asker, is := m.Call.(Asker); is {
		asker.Asked(c.resets + 1)
	}
	o.deadline = soonest(o.deadline, until)
	c.scheduleTick(p, until)
	c.scheduleSend(p)
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
func (c *Core) appendToFrame(now Instant, p *Peer, f *frame, e *wire.Envelope, to *Target, m *Mark,
	until Instant) {
	before := f.size()
	ttl := e.TTL
	if ttl > 0 {
		e.TTL = max(ttl+f.age(now), 1) // 0 would be none
	}
	f.add(e, to, m, until)
	e.TTL = ttl
	c.addQueued(p, f.size()-before)
}

// deadlineGrain rounds up default deadlines (by up to 67 ms), so that consecutive messages share
// one and are stored as one.
const deadlineGrain = 1<<26 - 1

// checkAdmit returns the reason to refuse a message.
func (c *Core) checkAdmit(p *Peer, e *wire.Envelope) error {
	o := &p.out
	size := e.BodyLen() + len(e.Ext)
	switch {
	case c.closed != nil:
		return c.closed
	case p.dead != nil:
		return &Error{Reason: Dead, Text: p.dead.Error(), Err: p.dead}
	case p.evicted:
		return ErrEvicted
	case size > c.cfg.MaxMessage:
		return &Error{Reason: TooLarge, Text: fmt.Sprintf("the message has %d bytes, want at most %d", size,
			c.cfg.MaxMessage)}
	case e.Kind == wire.Value || e.Kind == wire.Failure || e.Kind == wire.Bounce:
		return nil
	case o.queuedBytes > 0 && (size > c.cfg.Outbox || o.queuedBytes-c.oversizedRest(o)+size > c.cfg.Outbox):
		o.roomWanted = true
		return &Error{Reason: QueueFull, Text: fmt.Sprintf("%d bytes are queued for %s already",
			o.queuedBytes, p.id)}
	case c.queuedBytes > 0 && c.queuedBytes+size > c.cfg.OutboxAll:
		if !o.crowded {
			o.crowded = true
			c.outboxWaiters = append(c.outboxWaiters, p)
		}
		o.roomWanted = true
		return &Error{Reason: QueueFull, Text: fmt.Sprintf("%d bytes are queued for all processes already",
			c.queuedBytes)}
	}
	return nil
}

// oversizedRest is the unsent rest of a message larger than the Outbox. Only one may be queued, in
// addition.
func (c *Core) oversizedRest(o *outgoing) int {
	for _, t := range o.transfers {
		if len(t.encoded) > c.cfg.Outbox {
			return len(t.encoded) - t.sent
		}
	}
	return 0
}

// enqueue puts a message in its place: behind an unfinished larger one of the same sender for the
// same actor (LINK-9).
func (c *Core) enqueue(p *Peer, m *message) {
	o := &p.out
	e := &m.envelope
	if t := o.transferAhead(m.to, e.Sender); t != nil {
		own := *m
		own.envelope.Bytes = false
		own.envelope.Body = e.CopyBody()
		own.envelope.Ext = bytes.Clone(e.Ext)
		t.followers = append(t.followers, own)
		c.addQueued(p, own.size())
		return
	}
	if e.BodyLen()+len(e.Ext) > c.chunkSize() {
		c.startTransfer(p, m)
		return
	}
	var f *frame
	if n := len(o.queue); n > 0 && o.queue[n-1].open &&
		o.queue[n-1].size()+e.BodyLen()+len(e.Ext) < c.packetSize() {
		f = o.queue[n-1]
	} else {
		f = newFrame(m.sentAt, m.to)
		c.push(p, f)
	}
	c.growFrame(f, e.Size())
	c.appendToFrame(m.sentAt, p, f, e, m.to, &m.mark, m.until)
	f.barriers = append(f.barriers, m.barriers...)
}

// push queues a frame.
func (c *Core) push(p *Peer, f *frame) {
	p.out.frameCount++
	f.serial = p.out.frameCount
	p.out.queue = append(p.out.queue, f)
}

// EncodeWhole encodes a message that leaves in parts.
func EncodeWhole(to *Target, e *wire.Envelope) []byte {
	e.Actor, e.Port = to.Actor, to.Port
	return e.Append(make([]byte, 0, e.Size()), false)
}

// startTransfer queues a message that leaves in parts.
func (c *Core) startTransfer(p *Peer, m *message) {
	o := &p.out
	o.chunkIDs++
	if m.whole == nil {
		m.whole = EncodeWhole(m.to, &m.envelope)
	}
	t := &transfer{
		id: o.chunkIDs, to: m.to, sender: m.envelope.Sender, encoded: m.whole,
		afterFrame: o.frameCount, mark: m.mark, until: m.until, createdAt: m.sentAt, barriers: m.barriers,
	}
	o.transfers = append(o.transfers, t)
	c.addQueued(p, len(t.encoded))
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
func (c *Core) packetSize() int { return max(1, min(c.cfg.PacketSize, c.limit-headMargin)) }
func (c *Core) chunkSize() int  { return max(1, min(c.cfg.ChunkSize, c.limit-headMargin)) }

// headMargin is the space for a head, and for an envelope besides its body.
const headMargin = 4 << 10

func (c *Core) addQueued(p *Peer, n int) {
	p.out.queuedBytes += n
	c.queuedBytes += n
}

// removeQueued subtracts queued bytes, and wakes senders waiting for room.
func (c *Core) removeQueued(p *Peer, n int) {
	c.addQueued(p, -n)
	c.signalRoom(p)
	for _, q := range c.outboxWaiters {
		q.out.crowded = false
		c.signalRoom(q)
	}
	clear(c.outboxWaiters)
	c.outboxWaiters = c.outboxWaiters[:0]
}

// signalRoom wakes senders waiting for room to a peer.
func (c *Core) signalRoom(p *Peer) {
	if p.out.roomWanted {
		p.out.roomWanted = false
		c.addEffect(Effect{Kind: EffectRoom, Peer: p})
	}
}

// scheduleSend lets a peer's queue go on.
func (c *Core) scheduleSend(p *Peer) {
	if !p.inTurn && !p.out.idleQueue() {
		p.inTurn = true
		c.sendTurn = append(c.sendTurn, p)
	}
}

// Next returns the next packet for the data connection; false if there is none now. Publish packets
// in the order of Next (LINK-1). A packet's memory is valid until the next call.
func (c *Core) Next(now Instant) (Publish, bool) {
	for c.connected {
		for len(c.ready) == 0 && len(c.sendTurn) > 0 {
			p := c.sendTurn[0]
			c.sendTurn = c.sendTurn[1:]
			p.inTurn = false
			if c.sendNext(now, p) {
				c.scheduleSend(p)
			}
		}
		if len(c.ready) == 0 {
			break
		}
		next := c.popReady()
		if !next.resend {
			c.setPublishing(next.frame)
			return next, true
		}
		if all := c.nextResend(now, next.To); len(all) > 0 {
			c.ready = slices.Insert(c.ready, 0, all[1:]...)
			c.setPublishing(nil)
			return all[0], true
		}
	}
	c.setPublishing(nil)
	return Publish{}, false
}

// popReady takes the first ready packet.
func (c *Core) popReady() Publish {
	next := c.ready[0]
	c.ready[0] = Publish{}
	c.ready = c.ready[1:]
	if len(c.ready) == 0 {
		c.ready = nil
	}
	return next
}

// setPublishing records the frame being published; the one before is free.
func (c *Core) setPublishing(f *frame) {
	if c.publishing != nil {
		c.publishing.publishers--
	}
	c.publishing = f
}

// HasPending reports whether Next has something to look at.
func (c *Core) HasPending() bool { return c.connected && (len(c.ready) > 0 || len(c.sendTurn) > 0) }

// sendNext makes one packet of a peer's queue ready; false when none may leave now.
func (c *Core) sendNext(now Instant, p *Peer) bool {
	o := &p.out
	if t := c.nextTransfer(o); t != nil {
		return c.sendPart(now, p, t)
	}
	for len(o.queue) > 0 {
		f := c.expireQueued(now, p, o.queue[0])
		if f == nil {
			o.queue = o.queue[1:]
			continue
		}
		o.queue[0] = f
		if !o.hasCredit(f.windowCost()) {
			c.requestAck(now, p)
			return false
		}
		o.queue[0] = nil
		o.queue = o.queue[1:]
		o.partNext = true
		c.removeQueued(p, f.size())
		c.publish(now, p, f)
		return true
	}
	return false
}

// expireQueued ends unsent messages past their deadline, and returns the frame with the others; nil
// if none is left.
func (c *Core) expireQueued(now Instant, p *Peer, f *frame) *frame {
	if f.until == 0 || f.until > now {
		return f
	}
	before := f.size()
	for i := range f.fates {
		if o := &f.fates[i]; !o.settled && o.until <= now {
			c.emitFate(p, o, o.count, Fate{Known: true, Reason: Expired, Text: expiredText})
			o.settled = true
		}
	}
	rest := f.withoutSettled()
	if rest == nil {
		c.removeQueued(p, before)
		releaseBarriers(f.barriers)
		return nil
	}
	c.removeQueued(p, before-rest.size())
	return rest
}
