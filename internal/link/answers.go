package link

import (
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// A cast whose answers fold on the way home would be acknowledged by every receiver, while few answers come
// home. So the answers stand for the acknowledgements:
//
//	sender                                      receiver
//	cast n ────────────────────────────────────▶ delivered
//	Reached ◀─ home ◀─ folded by others ◀──────── Answered: no acknowledgement is due
//
// Who does not answer in time acknowledges; of whom neither is heard is asked, as always.

// late is from when on an acknowledgement is late, or the answer that stands for it.
func (c *Core) late(o *outgoing) Instant {
	d := c.rto(o)
	if o.calm {
		d += c.cfg.AnswerWait
	}
	return Instant(d)
}

// hopes puts off the next beat: there was word of what has arrived.
func (c *Core) hopes(now Instant, p *Peer) {
	p.out.beatGap = 0
	p.out.beatAt = now + c.late(&p.out)
	c.watch(p, p.out.beatAt)
}

// Reached says that who got packet n, a cast, has answered it: that stands for its acknowledgement, and it is
// neither missed nor asked for. It is kept as any other until the receiver has said what it has, for this is
// the word of others (LINK-14).
func (c *Core) Reached(now Instant, p *Peer, n uint64) {
	if c.deaf(p) {
		return
	}
	c.catchUp(p)
	o := &p.out
	it := o.find(n)
	if it == nil || it.reached || !it.f.answers || !o.idleQueue() {
		return
	}
	it.reached, it.told = true, true
	it.pass()
	if o.reached++; o.calm && !o.wanted {
		c.hopes(now, p)
	}
}

// press asks the receiver what it has, answers or not: there is no credit for what waits, and only its own
// word gives more.
func (c *Core) press(now Instant, p *Peer) {
	o := &p.out
	if o.reached == 0 && !o.calm {
		return
	}
	for i := range o.sent {
		o.sent[i].reached = false
	}
	o.reached, o.calm, o.since, o.beatGap = 0, false, now, 0
	c.beat(now, p)
}

// sayCalmly is say of what need not be said when the answers to casts come before.
func (c *Core) sayCalmly(p *Peer, at Instant) {
	if p.in.sayAt == 0 {
		p.in.sayAt, p.in.calm = at, true
		c.watch(p, at)
	}
}

// Answered says that the answer to packet n, a cast, is on its way: it says what an acknowledgement would.
func (c *Core) Answered(p *Peer, n uint64) {
	in := &p.in
	if i := slices.Index(in.answers, n); i >= 0 {
		in.answers = slices.Delete(in.answers, i, i+1)
	}
	if len(in.answers) == 0 && in.calm {
		in.sayAt, in.calm = 0, false
	}
}

// Reached says that members of a group have answered packet n, a cast. See Core.Reached.
func (l *Links) Reached(g *Group, n uint64, members []int) {
	l.locked(func(now Instant) {
		for _, i := range members {
			l.core.Reached(now, g.members[i].to.Peer, n)
		}
	})
}

// Answered says that the answer to packet n of a process is on its way. See Core.Answered.
func (l *Links) Answered(from subjects.ProcessID, n uint64) {
	l.locked(func(Instant) {
		if p := l.core.Known(from); p != nil {
			l.core.Answered(p, n)
		}
	})
}
