package link

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/internal/wire"
)

// Send queues a message. e, whose target is set, is not kept, nor is what it refers to. until is when its
// fate must be known; 0 stands for the default, and Never for as long as the link is there. An error says that it was not queued; with Full, Room
// says when it may be tried again. An answer is never refused for want of room (DEL-7).
func (c *Core) Send(now Instant, to *Target, e *wire.Envelope, m Mark, until Instant) error {
	return c.SendWhole(now, to, e, nil, m, until, nil)
}

// SendWhole is Send for a message that was written already, as Whole does, when it is so large that it
// leaves in parts: then whole is kept. Nil for others. b is reached when the message has its fate; it may be nil.
func (c *Core) SendWhole(now Instant, to *Target, e *wire.Envelope, whole []byte, m Mark, until Instant, b *Barrier) error {
	p := to.Peer
	o := &p.out
	c.part(p)
	if err := c.admits(now, p, e); err != nil {
		return err
	}
	if e.Wait {
		o.waitUsed += waitCost(e)
	}
	if until == 0 {
		until = (now + Instant(c.cfg.Deadline)) | deadlineGrain
	}
	m.To, m.Sender = to, e.Sender
	e.Actor, e.Port = to.Actor, to.Port
	if f := o.roomy(e); f != nil && len(f.buf)+e.Size() < headroom+c.packetSize() {
		c.append(now, p, f, e, to, &m, until)
		f.waiting = b.among(f.waiting)
	} else {
		c.enqueue(p, &message{to: to, env: *e, whole: whole, mark: m, until: until, at: now, waiting: b.among(nil)})
	}
	if asker, is := m.Call.(Asker); is {
		asker.Asked(c.breaks + 1)
	}
	o.deadline = soonest(o.deadline, until)
	c.watch(p, until)
	c.toTurn(p)
	return nil
}

// roomy is the frame that a message joins without further ado; nil: there is none.
func (o *outgoing) roomy(e *wire.Envelope) *frame {
	if n := len(o.queue); n > 0 && len(o.transfers) == 0 && o.queue[n-1].open && len(o.queue[n-1].buf)+e.Size() <= cap(o.queue[n-1].buf) {
		return o.queue[n-1]
	}
	return nil
}

// append adds a message to a frame of the queue.
func (c *Core) append(now Instant, p *Peer, f *frame, e *wire.Envelope, to *Target, m *Mark, until Instant) {
	before, ttl := f.size(), e.TTL
	if ttl > 0 {
		e.TTL = max(ttl+f.age(now), 1) // 0 would be none
	}
	f.add(e, to, m, until)
	e.TTL = ttl
	c.grow(p, f.size()-before)
}

// deadlineGrain rounds up the deadlines of messages that have none of their own (by up to 67 ms), so
// that those sent one after the other have the same, and are kept as one.
const deadlineGrain = 1<<26 - 1

// waitCost is what a message that waits for room counts for; one that comes in parts is counted whole,
// by its last part.
func waitCost(e *wire.Envelope) uint64 {
	if e.Kind != wire.Chunk {
		return uint64(e.Len() + messageCost)
	}
	of, err := wire.DecodeChunk(e.Ext, len(e.Body))
	if err != nil {
		return 0
	}
	return uint64(of.Total)
}

// unwait takes back what a message that never leaves counts for.
func (o *outgoing) unwait(e *wire.Envelope) {
	if e.Wait {
		o.waitUsed -= waitCost(e)
	}
}

// admits says why a message cannot be queued.
func (c *Core) admits(now Instant, p *Peer, e *wire.Envelope) error {
	o, size := &p.out, e.Len()+len(e.Ext)
	waits := o.waits()
	switch {
	case c.closed != nil:
		return c.closed
	case p.dead != nil:
		return &Error{Reason: Dead, Text: p.dead.Error(), Err: p.dead}
	case p.evicted:
		return ErrForgotten
	case size > c.cfg.MaxMessage:
		return &Error{Reason: TooLarge, Text: fmt.Sprintf("the message has %d bytes, at most %d are taken", size, c.cfg.MaxMessage)}
	case e.Kind == wire.Value || e.Kind == wire.Failure || e.Kind == wire.Bounce:
		return nil
	case o.size > 0 && (size > c.cfg.Outbox || o.size-c.beside(o)+size > c.cfg.Outbox):
		c.want(now, p)
		return &Error{Reason: Full, Text: fmt.Sprintf("%d bytes wait for %s already", o.size, p.id)}
	case c.queued > 0 && c.queued+size > c.cfg.OutboxAll:
		if !o.crowded {
			o.crowded = true
			c.crowd = append(c.crowd, p)
		}
		c.want(now, p)
		return &Error{Reason: Full, Text: fmt.Sprintf("%d bytes wait for all processes already", c.queued)}
	case e.Wait && o.start == 0 && o.waitUsed == 0: // its receiver says nothing of a link that was not opened
		return nil
	case e.Wait && waits > 0 && waits+waitCost(e) > uint64(c.cfg.WaitWindow):
		c.want(now, p)
		return &Error{Reason: Full, Text: fmt.Sprintf("%d bytes of messages to %s wait for room there already", waits, p.id)}
	}
	return nil
}

// beside is what of a larger message than the Outbox still waits: it is the one that may, besides.
func (c *Core) beside(o *outgoing) int {
	for _, t := range o.transfers {
		if len(t.env) > c.cfg.Outbox {
			return len(t.env) - t.at
		}
	}
	return 0
}

// waits is how much of messages that wait for room is not known to be taken up.
func (o *outgoing) waits() uint64 { return o.former + o.waitUsed - min(o.waitTaken, o.waitUsed) }

// want notes that somebody waits for room, and sees to it that the receiver is asked what it has taken
// up: it says so only once.
func (c *Core) want(now Instant, p *Peer) {
	o := &p.out
	asked := o.asks()
	o.wanted = true
	if !asked && o.asks() {
		o.since, o.beatGap = now, 0
		o.beatAt = now + Instant(c.rto(o))
		c.watch(p, o.beatAt)
	}
}

// enqueue puts a message where its order is kept: behind a larger one of the same sender for the same
// actor, when that is still leaving (LINK-9).
func (c *Core) enqueue(p *Peer, m *message) {
	o := &p.out
	e := &m.env
	if t := o.ahead(m.to, e.Sender); t != nil {
		own := *m
		own.env.Bytes, own.env.Body, own.env.Ext = false, e.Whole(), bytes.Clone(e.Ext)
		t.followers = append(t.followers, own)
		c.grow(p, own.size())
		return
	}
	if e.Len()+len(e.Ext) > c.chunkSize() {
		c.transfer(p, m)
		return
	}
	var f *frame
	if n := len(o.queue); n > 0 && o.queue[n-1].open && o.queue[n-1].size()+e.Len()+len(e.Ext) < c.packetSize() {
		f = o.queue[n-1]
	} else {
		f = newFrame(m.at, m.to)
		c.push(p, f)
	}
	c.enlarge(f, e.Size())
	c.append(m.at, p, f, e, m.to, &m.mark, m.until)
	f.waiting = append(f.waiting, m.waiting...)
}

// push queues a frame.
func (c *Core) push(p *Peer, f *frame) {
	p.out.frames++
	f.serial = p.out.frames
	p.out.queue = append(p.out.queue, f)
}

// Whole writes a message that leaves in parts.
func Whole(to *Target, e *wire.Envelope) []byte {
	e.Actor, e.Port = to.Actor, to.Port
	return e.Append(make([]byte, 0, e.Size()), false)
}

// transfer queues a message that leaves in parts.
func (c *Core) transfer(p *Peer, m *message) {
	o := &p.out
	o.chunks++
	if m.whole == nil {
		m.whole = Whole(m.to, &m.env)
	}
	t := &transfer{
		id: o.chunks, to: m.to, sender: m.env.Sender, env: m.whole,
		after: o.frames, mark: m.mark, until: m.until, made: m.at, waiting: m.waiting,
	}
	if m.env.Wait {
		t.wait = uint64(len(t.env))
		o.waitUsed += t.wait - waitCost(&m.env)
	}
	o.transfers = append(o.transfers, t)
	c.grow(p, len(t.env))
}

// ahead is the transfer that a message must not overtake.
func (o *outgoing) ahead(to *Target, sender string) *transfer {
	for i := len(o.transfers) - 1; i >= 0; i-- {
		if t := o.transfers[i]; sameName(t.to.Actor, to.Actor) && t.sender == sender {
			return t
		}
	}
	return nil
}

// sameName reports whether actors have one name, in whichever procs of their process: a cast is for all of them.
func sameName(a, b string) bool {
	return a[strings.IndexByte(a, '!')+1:] == b[strings.IndexByte(b, '!')+1:]
}

// packetSize and chunkSize are what the bus takes, at most what was configured.
func (c *Core) packetSize() int { return max(1, min(c.cfg.PacketSize, c.limit-margin)) }
func (c *Core) chunkSize() int  { return max(1, min(c.cfg.ChunkSize, c.limit-margin)) }

// margin is room for a head, and for what an envelope has besides its body.
const margin = 4 << 10

func (c *Core) grow(p *Peer, n int) {
	p.out.size += n
	c.queued += n
}

// shrink is the end of bytes that waited, and lets those look again who wait for room.
func (c *Core) shrink(p *Peer, n int) {
	c.grow(p, -n)
	c.roomFor(p)
	for _, q := range c.crowd {
		q.out.crowded = false
		c.roomFor(q)
	}
	clear(c.crowd)
	c.crowd = c.crowd[:0]
}

// roomFor tells who waits for room to a peer.
func (c *Core) roomFor(p *Peer) {
	if p.out.wanted {
		p.out.wanted = false
		c.do(Effect{Kind: Room, Peer: p})
	}
}

// toTurn lets a peer's queue go on.
func (c *Core) toTurn(p *Peer) {
	if !p.inTurn && !p.out.idleQueue() {
		p.inTurn = true
		c.turn = append(c.turn, p)
	}
}

// Next returns the next packet for the data connection; false when there is none now. Packets must be
// published in the order in which they are returned (LINK-1). The memory of one is its publisher's until he asks
// for the next.
func (c *Core) Next(now Instant) (Publish, bool) {
	for c.up {
		for len(c.ready) == 0 && len(c.turn) > 0 {
			p := c.turn[0]
			c.turn = c.turn[1:]
			p.inTurn = false
			if c.leave(now, p) {
				c.toTurn(p)
			}
		}
		if len(c.ready) == 0 {
			break
		}
		next := c.pop()
		if !next.again {
			c.hold(next.frame)
			return next, true
		}
		if all := c.leaveAgain(now, next.To); len(all) > 0 {
			c.ready = slices.Insert(c.ready, 0, all[1:]...)
			c.hold(nil)
			return all[0], true
		}
	}
	c.hold(nil)
	return Publish{}, false
}

// pop takes the first packet that is ready.
func (c *Core) pop() Publish {
	next := c.ready[0]
	c.ready[0] = Publish{}
	if c.ready = c.ready[1:]; len(c.ready) == 0 {
		c.ready = nil
	}
	return next
}

// hold notes whose memory is being published; that of the packet before is free.
func (c *Core) hold(f *frame) {
	if c.inHand != nil {
		c.inHand.lent--
	}
	c.inHand = f
}

// Waiting reports whether Next has something to look at.
func (c *Core) Waiting() bool { return c.up && (len(c.ready) > 0 || len(c.turn) > 0) }

// leave makes one packet of a peer's queue ready; false when none may leave now.
func (c *Core) leave(now Instant, p *Peer) bool {
	o := &p.out
	if t := c.partOf(o); t != nil {
		return c.leavePart(now, p, t)
	}
	for len(o.queue) > 0 {
		f := c.expireQueued(now, p, o.queue[0])
		if f == nil {
			o.queue = o.queue[1:]
			continue
		}
		o.queue[0] = f
		if !o.credit(f.cost()) {
			c.press(now, p)
			return false
		}
		o.queue[0] = nil
		o.queue = o.queue[1:]
		o.partNext = true
		c.shrink(p, f.size())
		c.publish(now, p, f)
		return true
	}
	return false
}

// expireQueued tells messages that have not left that their time is over, and returns the frame with
// the others; nil when there are none.
func (c *Core) expireQueued(now Instant, p *Peer, f *frame) *frame {
	if f.until == 0 || f.until > now {
		return f
	}
	before := f.size()
	for i := range f.owed {
		if o := &f.owed[i]; !o.told && o.until <= now {
			c.tell(p, o, o.count, Fate{Known: true, Reason: Expired, Text: expiredText})
			o.told = true
		}
	}
	rest := f.without(p.out.unwait)
	if rest == nil {
		c.shrink(p, before)
		pass(f.waiting)
		return nil
	}
	c.shrink(p, before-rest.size())
	return rest
}
