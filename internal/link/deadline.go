package link

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// tickOut does what is due on the link to a peer, and says when the next thing is.
func (c *Core) tickOut(now Instant, p *Peer) (next Instant) {
	c.catchUp(p)
	o := &p.out
	if c.up && o.asks() {
		silent := max(c.silent(p), o.since+Instant(c.cfg.Silence))
		switch {
		case silent <= now:
			c.giveUp(p, LinkOver, fmt.Sprintf("%s has said nothing for %s", p.id, time.Duration(now-max(p.heard, o.since)).Round(time.Millisecond)))
			return 0
		case o.beatAt <= now:
			c.beat(now, p)
		}
		next = soonest(o.beatAt, silent)
	}
	if o.deadline != 0 && o.deadline <= now {
		o.deadline = 0
		o.deadline = soonest(c.expireSent(now, p), c.expireWaiting(now, p))
	}
	return soonest(next, o.deadline)
}

// patience is how long the receiver may take to say what became of a message.
func (c *Core) patience(o *outgoing) Instant {
	return Instant(max(2*c.rto(o), 4*c.cfg.MinRTO))
}

// expireSent asks for the fate of messages whose deadline has come, and gives up on those whose
// receiver did not say (LINK-8).
func (c *Core) expireSent(now Instant, p *Peer) (next Instant) {
	o := &p.out
	patience := c.patience(o)
	for i := range o.sent {
		it := &o.sent[i]
		switch {
		case it.f.until == 0:
		case it.f.until > now:
			next = soonest(next, it.f.until)
		case it.f.subject != "":
			next = soonest(next, c.expireCast(now, p, it, patience))
		default:
			next = soonest(next, c.expireFrame(now, p, it, patience))
		}
	}
	return next
}

// expireFrame is expireSent for a packet that went to one.
func (c *Core) expireFrame(now Instant, p *Peer, it *item, patience Instant) (next Instant) {
	var ask []int
	for i := range it.f.owed {
		w := &it.f.owed[i]
		switch {
		case w.told:
		case w.asked == 0 && w.until <= now:
			w.asked = now
			ask = append(ask, w.first, w.count)
		case w.asked != 0 && w.asked+patience <= now:
			c.tell(p, w, w.count, Fate{Reason: Expired, Text: unknownText})
			w.told = true
		}
	}
	if len(ask) > 0 {
		c.control(p, wire.Query, wire.QueryOf{N: it.n, Indexes: ask})
	}
	it.pass()
	return it.f.next(patience)
}

// expireCast is expireSent for one link of a cast.
func (c *Core) expireCast(now Instant, p *Peer, it *item, patience Instant) (next Instant) {
	switch {
	case it.told:
		return 0
	case it.asked == 0:
		it.asked = now
		c.control(p, wire.Query, wire.QueryOf{N: it.n, Indexes: []int{0, 1}})
	case it.asked+patience <= now:
		c.settle(p, it, 0, 1, Fate{Reason: Expired, Text: unknownText})
		it.pass()
		return 0
	}
	return it.asked + patience
}

// expireWaiting gives up messages that have not left within their deadline, and says when the next
// would have.
func (c *Core) expireWaiting(now Instant, p *Peer) (next Instant) {
	o := &p.out
	kept := o.queue[:0]
	for _, f := range o.queue {
		if f = c.expireQueued(now, p, f); f != nil {
			kept = append(kept, f)
			next = soonest(next, f.until)
		}
	}
	clear(o.queue[len(kept):])
	o.queue = kept
	for i := 0; i < len(o.transfers); {
		t := o.transfers[i]
		next = soonest(next, c.expireFollowers(now, p, t))
		if t.until <= now {
			c.expireTransfer(p, t) // what waited behind it may be a transfer now, further on
			continue
		}
		next = soonest(next, t.until)
		i++
	}
	for _, f := range o.queue { // and what else did is queued
		next = soonest(next, f.until)
	}
	c.toTurn(p)
	return next
}
