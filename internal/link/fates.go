package link

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

const (
	expiredText = "it did not arrive within its deadline"
	unknownText = "nobody said within its deadline whether it arrived"
)

// tell gives count messages of a run a fate (LINK-3).
func (c *Core) tell(p *Peer, o *owed, count int, fate Fate) {
	if fate.Known {
		c.stats.Undeliverable += uint64(count)
	} else {
		c.stats.Indeterminate += uint64(count)
	}
	fate.Mark, fate.Peer, fate.Count = o.mark, p, count
	c.do(Effect{Kind: Told, Peer: p, Fate: fate})
}

// settle gives those messages of a packet a fate that have none, from an index up to another one. Who waits for the
// packet is told by pass.
func (c *Core) settle(p *Peer, it *item, from, to int, fate Fate) {
	f := it.f
	first := sort.Search(len(f.owed), func(i int) bool { return f.owed[i].first+f.owed[i].count > from })
	for i := first; i < len(f.owed) && f.owed[i].first < to; i++ { // a packet has thousands, which come back one by one
		o := &f.owed[i]
		lo, hi := max(from, o.first), min(to, o.first+o.count)
		switch {
		case o.told || it.told || lo >= hi:
		case lo > o.first:
			f.split(i, lo-o.first) // the rest is next
		default:
			if hi < o.first+o.count {
				f.split(i, hi-o.first)
				o = &f.owed[i]
			}
			c.tell(p, o, o.count, fate)
			if f.subject != "" { // it has one message, and is told for each link
				it.told = true
			} else {
				o.told = true
			}
		}
	}
}

// all is more than a packet has messages.
const all = int(^uint(0) >> 1)

// OnState takes what the receiver of the link to p says it has. An error says that it cannot be true.
func (c *Core) OnState(now Instant, p *Peer, s *wire.StateOf) error {
	if c.deaf(p) {
		return nil
	}
	c.alive(now, p)
	if len(s.Refused) > 0 {
		c.catchUp(p) // with all that may be refused
	}
	c.catchUpWith(p, &s.Progress)
	if err := c.check(p, &s.Progress); err != nil {
		return err
	}
	c.refusedBy(p, s)
	if p.out.current(&s.Progress) {
		p.out.former = min(p.out.former, s.Former)
	}
	c.progressed(now, p, &s.Progress)
	c.repair(now, p, s.Missing)
	return nil
}

// check says why what a peer claims to have cannot be true.
func (c *Core) check(p *Peer, k *wire.Progress) error {
	o := &p.out
	switch {
	case k.Acked > c.n || o.start != 0 && k.Acked > o.last:
	case o.current(k) && k.Taken > o.used:
	default:
		return nil
	}
	return fmt.Errorf("link: %s claims to have %d bytes of %d, up to packet %d of %d", p.id, k.Taken, o.used, k.Acked, o.last)
}

// current reports whether somebody speaks of the link as it was opened last.
func (o *outgoing) current(k *wire.Progress) bool { return o.start != 0 && k.Acked >= o.start }

// progressed takes acknowledgements and credit. What is behind what is known already is old.
func (c *Core) progressed(now Instant, p *Peer, k *wire.Progress) {
	o := &p.out
	if !o.current(k) || k.Acked < o.acked {
		return
	}
	o.heard = true
	// A peer may count what was sent before the link was opened, too: hence the min.
	o.taken, o.waitTaken = max(o.taken, k.Taken), max(o.waitTaken, min(k.Waited, o.waitUsed))
	if k.Window != 0 {
		o.window = min(k.Window, uint64(c.cfg.Window))
	}
	gone := o.from(k.Acked + 1)
	for i := range o.sent[:gone] {
		it := &o.sent[i]
		if it.reached {
			o.reached--
		}
		if it.n == k.Acked && it.sends == 1 && !it.f.answers {
			o.sample(time.Duration(now - it.at))
		}
		it.drop()
		c.reuse(it.f)
	}
	if gone > 0 {
		o.forget(gone)
		o.acked = k.Acked
		o.calm = len(o.sent) > 0 && !slices.ContainsFunc(o.sent, func(it item) bool { return !it.f.answers })
		c.hopes(now, p)
	}
	c.stay(p)
	c.roomFor(p)
	c.toTurn(p)
}

// keepSent is how much room for packets a link at rest keeps.
const keepSent = 8

// forget drops the first packets that have left.
func (o *outgoing) forget(n int) {
	clear(o.sent[:n])
	switch {
	case n < len(o.sent):
		o.sent = o.sent[n:]
	case cap(o.sent) <= keepSent:
		o.sent = o.sent[:0]
	default:
		o.sent = nil
	}
}

// drop ends what a link keeps of a packet.
func (it *item) drop() {
	if it.f.part != nil {
		it.f.part.flying--
	}
	pass(it.waiting)
	it.waiting = nil
}

// refusedBy gives the messages that came back their fate, once each, and lets the receiver know.
func (c *Core) refusedBy(p *Peer, s *wire.StateOf) {
	if len(s.Refused) == 0 {
		return
	}
	var last *item
	for _, r := range s.Refused {
		it := p.out.find(r.N)
		if it != last && last != nil {
			last.pass()
		}
		if last = it; it != nil && r.Index >= 0 && r.Count > 0 && r.Count < all-r.Index {
			fate := Fate{Known: true, Reason: Refused, Why: r.Why}
			if len(r.Why) == 0 { // it was asked for when its deadline had come, and then came
				fate.Reason, fate.Text = Expired, expiredText
			}
			c.settle(p, it, r.Index, r.Index+r.Count, fate)
		}
	}
	if last != nil {
		last.pass()
	}
	p.out.confirmed = true
	c.control(p, wire.Confirm, wire.ConfirmOf{Next: s.First + uint64(len(s.Refused))})
}

// OnVerdict takes the receiver's word that messages have not arrived and never will.
func (c *Core) OnVerdict(p *Peer, v *wire.QueryOf) {
	c.catchUp(p)
	it := p.out.find(v.N)
	if it == nil {
		return
	}
	for i := 0; i+1 < len(v.Indexes); i += 2 {
		if first, count := v.Indexes[i], v.Indexes[i+1]; first >= 0 && count > 0 && count < all-first {
			c.settle(p, it, first, first+count, Fate{Known: true, Reason: Expired, Text: expiredText})
		}
	}
	it.pass()
}

// OnBreak takes the receiver's word that it refuses the link.
func (c *Core) OnBreak(p *Peer, b *wire.BreakOf) {
	c.catchUp(p)
	if o := &p.out; o.start != 0 && b.N >= o.start && b.N <= o.last {
		c.giveUp(p, LinkOver, b.Text)
	}
}

// OnHint takes the bus's word that nobody listened where packet n was published; 0: where a beat was.
// It is believed when it says so for long enough.
func (c *Core) OnHint(now Instant, p *Peer, n uint64) {
	c.catchUp(p)
	o := &p.out
	if it := o.find(n); it != nil && it.sends == 1 {
		it.hinted = true
	}
	switch {
	case !o.asks():
	case o.nobody == 0:
		o.nobody, o.beatGap = now, 0
		o.beatAt = now + Instant(c.cfg.MinRTO)
		c.watch(p, o.beatAt)
	case now-o.nobody >= c.patient(p):
		c.giveUp(p, NoProcess, "nobody listens there: process "+p.id.String()+" does not exist or is gone")
	}
}

// patient is how long the bus may say that nobody listens at a peer before that is believed: who was
// heard of may be connecting anew.
func (c *Core) patient(p *Peer) Instant {
	if p.met {
		return Instant(c.cfg.Away)
	}
	return Instant(c.cfg.Nobody)
}

// alive notes that a peer was heard of.
func (c *Core) alive(now Instant, p *Peer) {
	p.heard = max(p.heard, now)
	p.met = true
	p.out.nobody = 0
}

// OnBye takes a peer's word that it is about to close its links, and says no more.
func (c *Core) OnBye(p *Peer) { p.met = false }

// giveUp ends the link to a peer: everything on its way gets a fate, and the next message opens the
// link anew (LINK-6).
func (c *Core) giveUp(p *Peer, why Reason, text string) {
	c.part(p)
	o := &p.out
	if o.idle() && (o.start == 0 || why == Closed || why == NoBus) { // nobody is owed a word
		return
	}
	fate := Fate{Reason: why, Text: text}
	for i := range o.sent {
		it := &o.sent[i]
		fate.Known = it.hinted && it.sends == 1 // nobody got the only copy there was
		c.settle(p, it, 0, all, fate)
		it.pass()
		it.drop()
	}
	fate.Known = true // of what has not left whole
	for _, f := range o.queue {
		for i := range f.owed {
			c.tell(p, &f.owed[i], f.owed[i].count, fate)
		}
		pass(f.waiting)
	}
	for _, t := range o.transfers {
		c.tell(p, &owed{mark: t.mark}, 1, fate)
		pass(t.waiting)
		for i := range t.followers {
			c.tell(p, &owed{mark: t.followers[i].mark}, 1, fate)
			pass(t.followers[i].waiting)
		}
	}
	if why != Dead && o.start != 0 {
		c.gone(p, wire.BreakOf{N: o.last, Text: text, Closed: why == Closed})
	}
	c.shrink(p, o.size)
	*o = outgoing{
		frames: o.frames, chunks: o.chunks, former: o.waits(), wanted: o.wanted, crowded: o.crowded, posted: o.posted,
		again: o.again, againFrom: o.againFrom, counts: o.counts,
	}
	c.broken(p, &Error{Reason: why, Text: text})
}

// gone tells the receiver that nothing up to a number will come any more.
func (c *Core) gone(p *Peer, g wire.BreakOf) {
	g.Text = bounded(g.Text)
	c.control(p, wire.Gone, g)
}

// bounded is a text short enough for a control packet.
func bounded(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), 512)], "")
}
