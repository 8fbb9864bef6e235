package link

import (
	"slices"

	"github.com/castnet-io/castnet/internal/wire"
)

// Cast is one message to many processes.
type Cast struct {
	Subject  string         // where it goes; "": to each member by itself
	Members  []*Target      // the port in each process, each process once
	Envelope *wire.Envelope // its Ext is made by Head
	// Head makes the ext of the packet that is published, from what each member must have seen before, in
	// the order of Members: a number, 0 for a link that it opens, or one of the two marks below.
	Head func(prevs []uint64) ([]byte, error)
	// Alone makes the ext of the packet that goes to one member by itself.
	Alone func(member int) ([]byte, error)
	Mark  Mark
	Until Instant
}

// What a cast says of a member instead of a number.
const (
	Settled = ^uint64(0)     // it has acknowledged everything
	Left    = ^uint64(0) - 1 // it is not meant by this packet
)

// Cast takes one number for all members and makes one packet ready (LINK-7). A member whose link has
// something queued or no credit, or for which the packet is too large, gets the message by itself. An
// error of a member says that nothing was sent to it, and err that nothing was sent at all.
func (c *Core) Cast(now Instant, k *Cast) (failed map[int]error, err error) {
	if k.Until == 0 {
		k.Until = now + Instant(c.cfg.Deadline)
	}
	size := k.Envelope.Len() + packetCost + margin
	fits := k.Subject != "" && size+castHead(len(k.Members)) <= c.chunkSize()+margin
	c.prevs = slices.Grow(c.prevs[:0], len(k.Members))[:len(k.Members)]
	prevs := c.prevs
	joined := 0
	for i, m := range k.Members {
		o := &m.Peer.out
		switch {
		case c.deaf(m.Peer), !fits, !c.up, !o.idleQueue(), !o.credit(uint64(size)):
			prevs[i] = Left
			continue
		case o.start == 0:
			prevs[i] = 0
		case len(o.sent) == 0:
			prevs[i] = Settled
		default:
			prevs[i] = o.last
		}
		joined++
	}
	if joined > 0 {
		if err := c.castAll(now, k, prevs); err != nil {
			return nil, err
		}
	}
	for i, m := range k.Members {
		if prevs[i] != Left {
			continue
		}
		if err := c.castAlone(now, k, i, m); err != nil {
			if failed == nil {
				failed = map[int]error{}
			}
			failed[i] = err
		}
	}
	return failed, nil
}

// castAlone sends a cast to one member by itself.
func (c *Core) castAlone(now Instant, k *Cast, i int, m *Target) (err error) {
	e := *k.Envelope
	if e.Ext, err = k.Alone(i); err != nil {
		return err
	}
	return c.Send(now, m, &e, k.Mark, k.Until)
}

// castHead is room for what a cast says of its members, when their links are in different states.
func castHead(members int) int { return min(members*12, 64<<10) }

// castAll publishes a cast for the members that are not Left; when what must be said of them does not
// fit, they all are.
func (c *Core) castAll(now Instant, k *Cast, prevs []uint64) (err error) {
	e := *k.Envelope
	if e.Ext, err = k.Head(prevs); err != nil {
		return err
	}
	if e.Size()+headroom > c.limit {
		for i := range prevs {
			prevs[i] = Left
		}
		return nil
	}
	f := newFrame(now, k.Members[0])
	m := k.Mark
	m.Sender = e.Sender
	f.add(&e, f.to, &m, k.Until)
	f.open, f.subject = false, k.Subject
	c.n++
	f.whole = f.packet(wire.Head{Kind: wire.Data, N: c.n})
	for i, member := range k.Members {
		if prevs[i] != Left {
			c.join(now, member.Peer, f)
		}
	}
	c.ready = append(c.ready, Publish{Subject: k.Subject, N: c.n, Data: f.whole})
	return nil
}
