package link

import (
	"iter"
	"math/bits"

	"github.com/castnet-io/castnet/internal/wire"
)

// Group is a set of members for repeated casts. Its fields belong to the Core.
//
// A member is synced if the last packet on its link is the group's last cast, its link has no
// queue, and it has credit for more. One number describes all synced members, and a cast does no
// work for them. The cast is recorded once. Each link receives it before its next other use, or
// before its acknowledgement is late.
//
// All other members are lagging: a cast handles them one by one, and syncs them.
type Group struct {
	members    []member
	lagging    []uint64 // a bit for each member
	synced     int
	syncedRing member // the synced members, the furthest behind first

	lastSeq uint64 // number of the last cast
	// casts not yet applied by all synced members; the first member lacks the first cast
	deferred      []deferredCast
	deferredBase  uint64 // number of casts dropped before these
	deferredBytes uint64 // of all deferred casts ever
	listed        bool   // it is in Core.groups
}

// member is one of a group.
type member struct {
	group      *Group
	to         *Target
	index      int
	prev, next *member // in the ring; nil if lagging
	applied    uint64  // number of casts its link has applied, or came after
}

// deferredCast is a cast that synced members apply later.
type deferredCast struct {
	seq         uint64
	f           *frame
	sentAt      Instant
	bytesBefore uint64 // bytes of all casts before it
}

// NewGroup makes a group of ports, each in another process. Drop it.
func NewGroup(members []*Target) *Group {
	g := &Group{members: make([]member, len(members)), lagging: make([]uint64, len(members)/64+1)}
	g.syncedRing.prev, g.syncedRing.next = &g.syncedRing, &g.syncedRing
	for i, to := range members {
		g.members[i] = member{group: g, to: to, index: i}
		g.markLagging(i)
	}
	return g
}

// DropGroup releases a group after its last cast.
func (snd *sender) DropGroup(g *Group) { snd.leaveAll(g) }

func (g *Group) markLagging(i int) { g.lagging[i/64] |= 1 << (i % 64) }

// laggingMembers returns the lagging members, in the order of the members. The current one may
// become synced.
func (g *Group) laggingMembers() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		for w, left := range g.lagging {
			for ; left != 0; left &= left - 1 {
				if !yield(&g.members[w*64+bits.TrailingZeros64(left)]) {
					return
				}
			}
		}
	}
}

// deferredEnd is the number of casts deferred so far.
func (g *Group) deferredEnd() uint64 { return g.deferredBase + uint64(len(g.deferred)) }

// backlogBytes is the size of the casts not yet applied by the member furthest behind.
func (g *Group) backlogBytes() uint64 {
	if len(g.deferred) == 0 {
		return 0
	}
	return g.deferredBytes - g.deferred[0].bytesBefore
}

// pushSynced puts a member last in the ring: it has applied everything.
func (g *Group) pushSynced(m *member) {
	m.applied = g.deferredEnd()
	m.prev, m.next = g.syncedRing.prev, &g.syncedRing
	m.prev.next, m.next.prev = m, m
}

// unlink takes a member out of the ring.
func (g *Group) unlink(m *member) {
	m.prev.next, m.next.prev = m.next, m.prev
	m.prev, m.next = nil, nil
}

// dropApplied drops the casts applied by all members.
func (g *Group) dropApplied() {
	given := g.deferredEnd()
	if first := g.syncedRing.next; first != &g.syncedRing {
		given = first.applied
	}
	if n := int(given - g.deferredBase); n > 0 {
		kept := copy(g.deferred, g.deferred[n:])
		clear(g.deferred[kept:])
		g.deferred = g.deferred[:kept]
		g.deferredBase = given
	}
}

// syncedReserve is the credit of a synced member, and the bound of its deferred casts.
func (snd *sender) syncedReserve() uint64 { return uint64(snd.cfg.InitialWindow) / 2 }

// join syncs a lagging member after the last cast of its group, if it has the credit.
func (snd *sender) join(m *member) {
	g := m.group
	if !snd.hasSyncedCredit(&m.to.Peer.out) {
		return
	}
	m.to.Peer.synced = m
	g.lagging[m.index/64] &^= 1 << (m.index % 64)
	g.synced++
	g.pushSynced(m)
}

// hasSyncedCredit reports whether a link has enough credit for a synced member.
func (snd *sender) hasSyncedCredit(o *outgoing) bool {
	return o.sentBytes-o.receivedBytes+snd.syncedReserve() <= o.window
}

// catchUp applies deferred casts to the link to a peer. It comes before every use of the link.
func (snd *sender) catchUp(p *Peer) { snd.catchUpWith(p, &wire.AckState{}) }

// catchUpWith is catchUp with an acknowledgement of the peer. It stores no acknowledged packets,
// except the last.
func (snd *sender) catchUpWith(p *Peer, k *wire.AckState) {
	m := p.synced
	if m == nil || m.applied == m.group.deferredEnd() {
		return
	}
	g := m.group
	acked := k.Acked
	if acked > g.lastSeq ||
		k.ReceivedBytes > p.out.sentBytes+g.deferredBytes-g.deferred[m.applied-g.deferredBase].bytesBefore {
		acked = 0 // it cannot be
	}
	snd.applyDeferred(p, acked)
	g.unlink(m)
	g.pushSynced(m)
	g.dropApplied()
	snd.leaveIfLow(p)
}

// applyDeferred applies deferred casts to a link. Packets up to acked have arrived.
func (snd *sender) applyDeferred(p *Peer, acked uint64) {
	g := p.synced.group
	owed := g.deferred[p.synced.applied-g.deferredBase:]
	for i, k := range owed {
		if i+1 < len(owed) && owed[i+1].seq <= acked {
			p.out.countSent(k.seq, k.f)
		} else {
			snd.track(k.sentAt, p, k.seq, k.f)
		}
	}
	p.synced.applied = g.deferredEnd()
}

// leaveIfLow makes a member lagging if its credit is too small for a synced one.
func (snd *sender) leaveIfLow(p *Peer) {
	if p.synced != nil && !snd.hasSyncedCredit(&p.out) {
		snd.leave(p)
	}
}

// leave makes a peer lagging, before a message outside its group or a reset.
func (snd *sender) leave(p *Peer) {
	m := p.synced
	if m == nil {
		return
	}
	snd.applyDeferred(p, 0)
	g := m.group
	g.unlink(m)
	g.dropApplied()
	g.markLagging(m.index)
	g.synced--
	p.synced = nil
}

// leaveAll makes all members lagging.
func (snd *sender) leaveAll(g *Group) {
	for g.synced > 0 {
		snd.leave(g.syncedRing.next.to.Peer)
	}
}

// ensureBacklogRoom ensures that all synced members have credit for size more bytes. No cast is
// larger than the reserve.
func (snd *sender) ensureBacklogRoom(g *Group, size uint64) {
	for g.backlogBytes() > 0 && g.backlogBytes()+size > snd.syncedReserve() {
		snd.catchUp(g.syncedRing.next.to.Peer)
	}
}

// deferCast records a cast for the synced members, to be applied before its acknowledgement is
// late.
func (snd *sender) deferCast(now Instant, g *Group, f *frame) {
	g.lastSeq = snd.lastSeq
	if g.synced == 0 {
		return
	}
	g.deferred = append(g.deferred, deferredCast{seq: snd.lastSeq, f: f, sentAt: now,
		bytesBefore: g.deferredBytes})
	g.deferredBytes += f.windowCost()
	if !g.listed {
		g.listed = true
		snd.groups = append(snd.groups, g)
	}
	if due := snd.deferredDue(g); due < f.until {
		snd.nextTick = soonest(snd.nextTick, due)
	} else { // it is due before it is late
		snd.catchUpGroup(g)
	}
}

// deferredDue is the time for the first member to catch up.
func (snd *sender) deferredDue(g *Group) Instant {
	return g.deferred[0].sentAt + Instant(snd.cfg.MinRTO)
}

// catchUpGroup applies all deferred casts of a group.
func (snd *sender) catchUpGroup(g *Group) {
	for len(g.deferred) > 0 {
		snd.catchUp(g.syncedRing.next.to.Peer)
	}
}

// catchUpAllGroups is level for all groups.
func (snd *sender) catchUpAllGroups() {
	for _, g := range snd.groups {
		snd.catchUpGroup(g)
	}
}

// tickGroups applies deferred casts before their acknowledgements are late.
func (snd *sender) tickGroups(now Instant) {
	kept := snd.groups[:0]
	for _, g := range snd.groups {
		for len(g.deferred) > 0 && snd.deferredDue(g) <= now {
			snd.catchUp(g.syncedRing.next.to.Peer)
		}
		g.listed = len(g.deferred) > 0
		if g.listed {
			kept = append(kept, g)
			snd.nextTick = soonest(snd.nextTick, snd.deferredDue(g))
		}
	}
	clear(snd.groups[len(kept):])
	snd.groups = kept
}
