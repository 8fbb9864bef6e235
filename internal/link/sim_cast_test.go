package link

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// castGroup is a group that a process casts to, actors of one name in some others.
type castGroup struct {
	*Group
	to     []*proc
	actor  int
	once   bool   // it is cast to for a while, and dropped
	before uint64 // of a mutant
}

// maxGroups is how many groups a process casts to.
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
		p.core.Drop(g.Group)
	}
}

// pickGroup is a group that was cast to before, mostly the first, or another one. What is dropped may be
// on its way, and a former member may be one of the next group.
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
		p.core.Drop(p.groups[i].Group)
		p.dropped = append(p.dropped, p.groups[i].Group)
		p.groups = slices.Delete(p.groups, i, i+1)
	}
	g := &castGroup{to: w.some(p), actor: actor}
	g.Group = NewGroup(p.targets(g))
	p.groups = append(p.groups, g)
	if len(p.groups) > maxGroups {
		p.core.Drop(p.groups[0].Group)
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
	k := &Cast{Subject: "k." + names[to.actor], Group: to.Group, Until: until, Answers: answers, Mark: Mark{Type: groupName(g)}}
	for _, q := range to.to {
		w.history.record(p, q, sender, to.actor, size, w.history.group(p))
	}
	k.Envelope = &wire.Envelope{Kind: wire.Cast, Sender: names[sender], Actor: names[to.actor], Port: "p", Body: body(first, size)}
	k.Runs = func(prevs []Run) ([]byte, error) {
		w.counts.Unlooked += uint64(len(to.to) - len(p.core.looked))
		if w.mutant != nil && w.mutant.prevs != nil {
			w.mutant.prevs(to, prevs)
		}
		return castHeader(answers, to.to, prevs), nil
	}
	k.Alone = func(i int) ([]byte, error) { return castHeader(answers, to.to[i:i+1], []Run{{1, 0}}), nil }
	failed, err := p.core.Cast(w.now, k)
	w.logf("%d casts #%d to %d members, %d bytes: %v %v", p.index, first, len(to.to), size, failed, err)
	for i, err := range failed {
		w.history.void(first + i)
		w.notSent(err)
	}
}

// answers is the answer to a cast: it goes home past the links, or is lost with who has it to fold.
func (w *world) answers(p, from *proc, n uint64) {
	p.core.Answered(p.peer(from), n)
	if w.chance(0.9) {
		w.at(w.soon(300*time.Millisecond), evReached, from, int(n), &packet{from: p})
	}
}

// reached is such an answer at home.
func (w *world) reached(p *proc, n uint64, by *proc) {
	w.logf("%d hears that %d has answered %d", p.index, by.index, n)
	peer := p.peer(by)
	if w.mutant != nil && w.mutant.reached != nil {
		peer = w.mutant.reached(p, peer, n)
	}
	was := peer.out.reached
	p.core.Reached(w.now, peer, n)
	w.counts.Reached += uint64(peer.out.reached - was)
}

// castHeader is the ext of a cast: whether its answers say that it has arrived, each member and its prev.
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

// castPrev is what a cast says of a process.
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
	return Left, nil
}

// owed are the casts that the link to a peer was not given yet.
func (p *Peer) owed() []note {
	if p.step == nil {
		return nil
	}
	g := p.step.group
	return g.notes[p.step.given-g.base:]
}

// used is what has left for a peer, given to its link or not.
func (p *Peer) used() uint64 {
	used := p.out.used
	for _, k := range p.owed() {
		used += k.f.cost()
	}
	return used
}

// auditGroups checks that those in step can take the next cast, and that nobody is owed a cast that is
// forgotten.
func (w *world) auditGroups(p *proc) {
	for _, g := range p.dropped {
		if g.inStep != 0 || len(g.notes) != 0 {
			w.fail("%d keeps %d members in step with a group that was dropped, and %d casts", p.index, g.inStep, len(g.notes))
		}
	}
	for _, g := range p.groups {
		strays := 0
		for range g.astray() {
			strays++
		}
		inStep, given := 0, g.base
		for m := g.ring.next; m != &g.ring; m = m.next {
			inStep++
			if m.given < given || m.given > g.upto() || inStep == 1 && len(g.notes) > 0 && m.given != g.base {
				w.fail("%d: the group of %d casts has a member that was given %d, behind one of %d", p.index, g.upto(), m.given, given)
				return
			}
			given = m.given
			w.auditMember(p, g.Group, m)
		}
		if inStep != g.inStep || inStep+strays != len(g.members) {
			w.fail("%d: %d members in step, %d strays, of %d", p.index, inStep, strays, len(g.members))
		}
		if len(g.notes) > 0 && (!slices.Contains(p.core.groups, g.Group) || p.core.due == 0 || p.core.due > p.core.dueOf(g.Group)) {
			w.fail("%d: nobody is given the casts to its group in time", p.index)
		}
	}
}

func (w *world) auditMember(p *proc, g *Group, m *member) {
	peer, last := m.to.Peer, m.to.Peer.out.last
	if owed := peer.owed(); len(owed) > 0 {
		last = owed[len(owed)-1].n
	}
	o := &peer.out
	switch {
	case peer.step != m || o.start == 0 || !o.idleQueue() || p.core.deaf(peer):
		w.fail("%d: a member in step has something else to do", p.index)
	case last != g.last:
		w.fail("%d: a member in step was sent %d, and the group %d", p.index, last, g.last)
	case peer.used()-o.taken > o.window:
		w.fail("%d: a member in step has %d bytes on the way, of %d", p.index, peer.used()-o.taken, o.window)
	}
}
