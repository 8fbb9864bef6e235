package link

import (
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// If every receiver of a folded cast acknowledged it, there would be many acknowledgements and few
// answers. So the answers stand for the acknowledgements:
//
//	sender                                          receiver
//	cast n ────────────────────────────────────────▶ delivered
//	ReplyReceived ◀─ home ◀─ folded by others ◀──── ReplySent: no acknowledgement is due
//
// A receiver without a timely answer acknowledges; silent ones are probed, as always.

// ackTimeout is the time from which an acknowledgement, or the answer in its place, is late.
func (snd *sender) ackTimeout(o *outgoing) Instant {
	d := snd.rto(o)
	if o.ackDelayed {
		d += snd.cfg.ReplyAckDelay
	}
	return Instant(d)
}

// resetProbeTimer delays the next probe after an acknowledgement.
func (snd *sender) resetProbeTimer(now Instant, p *Peer) {
	p.out.probeInterval = 0
	p.out.probeAt = now + snd.ackTimeout(&p.out)
	snd.scheduleTick(p, p.out.probeAt)
}

// ReplyReceived records the answer of a peer to cast packet n. It stands for the packet's
// acknowledgement, so the packet is not probed for. The packet is kept until the receiver itself
// acknowledges it, because other processes may have passed the answer on (LINK-14).
func (snd *sender) ReplyReceived(now Instant, p *Peer, n uint64) {
	if snd.ignores(p) {
		return
	}
	snd.catchUp(p)
	o := &p.out
	it := o.find(n)
	if it == nil || it.replied || !it.frame.replyAcks || !o.idleQueue() {
		return
	}
	it.replied, it.fateKnown = true, true
	it.releaseBarriers()
	o.repliedPackets++
	if o.ackDelayed {
		snd.resetProbeTimer(now, p)
	}
}

// requestAck probes the receiver even if answers are due: the queue has no credit, and only the
// receiver grants it.
func (snd *sender) requestAck(now Instant, p *Peer) {
	o := &p.out
	if o.repliedPackets == 0 && !o.ackDelayed {
		return
	}
	for i := range o.sent {
		o.sent[i].replied = false
	}
	o.repliedPackets = 0
	o.ackDelayed = false
	o.awaitingSince = now
	o.probeInterval = 0
	snd.probe(now, p)
}

// delayAck is scheduleAck for casts whose answers may come before.
func (rcv *receiver) delayAck(p *Peer, at Instant) {
	if p.in.ackAt == 0 {
		p.in.ackAt = at
		p.in.ackDelayed = true
		rcv.scheduleTick(p, at)
	}
}

// ReplySent records that the answer to cast packet n was sent, in place of an acknowledgement.
func (rcv *receiver) ReplySent(p *Peer, n uint64) {
	in := &p.in
	if i := slices.Index(in.pendingReplies, n); i >= 0 {
		in.pendingReplies = slices.Delete(in.pendingReplies, i, i+1)
	}
	if len(in.pendingReplies) == 0 && in.ackDelayed {
		in.ackAt = 0
		in.ackDelayed = false
	}
}

// ReplyReceived records answers of a group's members to cast packet n. See Core.ReplyReceived.
func (l *Links) ReplyReceived(g *Group, n uint64, members []int) {
	l.withCore(func(now Instant) {
		for _, i := range members {
			l.core.ReplyReceived(now, g.members[i].to.Peer, n)
		}
	})
}

// ReplySent records that the answer to packet n of a process was sent. See Core.ReplySent.
func (l *Links) ReplySent(from subjects.ProcessID, n uint64) {
	l.withCore(func(Instant) {
		if p := l.core.Lookup(from); p != nil {
			l.core.ReplySent(p, n)
		}
	})
}
