package link

// barrier is a barrier with the number of records at its creation.
type barrier struct {
	b      *Barrier
	before int
}

// pollBarriers checks that the messages before a finished barrier have their fates.
func (w *world) pollBarriers(p *proc) {
	kept := p.barrier[:0]
	for _, b := range p.barrier {
		select {
		case <-b.b.Done():
			w.counts.Barriers++
			w.history.settled(w, p, b.before, "at a barrier")
		default:
			kept = append(kept, b)
		}
	}
	p.barrier = kept
}

// audit checks the counts of a Core against its content (DEL-6).
func (w *world) audit() {
	w.counts.Audits++
	for _, p := range w.procs {
		if !p.alive {
			continue
		}
		queued, assembled, pieced, senders, parked, tombs := 0, 0, 0, 0, 0, 0
		for i, peer := range p.peers {
			if peer == nil {
				continue
			}
			w.auditDeadlines(p, peer)
			queued += w.auditOut(p, peer)
			assembled += w.auditIn(p, peer)
			pieced += peer.in.fragments.cost()
			parked += peer.in.outOfOrderBytes + len(peer.in.outOfOrder)*packetCost
			for _, indexes := range peer.in.tombstones {
				tombs += len(indexes) / 2
			}
			if peer.in.openSeq != 0 {
				senders++
			}
			w.auditCredit(p, peer, w.procs[i])
		}
		w.auditReady(p)
		if w.mutant == nil { // which the promises must notice
			w.auditGroups(p)
		}
		if queued != p.core.queuedBytes || assembled != p.core.assemblyBytes || pieced != p.core.fragmentBytes ||
			senders != p.core.openSenders {
			w.fail("%d counts %d bytes queued, %d assembled, %d senders: it holds %d, %d, %d", p.index,
				p.core.queuedBytes, p.core.assemblyBytes, p.core.openSenders, queued, assembled, senders)
		}
		if parked != p.core.outOfOrderBytes || tombs != p.core.tombstones || parked > w.cfg.MaxOutOfOrderTotal {
			w.fail("DEL-6: %d counts %d bytes behind gaps and %d tombs: it holds %d and %d", p.index,
				p.core.outOfOrderBytes, p.core.tombstones, parked, tombs)
		}
		if max(assembled, pieced) > w.cfg.AssemblyBytes {
			w.fail("DEL-6: %d holds %d bytes of unfinished messages", p.index, assembled)
		}
	}
}

func (w *world) auditOut(p *proc, peer *Peer) int {
	o := &peer.out
	size := 0
	for _, f := range o.queue {
		size += f.size()
	}
	for _, t := range o.transfers {
		size += t.whole.total - t.sent
		for i := range t.followers {
			size += t.followers[i].size()
		}
	}
	if size != o.queuedBytes {
		w.fail("%d counts %d bytes queued, and holds %d", p.index, o.queuedBytes, size)
	}
	for i := 1; i < len(o.sent); i++ {
		if o.sent[i].seq <= o.sent[i-1].seq || o.sent[i].prev != o.sent[i-1].seq {
			w.fail("%d: packet %d follows %d", p.index, o.sent[i].seq, o.sent[i-1].seq)
		}
	}
	return size
}

// auditReady checks that each packet due again waits in one place, and will leave.
func (w *world) auditReady(p *proc) {
	places := map[*Peer]int{}
	for _, pub := range p.core.ready {
		if pub.resend {
			places[pub.To]++
		}
	}
	for _, peer := range p.peers {
		if peer == nil {
			continue
		}
		o := &peer.out
		if n := places[peer]; n > 1 || (n == 1) != (o.resendEpoch == p.core.connEpoch) {
			w.fail("DEL-6: packets to leave again wait in %d places", n)
		}
		for i := range o.sent {
			if it := &o.sent[i]; w.mutant == nil && it.resendEpoch == p.core.connEpoch &&
				(o.resendEpoch != it.resendEpoch || it.seq < o.resendFrom) {
				w.fail("DEL-3: %d: nobody looks at packet %d, which is to leave again", p.index, it.seq)
			}
		}
	}
}

func (w *world) auditIn(p *proc, peer *Peer) (assembled int) {
	in := &peer.in
	parked := 0
	for _, a := range in.outOfOrder {
		parked += a.Size
	}
	if parked != in.outOfOrderBytes || parked > w.cfg.MaxOutOfOrderBytes ||
		len(in.outOfOrder) > w.cfg.MaxOutOfOrder {
		w.fail("DEL-6: %d holds %d packets of %d bytes that wait, and counts %d", p.index, len(in.outOfOrder),
			parked, in.outOfOrderBytes)
	}
	for _, a := range in.chunks {
		assembled += a.cost() + assemblyCost
	}
	if len(in.refusals) > w.cfg.MaxRefusals+w.cfg.PacketSize || len(in.tombstones) > w.cfg.MaxRefusals {
		w.fail("DEL-6: %d holds %d refusals, %d tombstones", p.index, len(in.refusals), len(in.tombstones))
	}
	return assembled
}

// auditCredit checks that no more is on the way than its receiver has allowed. A window has room
// for one packet.
func (w *world) auditCredit(p *proc, peer *Peer, q *proc) {
	owed := peer.owed()
	if !q.alive || q.peers[p.index] == nil || len(peer.out.sent)+len(owed) == 0 {
		return
	}
	o, in := &peer.out, &q.peers[p.index].in
	taken, most := in.receivedBytes, uint64(w.cfg.Window)
	switch {
	case in.lastSeq > p.core.lastSeq: // forged
		return
	case in.openSeq == o.openSeq:
	case in.openSeq == 0 && in.lastSeq == 0 && o.acked == 0 && !q.dead[p.index]:
		taken, most = 0, uint64(w.cfg.InitialWindow)
	default: // one of them does not know yet that the other has given up
		return
	}
	if len(owed) > 0 {
		most = max(most, owed[len(owed)-1].f.windowCost())
	} else {
		most = max(most, o.sent[len(o.sent)-1].frame.windowCost())
	}
	if flying := peer.used() - taken; flying > most {
		w.fail("DEL-6: %d has %d bytes on the way to %d, of at most %d", p.index, flying, q.index, most)
	}
}

// believes reports whether a process is alive and does not believe that another one is dead.
func (p *proc) believes(q *proc) bool { return p.alive && !p.dead[q.index] }

// checkSettled checks that links between live processes hold nothing back, some time after all
// faults.
func (w *world) checkSettled() {
	for _, p := range w.procs {
		for _, q := range w.procs {
			if p == q || !p.believes(q) || !q.believes(p) || p.peers[q.index] == nil {
				continue
			}
			if o := &p.peers[q.index].out; !o.idle() || len(p.peers[q.index].owed()) > 0 {
				w.fail("DEL-6: %d still holds %d packets, %d frames and %d transfers for %d", p.index, len(o.sent),
					len(o.queue), len(o.transfers), q.index)
			}
		}
	}
}

// checkEnd checks that everything has its fate and nothing is left.
func (w *world) checkEnd() {
	w.audit()
	for _, p := range w.procs {
		if !p.alive || w.failed != "" {
			continue
		}
		w.history.settled(w, p, len(w.history.records), "at the end")
		if p.core.queuedBytes+p.core.assemblyBytes+p.core.fragmentBytes != 0 {
			w.fail("DEL-6: %d holds %d bytes queued, %d assembled at the end", p.index, p.core.queuedBytes,
				p.core.assemblyBytes)
		}
		if len(p.barrier) > 0 || len(p.waiting) > 0 {
			w.fail("DEL-6: %d barriers and %d senders wait for ever in %d", len(p.barrier), len(p.waiting), p.index)
		}
		for i, peer := range p.peers {
			if peer == nil {
				continue
			}
			if peer.isGone() && p.core.Lookup(peer.id) == peer && w.now > p.core.silenceDeadline(peer) {
				w.fail("LINK-11: %d remembers %d, which is gone", p.index, i)
			}
			if !peer.out.idle() || !peer.in.idle() || len(peer.in.outOfOrder)+len(peer.owed()) > 0 {
				w.fail("DEL-6: %d is not done with %d: %d packets on the way, missing %d, say %d, %d refusals, %d parked",
					p.index, i, len(peer.out.sent), peer.in.requestedUpTo, peer.in.ackAt, len(peer.in.refusals),
					len(peer.in.outOfOrder))
			}
		}
	}
}

// ping makes all live processes send to each other once more.
func (w *world) ping() {
	if w.failed != "" {
		return
	}
	for _, p := range w.procs {
		for _, q := range w.procs {
			if p != q && p.alive && q.alive && p.believes(q) && q.believes(p) {
				w.postWait(p, &pending{to: q, sender: 2, size: 8})
				w.counts.Pings++
			}
		}
		if p.alive {
			w.flush(p)
		}
	}
}

// checkPings checks that the last ones, from a record on, entered, and that the counts of both ends
// agree.
func (w *world) checkPings(from int) {
	if w.failed != "" {
		return
	}
	w.checkEnd()
	for i := range w.history.records[from:] {
		if r := &w.history.records[from+i]; r.entered == 0 && !r.void {
			w.fail("LINK-14: #%d of %d to %d has not entered, long after all faults", from+i, r.from.index, r.to.index)
		}
	}
	for _, p := range w.procs {
		for i, peer := range p.peers {
			if q := w.procs[i]; peer != nil && q.alive && p.believes(q) && q.believes(p) {
				w.checkBooks(p, q, peer)
			}
		}
		if p.alive {
			w.sumStats(p.core.Stats())
		}
	}
	w.checkQuiet()
}

func (w *world) checkBooks(p, q *proc, peer *Peer) {
	o := &peer.out
	if o.lastSeq != o.acked || o.sentBytes != o.receivedBytes {
		w.fail("%d to %d: last %d, acknowledged %d; used %d, taken %d", p.index, q.index, o.lastSeq, o.acked,
			o.sentBytes, o.receivedBytes)
	}
}

// overrun counts the packets dropped for lack of room at their receiver.
func (w *world) overrun() (n uint64) {
	for _, p := range w.procs {
		n += p.core.Stats().Overrun
	}
	return n
}

func (w *world) sumStats(s Stats) {
	w.counts.Retransmitted += s.Retransmitted
	w.counts.Beats += s.Beats
	w.counts.Duplicates += s.Duplicates
	w.counts.Gaps += s.Gaps
	w.counts.Overrun += s.Overrun
}

// checkQuiet checks a run without faults: each message was delivered, refused, or too late.
func (w *world) checkQuiet() {
	if !w.quiet {
		return
	}
	for _, p := range w.procs {
		if s := p.core.Stats(); s.Malformed > 0 || s.Indeterminate > 0 || s.Gaps > 0 && s.Overrun == 0 {
			w.fail("nothing went wrong, and %d counts %+v", p.index, s)
		} else if s.Retransmitted > 0 && s.Overrun == 0 && w.overrun() == 0 {
			w.fail("nothing went wrong, and %d sent %d packets again", p.index, s.Retransmitted)
		}
	}
}
