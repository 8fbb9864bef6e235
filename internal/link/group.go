package link

import (
	"iter"
	"math/bits"

	"github.com/castnet-io/castnet/internal/wire"
)

// Group is a set of members that are cast to again and again. Its fields belong to the Core.
//
// A member is in step when the last packet on its link is the last cast of the group, nothing waits for
// the link, and it has credit for more. One number says what all those must have seen before, and a cast
// does nothing for them: it is noted once, and each link is given it when something else is about to look
// at that link, or its acknowledgement is late. All other members are strays: a cast looks at them one by
// one, and they come into step with it.
type Group struct {
	members []member
	strays  []uint64 // a bit for each member
	inStep  int
	ring    member // of those in step: who is furthest behind comes first

	last  uint64 // number of the last cast
	notes []note // casts that somebody in step was not given yet: the first one was not given the first
	base  uint64 // how many notes there were before these
	bytes uint64 // of all notes that there were
	noted bool   // it is in Core.groups
}

// member is one of a group.
type member struct {
	group      *Group
	to         *Target
	index      int
	prev, next *member // in the ring; nil for a stray
	given      uint64  // how many notes of the group its link was given, or came after
}

// note is a cast that members in step are given later.
type note struct {
	n      uint64
	f      *frame
	at     Instant
	before uint64 // bytes of all notes before it
}

// NewGroup makes a group of ports, each in another process. Drop it.
func NewGroup(members []*Target) *Group {
	g := &Group{members: make([]member, len(members)), strays: make([]uint64, len(members)/64+1)}
	g.ring.prev, g.ring.next = &g.ring, &g.ring
	for i, to := range members {
		g.members[i] = member{group: g, to: to, index: i}
		g.stray(i)
	}
	return g
}

// Drop is the end of a group, which nobody casts to any more.
func (c *Core) Drop(g *Group) { c.scatter(g) }

func (g *Group) stray(i int) { g.strays[i/64] |= 1 << (i % 64) }

// astray are the strays, in the order of the members. The one at hand may come into step.
func (g *Group) astray() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		for w, left := range g.strays {
			for ; left != 0; left &= left - 1 {
				if !yield(&g.members[w*64+bits.TrailingZeros64(left)]) {
					return
				}
			}
		}
	}
}

// upto is how many notes there were.
func (g *Group) upto() uint64 { return g.base + uint64(len(g.notes)) }

// owes is how many bytes the member that is furthest behind was not given.
func (g *Group) owes() uint64 {
	if len(g.notes) == 0 {
		return 0
	}
	return g.bytes - g.notes[0].before
}

// back makes a member the one that is furthest ahead.
func (g *Group) back(m *member) {
	m.given = g.upto()
	m.prev, m.next = g.ring.prev, &g.ring
	m.prev.next, m.next.prev = m, m
}

// unlink takes a member out of the ring.
func (g *Group) unlink(m *member) {
	m.prev.next, m.next.prev = m.next, m.prev
	m.prev, m.next = nil, nil
}

// trim drops the notes that everybody has been given.
func (g *Group) trim() {
	given := g.upto()
	if first := g.ring.next; first != &g.ring {
		given = first.given
	}
	if n := int(given - g.base); n > 0 {
		kept := copy(g.notes, g.notes[n:])
		clear(g.notes[kept:])
		g.notes, g.base = g.notes[:kept], given
	}
}

// reserve is the credit of a member in step: no more is owed to its link than that.
func (c *Core) reserve() uint64 { return uint64(c.cfg.Opening) / 2 }

// enter brings a stray into step that was given the last cast of its group, if it has the credit.
func (c *Core) enter(m *member) {
	g := m.group
	if !c.ample(&m.to.Peer.out) {
		return
	}
	m.to.Peer.step = m
	g.strays[m.index/64] &^= 1 << (m.index % 64)
	g.inStep++
	g.back(m)
}

// ample reports whether a link has credit enough to be in step.
func (c *Core) ample(o *outgoing) bool { return o.used-o.taken+c.reserve() <= o.window }

// catchUp gives the link to a peer what was cast to it. It comes before everything that looks at the
// link, or changes it.
func (c *Core) catchUp(p *Peer) { c.catchUpWith(p, &wire.Progress{}) }

// catchUpWith is catchUp of a peer that says what it has: nothing is kept for it of what it has already,
// but for the last packet.
func (c *Core) catchUpWith(p *Peer, k *wire.Progress) {
	m := p.step
	if m == nil || m.given == m.group.upto() {
		return
	}
	g := m.group
	acked := k.Acked
	if acked > g.last || k.Taken > p.out.used+g.bytes-g.notes[m.given-g.base].before {
		acked = 0 // it cannot be
	}
	c.give(p, acked)
	g.unlink(m)
	g.back(m)
	g.trim()
	c.stay(p)
}

// give puts on a link what it was not given, of which all up to a number has arrived.
func (c *Core) give(p *Peer, acked uint64) {
	g := p.step.group
	owed := g.notes[p.step.given-g.base:]
	for i, k := range owed {
		if i+1 < len(owed) && owed[i+1].n <= acked {
			p.out.count(k.n, k.f)
		} else {
			c.put(k.at, p, k.n, k.f)
		}
	}
	p.step.given = g.upto()
}

// stay lets a member go astray whose credit has become too small to be in step.
func (c *Core) stay(p *Peer) {
	if p.step != nil && !c.ample(&p.out) {
		c.part(p)
	}
}

// part makes a stray of a peer: something else than a cast of its group is about to be sent to it, or its
// link to be given up.
func (c *Core) part(p *Peer) {
	m := p.step
	if m == nil {
		return
	}
	c.give(p, 0)
	g := m.group
	g.unlink(m)
	g.trim()
	g.stray(m.index)
	g.inStep--
	p.step = nil
}

// scatter makes strays of all members.
func (c *Core) scatter(g *Group) {
	for g.inStep > 0 {
		c.part(g.ring.next.to.Peer)
	}
}

// makeRoom sees to it that all who are in step have credit for so much more. No cast is larger than the
// reserve.
func (c *Core) makeRoom(g *Group, size uint64) {
	for g.owes() > 0 && g.owes()+size > c.reserve() {
		c.catchUp(g.ring.next.to.Peer)
	}
}

// note has those who are in step be given a cast later: before its acknowledgement is late.
func (c *Core) note(now Instant, g *Group, f *frame) {
	g.last = c.n
	if g.inStep == 0 {
		return
	}
	g.notes = append(g.notes, note{n: c.n, f: f, at: now, before: g.bytes})
	g.bytes += f.cost()
	if !g.noted {
		g.noted = true
		c.groups = append(c.groups, g)
	}
	if due := c.dueOf(g); due < f.until {
		c.due = soonest(c.due, due)
	} else { // it is due before it is late
		c.level(g)
	}
}

// dueOf is when the first of the members is given what it is owed.
func (c *Core) dueOf(g *Group) Instant { return g.notes[0].at + Instant(c.cfg.MinRTO) }

// level gives all members what they are owed.
func (c *Core) level(g *Group) {
	for len(g.notes) > 0 {
		c.catchUp(g.ring.next.to.Peer)
	}
}

// levelAll is level for all groups.
func (c *Core) levelAll() {
	for _, g := range c.groups {
		c.level(g)
	}
}

// tickGroups gives members what they are owed for so long that its acknowledgement may be late.
func (c *Core) tickGroups(now Instant) {
	kept := c.groups[:0]
	for _, g := range c.groups {
		for len(g.notes) > 0 && c.dueOf(g) <= now {
			c.catchUp(g.ring.next.to.Peer)
		}
		if g.noted = len(g.notes) > 0; g.noted {
			kept = append(kept, g)
			c.due = soonest(c.due, c.dueOf(g))
		}
	}
	clear(c.groups[len(kept):])
	c.groups = kept
}
