package link

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// Info is how the two links between this process and another one stand.
type Info struct {
	Process subjects.ProcessID

	Sent, Acked   uint64        // numbers of the last packet to it, and of the last it has acknowledged; 0: none
	Flying        int           // packets that are not acknowledged
	Waiting       int           // bytes that wait for their turn
	Credit        int64         // bytes that may leave before it says more
	Packets       uint64        // that were sent to it, on this opening of the link and those before
	Retransmitted uint64        // packets that had to be sent again
	RTT           time.Duration // until an acknowledgement; 0: not known

	Received   uint64 // number of the last packet from it that was delivered; 0: none
	Duplicates uint64 // packets that came again
	Gaps       uint64 // times that something was missing
	Stalled    string // what the order waits for, either way; "": nothing

	Answers bool          // it was heard of
	Silence time.Duration // since it was heard of, or could not have been
	Dead    string        // why nothing goes there any more; "": it does
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
		Process: p.id, Sent: o.last, Acked: o.acked, Flying: len(o.sent), Waiting: o.size,
		Credit: int64(o.window) - int64(o.used-o.taken), Packets: o.counts.Sent, Retransmitted: o.counts.Retransmitted, RTT: o.srtt,
		Received: in.acked, Duplicates: in.counts.Duplicates, Gaps: in.counts.Gaps, Stalled: c.stall(now, p), Answers: o.heard || in.last != 0,
		Silence: time.Duration(now - p.heard),
	}
	if p.dead != nil {
		i.Dead = p.dead.Error()
	}
	return i
}

// stall says what the order from a peer, or else the order to it, waits for; "" for nothing.
func (c *Core) stall(now Instant, p *Peer) string {
	o, in := &p.out, &p.in
	since := func(t Instant) time.Duration { return time.Duration(now - t).Round(time.Millisecond) }
	silent := max(p.heard, o.since)
	switch {
	case c.full(in):
		return fmt.Sprintf("no packet after %d is taken before its sender has confirmed %d refusals", in.last, len(in.refused))
	case in.missing != 0:
		return fmt.Sprintf("packets after %d up to %d are missing for %s, %d wait for them", in.last, in.missing, since(in.stuckSince), len(in.parked))
	case len(o.sent) > o.reached && now-silent > Instant(c.cfg.MaxBeat):
		return fmt.Sprintf("packets after %d up to %d are not acknowledged, and nothing was heard for %s", o.acked, o.last, since(silent))
	}
	return ""
}
