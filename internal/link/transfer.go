package link

import (
	"github.com/castnet-io/castnet/internal/wire"
)

// transfer is a message that is larger than a packet. It leaves in parts; what its sender has for the
// same actor after it waits behind it, and all others overtake it (LINK-9).
type transfer struct {
	id        uint64
	to        *Target
	sender    string
	env       []byte // the envelope
	at        int    // of which so much has left
	after     uint64 // the last frame that was queued before it: its last part leaves after that
	wait      uint64 // what it counts for when it waits for room
	flying    int    // parts that are not acknowledged
	mark      Mark
	until     Instant
	made      Instant
	followers []message
	waiting   []*Barrier
}

// message is one that is queued, or waits behind a transfer.
type message struct {
	to      *Target
	env     wire.Envelope
	whole   []byte // it, written, when it is to leave in parts; nil: not yet
	mark    Mark
	until   Instant
	at      Instant // when it was sent: what its remaining time counts from
	waiting []*Barrier
}

func (m *message) size() int { return m.env.Len() + len(m.env.Ext) + messageCost }

// partSize is how much of a transfer leaves next: a window has room for some parts.
func (c *Core) partSize(o *outgoing, t *transfer) int {
	size := c.chunkSize()
	if o.start != 0 {
		size = max(1, min(size, int(o.window/4)))
	}
	return min(size, len(t.env)-t.at)
}

// partOf is the transfer whose next part leaves now: transfers take turns with packets, and with each
// other. Its last part must not overtake what was queued before it.
func (c *Core) partOf(o *outgoing) *transfer {
	if len(o.queue) > 0 && !o.partNext {
		return nil
	}
	for i, t := range o.transfers {
		last := t.at+c.partSize(o, t) == len(t.env)
		if t.flying < c.cfg.ChunksOut && !(last && len(o.queue) > 0 && o.queue[0].serial <= t.after) {
			copy(o.transfers[i:], o.transfers[i+1:])
			o.transfers[len(o.transfers)-1] = t
			return t
		}
	}
	return nil
}

// leavePart makes a part of a transfer ready. The last part takes its mark, and what waited behind it
// goes on.
func (c *Core) leavePart(now Instant, p *Peer, t *transfer) bool {
	o := &p.out
	if t.until <= now {
		c.expireTransfer(p, t)
		return true
	}
	size := c.partSize(o, t)
	last := t.at+size == len(t.env)
	f := newFrame(t.made, t.to)
	e := wire.Envelope{
		Kind: wire.Chunk, Wait: last && t.wait > 0, Actor: t.to.Actor, Port: t.to.Port, Sender: t.sender,
		Ext: wire.ChunkOf{ID: t.id, Offset: t.at, Total: len(t.env)}.Append(nil), Body: t.env[t.at : t.at+size],
	}
	f.buf = e.Append(f.buf, false)
	f.count, f.open, f.part = 1, false, t
	if !o.credit(f.cost()) {
		c.press(now, p)
		return false
	}
	t.at += size
	t.flying++
	o.partNext = false
	c.shrink(p, size)
	if last {
		f.owed = []owed{{count: 1, mark: t.mark, until: t.until}}
		f.until, f.waiting = t.until, t.waiting
	}
	c.publish(now, p, f)
	if last {
		c.release(p, t)
	}
	return true
}

// release ends a transfer: what waited behind it is queued.
func (c *Core) release(p *Peer, t *transfer) {
	o := &p.out
	for i := range o.transfers {
		if o.transfers[i] == t {
			o.transfers = append(o.transfers[:i], o.transfers[i+1:]...)
			break
		}
	}
	for i := range t.followers {
		c.shrink(p, t.followers[i].size())
		c.enqueue(p, &t.followers[i])
	}
	t.followers = nil
}

// expireTransfer gives a message up that has not left whole, and lets what waits behind it go on.
func (c *Core) expireTransfer(p *Peer, t *transfer) {
	c.tell(p, &owed{mark: t.mark}, 1, Fate{Known: true, Reason: Expired, Text: expiredText})
	pass(t.waiting)
	p.out.waitUsed -= t.wait
	c.shrink(p, len(t.env)-t.at)
	if t.at > 0 {
		c.abandon(p, t)
	}
	c.release(p, t)
}

// abandon tells the receiver that the rest of a transfer does not come.
func (c *Core) abandon(p *Peer, t *transfer) {
	f := newFrame(t.made, t.to)
	e := wire.Envelope{
		Kind: wire.Chunk, Actor: t.to.Actor, Port: t.to.Port, Sender: t.sender, Ext: wire.ChunkOf{ID: t.id}.Append(nil),
	}
	f.buf = e.Append(f.buf, false)
	f.count, f.open, f.part = 1, false, t
	t.flying++
	c.push(p, f)
	c.grow(p, f.size())
}

// expireFollowers gives up what waited too long behind a transfer, and says when the next would have.
func (c *Core) expireFollowers(now Instant, p *Peer, t *transfer) (next Instant) {
	kept := t.followers[:0]
	for i := range t.followers {
		w := &t.followers[i]
		if w.until <= now {
			c.tell(p, &owed{mark: w.mark}, 1, Fate{Known: true, Reason: Expired, Text: expiredText})
			pass(w.waiting)
			p.out.unwait(&w.env)
			c.shrink(p, w.size())
			continue
		}
		next = soonest(next, w.until)
		kept = append(kept, *w)
	}
	clear(t.followers[len(kept):])
	t.followers = kept
	return next
}
