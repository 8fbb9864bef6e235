package link

import (
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// sharedCast is a large cast to several members, in parts. Members that keep pace take each part
// from one published packet. A late one gets the rest by itself, and delays no other again
// (LINK-7).
type sharedCast struct {
	subject   string // "": each member gets all parts by itself
	group     *Group
	ext       func(prevs []Run) ([]byte, error)
	transfers map[*Peer]*transfer // of the members that keep pace
	begun     bool
	late      int     // a member that was late at the last look
	until     Instant // how long a part waits for late members; 0: none waits
}

// share lets a transfer leave with those of other members, if none of their parts has left.
func (t *transfer) share() {
	c := t.whole.cast
	if c == nil || c.subject == "" || c.begun {
		return
	}
	if c.transfers == nil {
		c.transfers = map[*Peer]*transfer{}
	}
	c.transfers[t.to.Peer] = t
	t.cast = c
}

// leaveCast lets the rest of a transfer leave by itself.
func (t *transfer) leaveCast() {
	if t.cast != nil {
		delete(t.cast.transfers, t.to.Peer)
		t.cast = nil
	}
}

// awaitsMembers reports whether the next part of a transfer waits for late members of its cast.
func (snd *sender) awaitsMembers(now Instant, t *transfer) bool {
	c := t.cast
	if c == nil || !snd.isReady(t) {
		return false
	}
	for range c.group.members {
		of := c.transfers[c.group.members[c.late].to.Peer]
		if of != nil && snd.hasSmallWindow(of) {
			of.leaveCast()
			of = nil
		}
		if of != nil && !snd.isReady(of) {
			if c.until == 0 {
				c.until = now + Instant(snd.cfg.MinRTO)
			}
			snd.scheduleTick(t.to.Peer, c.until)
			return now < c.until
		}
		c.late = (c.late + 1) % len(c.group.members)
	}
	return false
}

// hasSmallWindow reports whether the receiver takes smaller parts than others.
func (snd *sender) hasSmallWindow(t *transfer) bool {
	o := &t.to.Peer.out
	return o.peerResponded && snd.partSize(o, t) < t.whole.toEnd(t.sent)
}

// isReady reports whether the next part of a transfer may leave with those of other members.
func (snd *sender) isReady(t *transfer) bool {
	o := &t.to.Peer.out
	size := snd.partSize(o, t)
	cost := uint64(size + packetCost + headMargin + castHeadSize(len(t.cast.group.members)))
	return size == t.whole.toEnd(t.sent) && snd.maySendPart(o, t) && o.hasCredit(cost)
}

// sendShared publishes the next part of a transfer for all members that are ready. The others leave
// the cast. false: it is the only one, and leaves it, too.
func (snd *sender) sendShared(now Instant, t *transfer) bool {
	c := t.cast
	c.begun = true
	c.until = 0
	snd.runs = snd.runs[:0]
	for i := range c.group.members {
		of := c.transfers[c.group.members[i].to.Peer]
		if of != nil && !snd.isReady(of) {
			of.leaveCast()
			of = nil
		}
		if of == nil {
			snd.addRun(1, NotIncluded)
			continue
		}
		snd.addRun(1, of.to.Peer.out.castPrev())
	}
	size := t.whole.toEnd(t.sent)
	f := snd.sharedFrame(now, t, size)
	if f == nil {
		for _, of := range c.transfers {
			of.leaveCast()
		}
		return false
	}
	snd.lastSeq++
	snd.stats.Sent += uint64(len(c.transfers))
	f.castPacket = f.packet(wire.Head{Kind: wire.Data, Age: time.Duration(now - t.createdAt), Seq: snd.lastSeq})
	for i := range c.group.members {
		p := c.group.members[i].to.Peer
		of := c.transfers[p]
		if of == nil {
			continue
		}
		last := snd.takePart(p, of, f, size)
		snd.track(now, p, snd.lastSeq, f)
		if last {
			snd.finishTransfer(p, of)
		}
		snd.scheduleSend(p)
	}
	snd.ready = append(snd.ready, Publish{Subject: f.subject, Seq: snd.lastSeq, Data: f.castPacket})
	return true
}

// sharedFrame makes the frame of a part for the members in snd.runs; nil: it would be for one, or
// too large.
func (snd *sender) sharedFrame(now Instant, t *transfer, size int) *frame {
	if len(t.cast.transfers) < 2 {
		return nil
	}
	header, err := t.cast.ext(snd.runs)
	if err != nil {
		return nil
	}
	e := t.chunk(size)
	e.Ext = append(e.Ext, header...)
	if e.Size()+headroom > snd.limit {
		return nil
	}
	f := newFrame(now, t.to)
	f.buf = e.Append(append(make([]byte, 0, headroom+e.Size()), f.buf...), false)
	f.count = 1
	f.open = false
	f.subject = t.cast.subject
	return f
}
