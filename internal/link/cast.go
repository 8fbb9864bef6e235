package link

import (
	"github.com/castnet-io/castnet/internal/wire"
)

// Cast is one message to many processes.
type Cast struct {
	Subject  string // where it goes; "": to each member by itself
	Group    *Group
	Envelope *wire.Envelope // its Ext is made by Runs
	// Runs makes the ext of the packet that is published, from what the members must have seen before, run
	// by run in their order. The slice is used again.
	Runs func(prevs []Run) ([]byte, error)
	// Alone makes the ext of the packet that goes to one member by itself.
	Alone func(member int) ([]byte, error)
	Mark  Mark
	Until Instant
	// Answers says that who has answered it is told of by Reached: where it is published to many, its
	// receivers need not acknowledge it, and it is not missed, for AnswerWait.
	Answers bool

	N uint64 // set: the number that the members share to whom it was published; 0: there are none
}

// Run is what Count members in a row must have seen before: a number, 0 for a link that the cast opens, or
// one of the two marks below.
type Run struct {
	Count int
	Prev  uint64
}

// What a cast says of a member instead of a number.
const (
	Settled = ^uint64(0)     // it has acknowledged everything
	Left    = ^uint64(0) - 1 // it is not meant by this packet
)

// looked is a member that was looked at, and what the cast says of it.
type looked struct {
	m    *member
	prev uint64
}

// Cast takes one number for all members and makes one packet ready (LINK-7). A member whose link has
// something queued or no credit, or for which the packet is too large, gets the message by itself. An
// error of a member says that nothing was sent to it, and err that nothing was sent at all.
func (c *Core) Cast(now Instant, k *Cast) (failed map[int]error, err error) {
	g := k.Group
	if k.Until == 0 {
		k.Until = now + Instant(c.cfg.Deadline)
	}
	if joined := c.look(g, k); joined > 0 {
		if err := c.castAll(now, k, g, joined); err != nil {
			return nil, err
		}
	}
	for _, l := range c.looked {
		if l.prev != Left {
			continue
		}
		if err := c.castAlone(now, k, l.m); err != nil {
			if failed == nil {
				failed = map[int]error{}
			}
			failed[l.m.index] = err
		}
	}
	return failed, nil
}

// castAlone sends a cast to one member by itself.
func (c *Core) castAlone(now Instant, k *Cast, m *member) (err error) {
	e := *k.Envelope
	if e.Ext, err = k.Alone(m.index); err != nil {
		return err
	}
	return c.Send(now, m.to, &e, k.Mark, k.Until)
}

// castHead is room for what a cast says of members that are in different states.
func castHead(members int) int { return min(members*12, 64<<10) }

// look finds out what a cast says of each member, and how many it is meant for. Only the strays are looked
// at; where those in step cannot all take it, all are strays.
func (c *Core) look(g *Group, k *Cast) (joined int) {
	size := k.Envelope.Len() + packetCost + margin
	fits := k.Subject != "" && c.up && c.closed == nil && size+castHead(len(g.members)) <= c.chunkSize()+margin
	if most := uint64(size + castHead(len(g.members)-g.inStep)); fits && most <= c.reserve() {
		c.makeRoom(g, most)
	} else {
		c.scatter(g)
	}
	c.looked = c.looked[:0]
	for m := range g.astray() {
		prev := Left
		if fits {
			prev = c.castPrev(m.to.Peer, uint64(size))
		}
		if prev != Left {
			joined++
		}
		c.looked = append(c.looked, looked{m, prev})
	}
	return g.inStep + joined
}

// castPrev is what a cast says of a stray.
func (c *Core) castPrev(p *Peer, size uint64) uint64 {
	c.part(p) // from another group
	o := &p.out
	switch {
	case c.deaf(p), !o.idleQueue(), !o.credit(size):
		return Left
	case o.start == 0:
		return 0
	case len(o.sent) == 0:
		return Settled
	}
	return o.last
}

// castAll publishes a cast for the members that are not Left; when what must be said of them does not
// fit, they all are.
func (c *Core) castAll(now Instant, k *Cast, g *Group, joined int) (err error) {
	e := *k.Envelope
	if e.Ext, err = c.castExt(k, g); err != nil {
		return err
	}
	if e.Size()+headroom > c.limit {
		c.scatter(g)
		c.looked = c.looked[:0]
		for m := range g.astray() {
			c.looked = append(c.looked, looked{m, Left})
		}
		return nil
	}
	f := newFrame(now, g.members[0].to)
	m := k.Mark
	m.Sender, m.To = e.Sender, f.to // of all members: the names are the same
	f.add(&e, f.to, &m, k.Until)
	f.open, f.subject, f.answers = false, k.Subject, k.Answers
	c.n++
	k.N = c.n
	c.stats.Sent += uint64(joined)
	f.whole = f.packet(wire.Head{Kind: wire.Data, N: c.n})
	c.note(now, g, f)
	for _, l := range c.looked {
		if l.prev != Left {
			c.put(now, l.m.to.Peer, c.n, f)
			c.enter(l.m)
		}
	}
	c.ready = append(c.ready, Publish{Subject: k.Subject, N: c.n, Data: f.whole})
	return nil
}

// castExt makes the ext of a packet for all members.
func (c *Core) castExt(k *Cast, g *Group) ([]byte, error) {
	c.runs = c.runs[:0]
	at := 0
	for _, l := range c.looked {
		c.run(l.m.index-at, g.last)
		c.run(1, l.prev)
		at = l.m.index + 1
	}
	c.run(len(g.members)-at, g.last)
	return k.Runs(c.runs)
}

// run adds members to what a cast says.
func (c *Core) run(count int, prev uint64) {
	if last := len(c.runs) - 1; last >= 0 && c.runs[last].Prev == prev {
		c.runs[last].Count += count
	} else if count > 0 {
		c.runs = append(c.runs, Run{count, prev})
	}
}
