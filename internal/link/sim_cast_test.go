package link

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// castGroup is a group for the casts of a process: actors of one name in some others.
type castGroup struct {
	*Group
	to     []*proc
	actor  int
	once   bool   // it is cast to for a while, and dropped
	before uint64 // of a mutant
}

// maxGroups bounds the groups of a process.
const maxGroups = 3

// castSome sends to some others at once, now and then several times in a row.
func (w *world) castSome(p *proc, sender, actor int, until Instant) {
	g := w.pickGroup(p, actor)
	if len(g.to) == 0 {
		return
	}
	size, times, answers := w.size(), 1, w.chance(0.5)
	switch n := w.rng.IntN(100); {
	case n < 25:
		times += w.rng.IntN(6)
	case n < 27: // as many as there is credit for
		times += w.rng.IntN(40)
	}
	for range times {
		w.cast(p, g, sender, size, until, answers)
	}
	if g.once {
		p.core.DropGroup(g.Group)
	}
}

// pickGroup picks an earlier group, mostly the first, or another one. A dropped group may have
// casts in flight, and a former member may belong to the next group.
func (w *world) pickGroup(p *proc, actor int) *castGroup {
	if w.chance(0.1) { // once
		g := &castGroup{to: w.some(p), actor: actor, once: true}
		g.Group = NewGroup(p.targets(g))
		return g
	}
	if len(p.groups) == maxGroups && w.chance(0.9) {
		return p.groups[min(w.rng.IntN(maxGroups), w.rng.IntN(maxGroups))]
	}
	if len(p.groups) > 0 && w.chance(0.5) {
		i := w.rng.IntN(len(p.groups))
		p.core.DropGroup(p.groups[i].Group)
		p.dropped = append(p.dropped, p.groups[i].Group)
		p.groups = slices.Delete(p.groups, i, i+1)
	}
	g := &castGroup{to: w.some(p), actor: actor}
	g.Group = NewGroup(p.targets(g))
	p.groups = append(p.groups, g)
	if len(p.groups) > maxGroups {
		p.core.DropGroup(p.groups[0].Group)
		p.dropped = append(p.dropped, p.groups[0].Group)
		p.groups = p.groups[1:]
	}
	return g
}

// some are most of the others.
func (w *world) some(p *proc) (to []*proc) {
	for _, q := range w.procs {
		if q != p && w.chance(0.8) {
			to = append(to, q)
		}
	}
	return to
}

func (p *proc) targets(g *castGroup) (all []*Target) {
	for _, q := range g.to {
		all = append(all, p.target(q, g.actor))
	}
	return all
}

// cast sends to a group.
func (w *world) cast(p *proc, to *castGroup, sender, size int, until Instant, answers bool) {
	first, g := len(w.history.records), len(w.history.groups)
	k := &Cast{Subject: "k." + names[to.actor], Group: to.Group, Until: until, ReplyAcks: answers,
		Mark: Mark{Type: groupName(g)}}
	for _, q := range to.to {
		w.history.record(p, q, sender, to.actor, size, w.history.group(p))
	}
	k.Envelope = &wire.Envelope{Kind: wire.Cast, Sender: names[sender], Actor: names[to.actor], Port: "p",
		Body: body(first, size)}
	now := true
	k.GroupExt = func(prevs []Run) ([]byte, error) {
		if now { // else it is a part
			w.counts.Unlooked += uint64(len(to.to) - len(p.core.castPlan))
		}
		if w.mutant != nil && w.mutant.prevs != nil {
			w.mutant.prevs(to, prevs)
		}
		return castHeader(answers, to.to, prevs), nil
	}
	k.AloneExt = func() ([]byte, error) { return castHeader(answers, to.to, []Run{{len(to.to), 0}}), nil }
	failed, err := p.core.Cast(w.now, k)
	now = false
	w.logf("%d casts #%d to %d members, %d bytes: %v %v", p.index, first, len(to.to), size, failed, err)
	for i, err := range failed {
		w.history.void(first + i)
		w.notSent(err)
	}
}

// answerCast is the answer to a cast: it goes to the caster past the links, or is lost with its
// folder.
func (w *world) answerCast(p, from *proc, n uint64) {
	p.core.ReplySent(p.peer(from), n)
	if w.chance(0.9) {
		w.at(w.soon(300*time.Millisecond), evReached, from, int(n), &packet{from: p})
	}
}

// reached is such an answer at the caster.
func (w *world) reached(p *proc, n uint64, by *proc) {
	w.logf("%d hears that %d has answered %d", p.index, by.index, n)
	peer := p.peer(by)
	if w.mutant != nil && w.mutant.reached != nil {
		peer = w.mutant.reached(p, peer, n)
	}
	was := peer.out.repliedPackets
	p.core.ReplyReceived(w.now, peer, n)
	w.counts.Reached += uint64(peer.out.repliedPackets - was)
}

// castHeader is the ext of a cast: whether its answers acknowledge it, each member and its prev.
func castHeader(answers bool, to []*proc, prevs []Run) (ext []byte) {
	ext = []byte{0}
	if answers {
		ext[0] = 1
	}
	for _, r := range prevs {
		for _, q := range to[:r.Count] {
			ext = binary.AppendUvarint(ext, uint64(q.index))
			ext = binary.AppendUvarint(ext, r.Prev)
		}
		to = to[r.Count:]
	}
	return ext
}

// castPrev is the prev of a process in a cast.
func castPrev(ext []byte, index int) (uint64, error) {
	ext = ext[min(len(ext), 1):]
	for len(ext) > 0 {
		member, n := binary.Uvarint(ext)
		prev, k := binary.Uvarint(ext[max(n, 0):])
		if n <= 0 || k <= 0 {
			return 0, fmt.Errorf("malformed header")
		}
		if int(member) == index {
			return prev, nil
		}
		ext = ext[n+k:]
	}
	return NotIncluded, nil
}

// owed are the casts not yet given to the link of a peer.
func (p *Peer) owed() []deferredCast {
	if p.synced == nil {
		return nil
	}
	g := p.synced.group
	return g.deferred[p.synced.applied-g.deferredBase:]
}

// used is the number of bytes that have left for a peer, in its link or not.
func (p *Peer) used() uint64 {
	used := p.out.sentBytes
	for _, k := range p.owed() {
		used += k.f.windowCost()
	}
	return used
}

// auditGroups checks that synced members can take the next cast, and that no member waits for a
// forgotten cast.
func (w *world) auditGroups(p *proc) {
	for _, g := range p.dropped {
		if g.synced != 0 || len(g.deferred) != 0 {
			w.fail("%d keeps %d members in step with a group that was dropped, and %d casts", p.index, g.synced,
				len(g.deferred))
		}
	}
	for _, g := range p.groups {
		strays := 0
		for range g.laggingMembers() {
			strays++
		}
		inStep, given := 0, g.deferredBase
		for m := g.syncedRing.next; m != &g.syncedRing; m = m.next {
			inStep++
			if m.applied < given || m.applied > g.deferredEnd() || inStep == 1 && len(g.deferred) > 0 &&
				m.applied != g.deferredBase {
				w.fail("%d: the group of %d casts has a member that was given %d, behind one of %d", p.index,
					g.deferredEnd(), m.applied, given)
				return
			}
			given = m.applied
			w.auditMember(p, g.Group, m)
		}
		if inStep != g.synced || inStep+strays != len(g.members) {
			w.fail("%d: %d members in step, %d strays, of %d", p.index, inStep, strays, len(g.members))
		}
		if len(g.deferred) > 0 && (!slices.Contains(p.core.groups, g.Group) || p.core.nextTick == 0 ||
			p.core.nextTick > p.core.deferredDue(g.Group)) {
			w.fail("%d: nobody is given the casts to its group in time", p.index)
		}
	}
}

func (w *world) auditMember(p *proc, g *Group, m *member) {
	peer, last := m.to.Peer, m.to.Peer.out.lastSeq
	if owed := peer.owed(); len(owed) > 0 {
		last = owed[len(owed)-1].seq
	}
	o := &peer.out
	switch {
	case peer.synced != m || o.openSeq == 0 || !o.idleQueue() || p.core.ignores(peer):
		w.fail("%d: a member in step has something else to do", p.index)
	case last != g.lastSeq:
		w.fail("%d: a member in step was sent %d, and the group %d", p.index, last, g.lastSeq)
	case peer.used()-o.receivedBytes > o.window:
		w.fail("%d: a member in step has %d bytes on the way, of %d", p.index,
			peer.used()-o.receivedBytes, o.window)
	}
}
