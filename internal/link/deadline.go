package link

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// tickOut does the due work on the link to a peer, and returns the time of the next.
func (snd *sender) tickOut(now Instant, p *Peer) (next Instant) {
	snd.catchUp(p)
	o := &p.out
	if snd.connected && o.awaitsAck() {
		silent := max(snd.silenceDeadline(p), o.awaitingSince+Instant(snd.cfg.SilenceTimeout))
		if silent <= now {
			snd.resetOutgoing(p, LinkReset, fmt.Sprintf("%s was silent for %s", p.id,
				time.Duration(now-max(p.lastHeard, o.awaitingSince)).Round(time.Millisecond)))
			return 0
		}
		if o.probeAt <= now {
			snd.probe(now, p)
		}
		next = soonest(soonest(o.probeAt, silent), snd.suspected(now, p))
	}
	if o.deadline != 0 && o.deadline <= now {
		o.deadline = 0
		o.deadline = soonest(snd.expireSent(now, p), snd.expireWaiting(now, p))
	}
	for _, t := range o.transfers {
		if t.cast == nil {
			continue
		}
		if t.cast.until > now {
			next = soonest(next, t.cast.until)
		} else {
			snd.scheduleSend(p)
		}
	}
	return soonest(next, o.deadline)
}

// queryTimeout is the time for the receiver's answer to a fate query.
func (snd *sender) queryTimeout(o *outgoing) Instant {
	return Instant(max(2*snd.rto(o), 4*snd.cfg.MinRTO))
}

// expireSent queries the fates of messages past their deadline. If the receiver does not answer,
// they become indeterminate (LINK-8).
func (snd *sender) expireSent(now Instant, p *Peer) (next Instant) {
	o := &p.out
	patience := snd.queryTimeout(o)
	for i := range o.sent {
		it := &o.sent[i]
		switch {
		case it.frame.until == 0:
		case it.frame.until > now:
			next = soonest(next, it.frame.until)
		case it.frame.subject != "":
			next = soonest(next, snd.expireCast(now, p, it, patience))
		default:
			next = soonest(next, snd.expireFrame(now, p, it, patience))
		}
	}
	return next
}

// expireFrame is expireSent for a packet to one peer.
func (snd *sender) expireFrame(now Instant, p *Peer, it *sentPacket, patience Instant) (next Instant) {
	var ask []int
	for i := range it.frame.fates {
		w := &it.frame.fates[i]
		switch {
		case w.settled:
		case w.queriedAt == 0 && w.until <= now:
			w.queriedAt = now
			ask = append(ask, w.first, w.count)
		case w.queriedAt != 0 && w.queriedAt+patience <= now:
			snd.emitFate(p, w, w.count, Fate{Reason: Expired, Text: unknownText})
			w.settled = true
		}
	}
	if len(ask) > 0 {
		snd.emitControl(p, wire.FateQuery, wire.FateQueryBody{Seq: it.seq, Indexes: ask})
	}
	it.releaseBarriers()
	return it.frame.nextDeadline(patience)
}

// expireCast is expireSent for one link of a cast.
func (snd *sender) expireCast(now Instant, p *Peer, it *sentPacket, patience Instant) (next Instant) {
	switch {
	case it.fateKnown:
		return 0
	case it.queriedAt == 0:
		it.queriedAt = now
		snd.emitControl(p, wire.FateQuery, wire.FateQueryBody{Seq: it.seq, Indexes: []int{0, 1}})
	case it.queriedAt+patience <= now:
		snd.setFate(p, it, 0, 1, Fate{Reason: Expired, Text: unknownText})
		it.releaseBarriers()
		return 0
	}
	return it.queriedAt + patience
}

// expireWaiting ends messages still queued past their deadline, and returns the next deadline.
func (snd *sender) expireWaiting(now Instant, p *Peer) (next Instant) {
	o := &p.out
	kept := o.queue[:0]
	for _, f := range o.queue {
		f = snd.expireQueued(now, p, f)
		if f != nil {
			kept = append(kept, f)
			next = soonest(next, f.until)
		}
	}
	clear(o.queue[len(kept):])
	o.queue = kept
	for i := 0; i < len(o.transfers); {
		t := o.transfers[i]
		next = soonest(next, snd.expireFollowers(now, p, t))
		if t.until <= now {
			snd.expireTransfer(p, t) // a waiting follower may be a transfer now, later in the list
			continue
		}
		next = soonest(next, t.until)
		i++
	}
	for _, f := range o.queue { // and other released messages are queued
		next = soonest(next, f.until)
	}
	snd.scheduleSend(p)
	return next
}
