package link

import "time"

// auditDeadlines checks that each message has its fate in time (LINK-8). A queued message gets one
// at its deadline. For a sent one the receiver is queried then, and has twice the longest time of
// an answer. A paused process catches up when it wakes, and the next Tick reports late messages.
func (w *world) auditDeadlines(p *proc, peer *Peer) {
	if p.paused || p.tickAt == w.now || len(p.backlog[data])+len(p.backlog[control]) > 0 {
		return
	}
	overdue := func(what string, n uint64, until Instant, patience time.Duration) {
		if max(until, p.woke)+Instant(patience+time.Millisecond) < w.now {
			w.fail("DEL-1: in %d %s %d to %s has no fate, %s after its deadline", p.index, what, n, peer.id,
				time.Duration(w.now-until))
		}
	}
	frame := func(what string, n uint64, f *frame, patience time.Duration) {
		for i := range f.fates {
			if m := &f.fates[i]; !m.settled {
				overdue(what, n, m.until, patience)
			}
		}
	}
	o := &peer.out
	for i := range o.sent {
		if it := &o.sent[i]; !it.fateKnown {
			frame("packet", it.seq, it.frame, 2*w.cfg.MaxProbeInterval)
		}
	}
	for _, k := range peer.owed() {
		frame("cast", k.seq, k.f, 2*w.cfg.MaxProbeInterval)
	}
	for _, f := range o.queue {
		frame("the frame", f.serial, f, 0)
	}
	for _, t := range o.transfers {
		overdue("transfer", t.whole.id, t.until, 0)
		for i := range t.followers {
			overdue("what follows transfer", t.whole.id, t.followers[i].until, 0)
		}
	}
}
