package link

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// Info is the state of the two links between this process and another one.
type Info struct {
	Process subjects.ProcessID

	// numbers of the last packet to it, and of the last it has acknowledged; 0: none
	Sent, Acked   uint64
	InFlight      int           // packets without an acknowledgement
	Waiting       int           // bytes in the queue
	Credit        int64         // bytes that may leave before the next grant
	Packets       uint64        // packets sent, over all openings of the link
	Retransmitted uint64        // packets sent again
	RTT           time.Duration // until an acknowledgement; 0: not known

	Received    uint64 // number of the last delivered packet; 0: none
	Duplicates  uint64 // duplicate packets
	Gaps        uint64 // gaps in the order
	StallReason string // the cause of a stall in either direction; "": none

	Heard      bool   // it was heard of
	DeadReason string // why the link to it is closed; "": it does
}

// Infos lists the at most limit processes used last, in the order of their IDs.
func (l *Links) Infos(limit int) []Info {
	var all []Info
	l.mu.Lock()
	now := l.now()
	l.core.peers.newest(limit, func(p *Peer) {
		l.core.catchUp(p)
		all = append(all, l.core.info(now, p))
	})
	l.mu.Unlock()
	slices.SortFunc(all, func(a, b Info) int { return cmp.Compare(a.Process.String(), b.Process.String()) })
	return all
}

func (c *Core) info(now Instant, p *Peer) Info {
	o, in := &p.out, &p.in
	i := Info{
		Process: p.id, Sent: o.lastSeq, Acked: o.acked, InFlight: len(o.sent), Waiting: o.queuedBytes,
		Credit: int64(o.window) - int64(o.sentBytes-o.receivedBytes), Packets: o.counts.Sent,
		Retransmitted: o.counts.Retransmitted, RTT: o.srtt,
		Received: in.acked, Duplicates: in.counts.Duplicates, Gaps: in.counts.Gaps,
		StallReason: c.stallReason(now, p), Heard: o.peerResponded || in.lastSeq != 0,
	}
	if p.dead != nil {
		i.DeadReason = p.dead.Error()
	}
	return i
}

// stallReason describes the cause of a stall of the order from a peer, or else to it; "" if there
// is none.
func (c *Core) stallReason(now Instant, p *Peer) string {
	o, in := &p.out, &p.in
	since := func(t Instant) time.Duration { return time.Duration(now - t).Round(time.Millisecond) }
	silent := max(p.lastHeard, o.awaitingSince)
	switch {
	case c.refusalsFull(in):
		return fmt.Sprintf("packets after %d wait until their sender confirms %d refusals", in.lastSeq,
			len(in.refusals))
	case in.requestedUpTo != 0:
		return fmt.Sprintf("packets after %d up to %d are missing for %s; %d later ones wait", in.lastSeq,
			in.requestedUpTo, since(in.stuckSince), len(in.outOfOrder))
	case len(o.sent) > o.repliedPackets && now-silent > Instant(c.cfg.MaxProbeInterval):
		return fmt.Sprintf("packets after %d up to %d are not acknowledged; the peer is silent for %s",
			o.acked, o.lastSeq, since(silent))
	}
	return ""
}
