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
	Retransmitted uint64        // packets that had to be sent again
	RTT           time.Duration // until an acknowledgement; 0: not known

	Received   uint64 // number of the last packet from it that was delivered; 0: none
	Duplicates uint64 // packets that came again
	Gaps       uint64 // times that something was missing
	Stalled    string // what the order waits for; "": nothing

	Answers bool   // it was heard of
	Dead    string // why nothing goes there any more; "": it does
}

// Infos lists the at most limit processes used last, in the order of their IDs.
func (l *Links) Infos(limit int) []Info {
	var all []Info
	l.mu.Lock()
	now := l.now()
	l.core.peers.newest(limit, func(p *Peer) {
		l.core.catchUp(p)
		all = append(all, p.info(now))
	})
	l.mu.Unlock()
	slices.SortFunc(all, func(a, b Info) int { return cmp.Compare(a.Process.String(), b.Process.String()) })
	return all
}

func (p *Peer) info(now Instant) Info {
	o, in := &p.out, &p.in
	i := Info{
		Process: p.id, Sent: o.last, Acked: o.acked, Flying: len(o.sent), Waiting: o.size,
		Credit: int64(o.window) - int64(o.used-o.taken), Retransmitted: o.counts.Retransmitted, RTT: o.srtt,
		Received: in.acked, Duplicates: in.counts.Duplicates, Gaps: in.counts.Gaps, Answers: o.heard || in.last != 0,
	}
	if in.missing != 0 {
		i.Stalled = fmt.Sprintf("packets after %d up to %d are missing for %s, %d wait for them",
			in.last, in.missing, time.Duration(now-in.stuckSince).Round(time.Millisecond), len(in.parked))
	}
	if p.dead != nil {
		i.Dead = p.dead.Error()
	}
	return i
}
