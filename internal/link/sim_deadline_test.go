package link

import "time"

// auditDeadlines checks that no message is without a fate for longer than it may (LINK-8). What has not left has one at its
// deadline; of what has, its receiver is asked then, and has twice the longest time of an answer. A process that was
// paused does all that when it wakes, and what is sent too late is told with the Tick that is due at once.
func (w *world) auditDeadlines(p *proc, peer *Peer) {
	if p.paused || p.tickAt == w.now || len(p.backlog[data])+len(p.backlog[control]) > 0 {
		return
	}
	overdue := func(what string, n uint64, until Instant, patience time.Duration) {
		if max(until, p.woke)+Instant(patience+time.Millisecond) < w.now {
			w.fail("DEL-1: in %d %s %d to %s has no fate, %s after its deadline", p.index, what, n, peer.id, time.Duration(w.now-until))
		}
	}
	frame := func(what string, n uint64, f *frame, patience time.Duration) {
		for i := range f.owed {
			if m := &f.owed[i]; !m.told {
				overdue(what, n, m.until, patience)
			}
		}
	}
	o := &peer.out
	for i := range o.sent {
		if it := &o.sent[i]; !it.told {
			frame("packet", it.n, it.f, 2*w.cfg.MaxBeat)
		}
	}
	for _, k := range peer.owed() {
		frame("cast", k.n, k.f, 2*w.cfg.MaxBeat)
	}
	for _, f := range o.queue {
		frame("the frame", f.serial, f, 0)
	}
	for _, t := range o.transfers {
		overdue("transfer", t.id, t.until, 0)
		for i := range t.followers {
			overdue("what follows transfer", t.id, t.followers[i].until, 0)
		}
	}
}
