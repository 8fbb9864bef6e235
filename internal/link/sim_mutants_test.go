package link

import (
	"slices"

	"github.com/castnet-io/castnet/internal/wire"
)

// A mutant is a Core without one of its parts. A mutation changes the input, the output or the
// state of the Core; the code itself has no hooks for it.
type mutant struct {
	name    string
	skip    uint64                                    // seeds that do not notice a rare mutant
	head    func(*Peer)                               // before a packet of the data lane
	says    func(p *proc, peer *Peer)                 // before what a packet says of the link to it
	arrive  func(p *proc, peer *Peer, a *Arrival)     // before Arrive
	reached func(p *proc, peer *Peer, n uint64) *Peer // who an answer says has a cast
	credit  func(c *waitCredit)                       // before credit is taken
	early   bool                                      // credit is granted before its turn
	silent  bool                                      // no credit is granted
	lost    bool                                      // nobody notices a lost request for credit
	prevs   func(g *castGroup, prevs []Run)           // what a cast says of its members
	effect  func(p *proc, e *Effect) bool             // false: it is not done
	publish func(p *proc, pub *Publish) bool          // false: it is not published
	after   func(p *proc)                             // after each event
}

// onState changes each sent State.
func onState(change func(p *proc, peer *Peer, s *wire.LinkStateBody)) func(*proc, *Effect) bool {
	return func(p *proc, e *Effect) bool {
		if s, ok := e.Body.(*wire.LinkStateBody); ok {
			changed := *s
			change(p, e.Peer, &changed)
			e.Body = &changed
		}
		return true
	}
}

// onPeers changes the state of each peer, after each event.
func onPeers(change func(p *proc, peer *Peer)) func(*proc) {
	return func(p *proc) {
		for _, peer := range p.peers {
			if peer != nil {
				change(p, peer)
			}
		}
	}
}

// onSent changes each sent packet, after each event.
func onSent(change func(p *proc, it *sentPacket)) func(*proc) {
	return onPeers(func(p *proc, peer *Peer) {
		for i := range peer.out.sent {
			change(p, &peer.out.sent[i])
		}
	})
}

// acceptAny takes a packet as the next one, whatever came before.
func acceptAny(peer *Peer, a *Arrival) {
	peer.in.lastSeq = a.Seq - 1
	a.PrevSeq, a.AllAcked = a.Seq-1, false
}

func mutants() []mutant {
	return slices.Concat(receiverMutants(), senderMutants(), groupMutants(), creditMutants())
}

// receiverMutants lack a part of the receiver of a link.
func receiverMutants() []mutant {
	return []mutant{
		{name: "duplicates are delivered", arrive: func(_ *proc, peer *Peer, a *Arrival) {
			if peer.in.openSeq != 0 && a.Seq >= peer.in.openSeq && a.Seq <= peer.in.lastSeq {
				acceptAny(peer, a)
			}
		}},
		{name: "gaps are skipped", arrive: func(_ *proc, peer *Peer, a *Arrival) {
			if peer.in.openSeq != 0 && a.PrevSeq > peer.in.lastSeq {
				a.PrevSeq = peer.in.lastSeq
			}
		}},
		{name: "nothing is asked for",
			effect: onState(func(_ *proc, _ *Peer, s *wire.LinkStateBody) { s.Missing = nil })},
		{name: "the dead are heard", head: func(peer *Peer) { peer.dead = nil }},
		{name: "acknowledged before it is there", effect: onState(func(_ *proc, peer *Peer, s *wire.LinkStateBody) {
			s.Progress.Acked = max(s.Progress.Acked, peer.in.highestSeq)
		})},
		{name: "refusals are not said",
			effect: onState(func(_ *proc, _ *Peer, s *wire.LinkStateBody) { s.Refusals = nil })},
		{name: "refusals are said once", effect: onState(func(_ *proc, peer *Peer, _ *wire.LinkStateBody) {
			peer.in.refusals, peer.in.firstRefusal = nil, peer.in.firstRefusal+uint64(len(peer.in.refusals))
		})},
		{name: "tombstones are ignored",
			arrive: func(_ *proc, peer *Peer, _ *Arrival) { peer.in.tombstones = nil }},
		{name: "what was given up is taken", arrive: func(p *proc, peer *Peer, a *Arrival) {
			if last := peer.in.lastSeq; a.Seq < peer.in.openSeq && !slices.Contains(p.seen, packetOf{peer, a.Seq}) {
				acceptAny(peer, a)
				p.was = packetOf{peer, last}
			}
			p.seen = append(p.seen, packetOf{peer, a.Seq})
		}, after: func(p *proc) {
			if p.was.peer != nil {
				p.was.peer.in.lastSeq = max(p.was.peer.in.lastSeq, p.was.n)
				p.was.peer = nil
			}
		}},
		{name: "who says goodbye is forgotten at once", after: onPeers(func(p *proc, peer *Peer) {
			if peer.leftAt != 0 && peer.out.idle() && peer.in.idle() {
				peer.lastHeard = p.w.now - Instant(p.w.cfg.SilenceTimeout)
				p.core.Tick(p.w.now)
			}
		})},
		{name: "who says goodbye is never forgotten", after: onPeers(func(_ *proc, peer *Peer) {
			if peer.leftAt != 0 && peer.out.idle() && peer.in.idle() {
				peer.nextTick = 0
			}
		})},
		{name: "numbers that others have claimed are not overtaken", effect: func(_ *proc, e *Effect) bool {
			if g, ok := e.Body.(wire.ResetBody); ok && e.Packet == wire.ReceiverReset {
				g.Last = 0
				e.Body = g
			}
			return true
		}},
		{name: "more is counted than came",
			arrive: func(_ *proc, peer *Peer, _ *Arrival) { peer.in.receivedBytes += 64 }},
		{name: "less is counted than came", arrive: func(_ *proc, peer *Peer, a *Arrival) {
			if a.Seq > peer.in.lastSeq {
				a.Size--
			}
		}},
	}
}

// senderMutants lack a part of the sender.
func senderMutants() []mutant {
	return []mutant{
		{name: "nothing is sent again", publish: func(_ *proc, pub *Publish) bool {
			if pub.To == nil {
				return true
			}
			it := pub.To.out.find(pub.Seq)
			return it == nil || it.sends == 1
		}},
		{name: "what a lost connection was about to take is not sent on the next", skip: 520,
			after: onSent(func(p *proc, it *sentPacket) {
				if it.resendEpoch != 0 {
					it.resendEpoch = p.core.connEpoch
				}
			})},
		{name: "no beats", publish: func(_ *proc, pub *Publish) bool {
			h, _, err := wire.DecodeHead(pub.Data)
			return err != nil || h.Kind != wire.Probe
		}},
		{name: "no credit is needed", after: onPeers(func(_ *proc, peer *Peer) { peer.out.window = 1 << 40 })},
		{name: "a large message is overtaken by its followers", after: onPeers(func(_ *proc, peer *Peer) {
			for _, t := range peer.out.transfers {
				t.sender = "nobody"
			}
		})},
		{name: "a large message overtakes what was before it", after: onPeers(func(_ *proc, peer *Peer) {
			for _, t := range peer.out.transfers {
				t.afterFrame = 0
			}
		})},
		{name: "all casts are settled", prevs: func(_ *castGroup, prevs []Run) {
			for i, r := range prevs {
				if r.Prev != 0 && r.Prev != NotIncluded {
					prevs[i].Prev = AllAcked
				}
			}
		}},
		{name: "what cannot be known is not told",
			effect: func(_ *proc, e *Effect) bool { return e.Kind != EffectFate || e.Fate.Known }},
		{name: "what cannot be known is told as known", effect: func(_ *proc, e *Effect) bool {
			e.Fate.Known = true
			return true
		}},
		{name: "fates are told twice", effect: func(p *proc, e *Effect) bool {
			if e.Kind == EffectFate {
				p.w.history.fate(p.w, p, &e.Fate)
			}
			return true
		}},
		{name: "refusals are confirmed unseen", effect: func(_ *proc, e *Effect) bool {
			if k, ok := e.Body.(wire.ConfirmBody); ok {
				e.Body = wire.ConfirmBody{Next: k.Next + 1}
			}
			return true
		}},
		{name: "nobody looks when a deadline comes",
			after: onPeers(func(_ *proc, peer *Peer) { peer.out.deadline = 0 })},
		{name: "who was asked at a deadline has all the time there is",
			after: onSent(func(p *proc, it *sentPacket) {
				for i := range it.frame.fates {
					if m := &it.frame.fates[i]; m.queriedAt != 0 {
						m.queriedAt = p.w.now
					}
				}
			})},
		{name: "nobody is asked at a deadline", skip: 1800,
			effect: func(_ *proc, e *Effect) bool { return e.Packet != wire.FateQuery }},
		{name: "nobody is told of room", effect: func(_ *proc, e *Effect) bool { return e.Kind != EffectRoom }},
	}
}

// dropCasts is a link that takes casts and keeps nothing of them.
func dropCasts(p *proc, peer *Peer) {
	if len(peer.owed()) > 0 {
		was := peer.out
		p.core.catchUp(peer)
		peer.out = was
	}
}

// onGroups changes each group, after each event.
func onGroups(change func(p *proc, g *Group)) func(*proc) {
	return func(p *proc) {
		for _, g := range p.groups {
			change(p, g.Group)
		}
	}
}

// groupMutants lack a part of the casts to groups.
func groupMutants() []mutant {
	return []mutant{
		{name: "what was cast is not known when it is acknowledged", says: dropCasts},
		{name: "what was cast is not known when it is late", after: func(p *proc) {
			if due := p.core.nextTick; due != 0 && due <= p.w.now+Instant(p.w.cfg.MinRTO) {
				for _, peer := range p.peers {
					if peer != nil {
						dropCasts(p, peer)
					}
				}
			}
		}},
		{name: "nobody looks when what was cast is late", skip: 220, after: func(p *proc) { p.core.groups = nil }},
		{name: "strays are forgotten", after: onGroups(func(_ *proc, g *Group) { clear(g.lagging) })},
		{name: "strays are taken for members in step", after: onGroups(func(p *proc, g *Group) {
			for m := range g.laggingMembers() {
				if o := &m.to.Peer.out; m.to.Peer.synced == nil && o.openSeq != 0 && o.idleQueue() {
					p.core.join(m)
				}
			}
		})},
		{name: "what all must have seen is one too old", prevs: func(g *castGroup, prevs []Run) {
			for i, r := range prevs {
				if r.Prev == g.lastSeq && g.before != 0 {
					prevs[i].Prev = g.before
				}
			}
			g.before = g.lastSeq
		}},
		{name: "an answer counts for who did not give it", reached: func(p *proc, peer *Peer, n uint64) *Peer {
			for _, other := range p.peers {
				if other != nil && other != peer && other.out.find(n) != nil {
					return other
				}
			}
			return peer
		}},
		{name: "an answer counts for all that was sent before", skip: 70, reached: func(
			_ *proc, peer *Peer, n uint64,
		) *Peer {
			for i := range peer.out.sent[:peer.out.indexOf(n)] {
				it := &peer.out.sent[i]
				it.fateKnown = true
				for j := range it.frame.fates {
					it.frame.fates[j].settled = true
				}
			}
			return peer
		}},
		{name: "those in step need no credit", skip: 2700, prevs: func(g *castGroup, _ []Run) {
			for i := range g.deferred {
				g.deferred[i].bytesBefore = g.deferredBytes
			}
		}},
	}
}

// packetOf is a packet of a peer.
type packetOf struct {
	peer *Peer
	n    uint64
}
