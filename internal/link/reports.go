package link

import (
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/internal/wire"
)

// say sees to it that the sender is told how far the link is, at the latest at a time.
func (c *Core) say(p *Peer, at Instant) {
	p.in.sayAt, p.in.calm = soonest(p.in.sayAt, at), false
	c.watch(p, at)
}

// window is what a peer may have on the way: its share of what all may.
func (c *Core) window() uint64 {
	share := c.cfg.WindowAll / max(1, c.senders)
	return uint64(min(c.cfg.Window, max(share, packetCost)))
}

// sayEvery is how many bytes are acknowledged at once: a part of what the sender may have on the way,
// which knows of no window yet when nothing was said since it opened the link.
func (c *Core) sayEvery(in *incoming) uint64 {
	if in.said == 0 {
		return min(c.window(), uint64(c.cfg.Opening)) / 4
	}
	return c.window() / 4
}

func (c *Core) progress(in *incoming) wire.Progress {
	return wire.Progress{Acked: in.acked, Taken: in.taken, Window: c.window(), Waited: in.waited}
}

// known is what a packet to p tells of the link from it; nil when there is nothing new, or more than
// fits a head.
func (c *Core) known(p *Peer) *wire.Progress {
	in := &p.in
	if in.sayAt == 0 && in.unsaid == 0 || len(in.refused) > 0 || in.missing != 0 || in.acked == 0 || in.former != in.saidFormer {
		return nil
	}
	k := c.progress(in)
	in.hasSaid()
	return &k
}

func (in *incoming) hasSaid() {
	in.sayAt, in.unsaid, in.said, in.saidWaited = 0, 0, in.taken, in.waited
	in.calm = false
	in.answers = slices.DeleteFunc(in.answers, func(n uint64) bool { return n <= in.acked })
}

// state tells the sender of the link from p all there is to say, and of refusals as many as fit: what
// comes after the first that does not is not acknowledged yet.
func (c *Core) state(now Instant, p *Peer) {
	in := &p.in
	s := &wire.StateOf{Progress: c.progress(in), First: in.first, Former: in.former}
	in.saidFormer = in.former
	s.Refused = append(s.Refused, in.refused[:c.fits(in.refused)]...)
	if rest := in.refused[len(s.Refused):]; len(rest) > 0 {
		s.Progress.Acked = min(s.Progress.Acked, rest[0].N-1)
	}
	s.Missing = c.asks(now, p)
	in.hasSaid()
	if len(in.refused) > 0 {
		c.say(p, now+Instant(c.rto(&p.out))) // until it is confirmed
	}
	c.control(p, wire.State, s)
}

// refusalCost is what a refusal takes besides its reason.
const refusalCost = 40

// fits is how many refusals go into one packet, one at least.
func (c *Core) fits(all []wire.Refusal) int {
	size := 0
	for i, r := range all {
		if size += len(r.Why) + refusalCost; i > 0 && size > c.limit/2 {
			return i
		}
	}
	return len(all)
}

// tickIn does what is due on the link from a peer, and says when the next thing is.
func (c *Core) tickIn(now Instant, p *Peer) (next Instant) {
	in := &p.in
	if in.idle() {
		return 0
	}
	silent := c.silent(p)
	switch {
	case silent <= now && c.up && in.waits():
		c.shut(p, 0)
		c.broken(p, &Error{Reason: LinkOver, Text: fmt.Sprintf("%s is silent, and owes the rest of what it has sent", p.id)})
		return 0
	case in.sayAt != 0 && in.sayAt <= now, in.missing != 0 && in.missAt <= now:
		c.state(now, p)
	}
	if in.waits() && c.up {
		next = silent
	}
	if in.missing != 0 {
		next = soonest(next, in.missAt)
	}
	return soonest(next, in.sayAt)
}

// silent is when a peer has said nothing for too long.
func (c *Core) silent(p *Peer) Instant { return p.heard + Instant(c.cfg.Silence) }

// refuse tells a peer that what it sends cannot be, and that its link is over.
func (c *Core) refuse(p *Peer, n uint64, text string) {
	c.stats.Malformed++
	c.notOpen(p, n, text)
}

// notOpen tells a peer that its link is over, which it may not have heard.
func (c *Core) notOpen(p *Peer, n uint64, text string) {
	c.control(p, wire.Break, wire.BreakOf{N: n, Text: bounded(text)})
}

// OnHead takes what the head of any packet of p says of the link to it.
func (c *Core) OnHead(now Instant, p *Peer, k *wire.Progress) error {
	c.alive(now, p)
	if k == nil {
		return nil
	}
	c.catchUpWith(p, k)
	if err := c.check(p, k); err != nil {
		return err
	}
	c.progressed(now, p, k)
	return nil
}

// OnBeat takes the sender's word that packet n was the last, and that all up to acked has arrived once.
func (c *Core) OnBeat(now Instant, p *Peer, n, acked uint64) {
	in := &p.in
	if c.deaf(p) {
		return
	}
	c.alive(now, p)
	if acked > in.last || in.start == 0 && n <= in.last {
		c.notOpen(p, n, fmt.Sprintf("the link that packet %d is of is not open any more", n))
		return
	}
	in.top, in.missAt = n, now // also when it is less than somebody claimed before
	c.state(now, p)
}

// OnConfirm takes the sender's word that it knows the refusals before a number.
func (c *Core) OnConfirm(now Instant, p *Peer, next uint64) {
	in := &p.in
	if next <= in.first || next > in.first+uint64(len(in.refused)) {
		return // old, or nonsense
	}
	known := int(next - in.first)
	in.refused, in.first = append([]wire.Refusal(nil), in.refused[known:]...), next
	switch {
	case len(in.refused) > 0 || in.unsaid > 0 || in.waited != in.saidWaited || in.former != in.saidFormer:
		c.say(p, now+Instant(c.cfg.AckDelay))
	default:
		in.sayAt = 0
	}
	c.miss(now, p)
}

// maxTombs bounds how many runs of messages of all peers must not be delivered.
const maxTombs = 1 << 16

// OnQuery takes the sender's question whether messages were delivered. Those that were not shall not be
// (LINK-8).
func (c *Core) OnQuery(now Instant, p *Peer, q *wire.QueryOf) {
	in := &p.in
	if c.deaf(p) {
		return
	}
	c.alive(now, p)
	was := in.tombs[q.N]
	switch {
	case q.N <= in.last:
		c.state(now, p)
	case len(q.Indexes)%2 != 0 || len(q.Indexes) == 0:
		c.stats.Malformed++
	case len(in.tombs) >= c.cfg.Refusals && was == nil || len(was)+len(q.Indexes) > 2*c.cfg.Refusals, c.tombs >= maxTombs: // then it cannot be known
	default:
		if in.tombs == nil {
			in.tombs = map[uint64][]int{}
		}
		in.tombs[q.N] = append(was, q.Indexes...)
		c.tombs += len(q.Indexes) / 2
		c.control(p, wire.Verdict, *q)
	}
}

// OnResume takes a receiver's word that it was away.
func (c *Core) OnResume(now Instant, p *Peer) {
	c.alive(now, p)
	c.catchUp(p)
	if p.out.asks() && c.up {
		p.out.beatGap = 0
		c.beat(now, p)
	}
}

// OnGone takes a sender's word that it has given up its link: what it owes us up to a number will not
// come. It reports whether that is news.
func (c *Core) OnGone(p *Peer, g *wire.BreakOf) bool {
	in := &p.in
	if c.deaf(p) || g.N < in.last {
		return false
	}
	news := in.start != 0 || len(in.parked) > 0
	c.shut(p, g.N)
	if news {
		why := &Error{Reason: LinkOver, Text: g.Text}
		if g.Closed || g.Text == wire.ClosedText { // its Bye travels on the other lane, and may come later
			why = &Error{Reason: Departed, Text: p.id.String() + " has closed its links"}
		}
		c.broken(p, why)
	}
	return news
}

// Taken says that messages of p that waited for room have been taken up, or refused.
func (c *Core) Taken(now Instant, p *Peer, bytes uint64) {
	in := &p.in
	in.held -= int64(bytes)
	if c.deaf(p) || in.start == 0 {
		return
	}
	former := min(bytes, in.former)
	in.former -= former
	in.waited += bytes - former
	if in.waited-in.saidWaited+in.saidFormer-in.former >= uint64(c.cfg.WaitWindow)/4 {
		c.state(now, p)
	} else {
		c.say(p, now+Instant(c.cfg.AckDelay))
	}
}
