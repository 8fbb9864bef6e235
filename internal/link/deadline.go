package link

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// tickOut does the due work on the link to a peer, and returns the time of the next.
func (c *Core) tickOut(now Instant, p *Peer) (next Instant) {
	c.catchUp(p)
	o := &p.out
	if c.connected && o.awaitsAck() {
		silent := max(c.silenceDeadline(p), o.awaitingSince+Instant(c.cfg.SilenceTimeout))
		if silent <= now {
			c.resetOutgoing(p, LinkReset, fmt.Sprintf("%s was silent for %s", p.id,
				time.Duration(now-max(p.lastHeard, o.awaitingSince)).Round(time.Millisecond)))
			return 0
		}
		if o.probeAt <= now {
			c.probe(now, p)
		}
		next = soonest(soonest(o.probeAt, silent), c.suspected(now, p))
	}
	if o.deadline != 0 && o.deadline <= now {
		o.deadline = 0
		o.deadline = soonest(c.expireSent(now, p), c.expireWaiting(now, p))
	}
	return soonest(next, o.deadline)
}

// queryTimeout is the time for the receiver's answer to a fate query.
func (c *Core) queryTimeout(o *outgoing) Instant {
	return Instant(max(2*c.rto(o), 4*c.cfg.MinRTO))
}

// expireSent queries the fates of messages past their deadline. If the receiver does not answer,
// they become indeterminate (LINK-8).
func (c *Core) expireSent(now Instant, p *Peer) (next Instant) {
	o := &p.out
	patience := c.queryTimeout(o)
	for i := range o.sent {
		it := &o.sent[i]
		switch {
		case it.frame.until == 0:
		case it.frame.until > now:
			next = soonest(next, it.frame.until)
		case it.frame.subject != "":
			next = soonest(next, c.expireCast(now, p, it, patience))
		default:
			next = soonest(next, c.expireFrame(now, p, it, patience))
		}
	}
	return next
}

// expireFrame is expireSent for a packet to one peer.
func (c *Core) expireFrame(now Instant, p *Peer, it *sentPacket, patience Instant) (next Instant) {
	var ask []int
	for i := range it.frame.fates {
		w := &it.frame.fates[i]
		switch {
		case w.settled:
		case w.queriedAt == 0 && w.until <= now:
			w.queriedAt = now
			ask = append(ask, w.first, w.count)
		case w.queriedAt != 0 && w.queriedAt+patience <= now:
			c.emitFate(p, w, w.count, Fate{Reason: Expired, Text: unknownText})
			w.settled = true
		}
	}
	if len(ask) > 0 {
		c.emitControl(p, wire.FateQuery, wire.FateQueryBody{Seq: it.seq, Indexes: ask})
	}
	it.releaseBarriers()
	return it.frame.nextDeadline(patience)
}

// expireCast is expireSent for one link of a cast.
func (c *Core) expireCast(now Instant, p *Peer, it *sentPacket, patience Instant) (next Instant) {
	switch {
	case it.fateKnown:
		return 0
	case it.queriedAt == 0:
		it.queriedAt = now
		c.emitControl(p, wire.FateQuery, wire.FateQueryBody{Seq: it.seq, Indexes: []int{0, 1}})
	case it.queriedAt+patience <= now:
		c.setFate(p, it, 0, 1, Fate{Reason: Expired, Text: unknownText})
		it.releaseBarriers()
		return 0
	}
	return it.queriedAt + patience
}

// expireWaiting ends messages still queued past their deadline, and returns the next deadline.
func (c *Core) expireWaiting(now Instant, p *Peer) (next Instant) {
	o := &p.out
	kept := o.queue[:0]
	for _, f := range o.queue {
		f = c.expireQueued(now, p, f)
		if f != nil {
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
			c.expireTransfer(p, t) // a waiting follower may be a transfer now, later in the list
			continue
		}
		next = soonest(next, t.until)
		i++
	}
	for _, f := range o.queue { // and other released messages are queued
		next = soonest(next, f.until)
	}
	c.scheduleSend(p)
	return next
}
