package link

import (
	"sort"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// outgoing is the link to a peer, at its sender.
//
//	Send ─▶ queue ─ Next: credit, number ─▶ sent ─ acknowledged ─▶ forgotten
//	  └─▶ transfers ─ in parts ──▲            └─ missing ─▶ sent again
type outgoing struct {
	queue     []*frame
	transfers []*transfer
	size      int    // bytes in both
	frames    uint64 // that were queued so far
	partNext  bool

	sent        []item
	reached     int    // of them: packets that an answer says have arrived
	calm        bool   // of the others none need be acknowledged before AnswerWait
	start       uint64 // number of the packet that opened the link; 0: it is not open
	last, acked uint64
	used        uint64 // what has left, in the receiver's measure
	taken       uint64 // what of it has arrived
	window      uint64
	waitUsed    uint64 // the same of messages that wait for room
	waitTaken   uint64
	former      uint64 // the same of former openings: no more than this is not taken up

	heard        bool // the receiver has said something since the link was opened
	srtt, rttvar time.Duration
	since        Instant // when the receiver began to owe an answer
	beatAt       Instant
	beatGap      time.Duration
	nobody       Instant // since when the bus says that nobody listens; 0: it does not
	deadline     Instant // of what waits or has left, the first; 0: none
	again        uint64  // the life of the connection on which packets are to leave once more; 0: of none
	againFrom    uint64  // they have this number at least
	chunks       uint64  // IDs of transfers used
	confirmed    bool    // refusals: the receiver may have dropped what came before it had room for more
	wanted       bool    // somebody waits for room
	crowded      bool    // because all queues together are full
	posted       bool    // messages have left that can come back, on this link or a former one

	counts OutStats
}

// OutStats are the counts of a link at its sender.
type OutStats struct{ Sent, Retransmitted uint64 }

// item is a packet that has left on a link.
type item struct {
	n, prev uint64
	f       *frame
	at      Instant // when it left last
	sends   int
	hinted  bool    // the bus said that nobody listened to the first
	again   uint64  // the life of the connection on which it is to leave once more; 0: of none
	told    bool    // of a cast, whose frame is shared
	reached bool    // the same: who got it has answered
	asked   Instant // the same
	waiting []*Barrier
}

func (o *outgoing) idle() bool { return !o.asks() && o.idleQueue() }

func (o *outgoing) idleQueue() bool { return len(o.queue) == 0 && len(o.transfers) == 0 }

// asks reports whether the receiver owes an answer: an acknowledgement, or room that somebody waits for.
func (o *outgoing) asks() bool {
	return len(o.sent) > o.reached || o.wanted && o.start != 0 && o.waits() > 0
}

// credit reports whether so much more may be on the way. A window holds one packet, however small it is.
func (o *outgoing) credit(cost uint64) bool {
	flying := o.used - o.taken
	return o.start == 0 || flying == 0 || flying+cost <= o.window
}

// publish gives a frame its number and makes it ready.
func (c *Core) publish(now Instant, p *Peer, f *frame) {
	c.n++
	c.stats.Sent++
	prev := c.put(now, p, c.n, f)
	f.open = false
	f.lent++
	pub := Publish{frame: f, Subject: f.at(), To: p, N: c.n, Hint: !p.out.heard, Data: f.packet(wire.Head{
		Kind: wire.Data, Age: f.age(now), N: c.n, Prev: prev, Known: c.known(p),
	})}
	if len(pub.Data) <= c.limit {
		c.ready = append(c.ready, pub)
		return
	}
	c.ready = append(c.ready, c.cut(pub, prev)...)
}

// put puts a frame on a link, under a number.
func (c *Core) put(now Instant, p *Peer, n uint64, f *frame) (prev uint64) {
	o := &p.out
	asks := o.asks()
	if o.start == 0 {
		o.start, o.window = n, uint64(c.cfg.Opening)
	}
	switch {
	case !asks:
		o.since, o.beatGap, o.calm = now, 0, f.answers
		o.beatAt = now + c.late(o)
	case o.calm && !f.answers:
		o.calm = false
		o.beatAt = min(o.beatAt, now+c.late(o))
	}
	prev = o.last
	o.sent = append(o.sent, item{n: n, prev: prev, f: f, at: now, sends: 1, waiting: f.waiting})
	f.waiting = nil
	o.count(n, f)
	o.deadline = soonest(o.deadline, f.until)
	c.watch(p, soonest(o.beatAt, o.deadline))
	return prev
}

// count notes that a packet has left.
func (o *outgoing) count(n uint64, f *frame) {
	o.last = n
	o.used += f.cost()
	o.counts.Sent++
	o.posted = o.posted || f.posts
}

// cut is a packet, in pieces when the bus takes no more. prev is what its head says.
func (c *Core) cut(pub Publish, prev uint64) (pieces []Publish) {
	if len(pub.Data) <= c.limit {
		return []Publish{pub}
	}
	whole := pub.Data      // its frame stays lent: that its memory is not used again is no loss
	if pub.Subject != "" { // a piece goes where packets go, so the whole must say where it belongs
		head := wire.AppendHead(nil, wire.Head{Kind: wire.Repair, N: pub.N, Prev: prev})
		whole = wire.AppendRepair(head, pub.Subject, whole)
	}
	size := max(1, c.limit-2*wire.HeadSize)
	for at := 0; at < len(whole); at += size {
		data := wire.AppendHead(nil, wire.Head{Kind: wire.Piece, N: pub.N})
		data = wire.AppendPiece(data, wire.Cut{Offset: at, Total: len(whole)}, whole[at:min(at+size, len(whole))])
		pieces = append(pieces, Publish{To: pub.To, N: pub.N, Hint: pub.Hint, Data: data})
	}
	return pieces
}

// from is the index of the first packet that has left with that number or a later one.
func (o *outgoing) from(n uint64) int {
	return sort.Search(len(o.sent), func(i int) bool { return o.sent[i].n >= n })
}

// find returns the packet of a number that has left and is not acknowledged.
func (o *outgoing) find(n uint64) *item {
	if i := o.from(n); i < len(o.sent) && o.sent[i].n == n {
		return &o.sent[i]
	}
	return nil
}

// repair sends again what the receiver misses: pairs of numbers, after one up to another (LINK-4).
func (c *Core) repair(now Instant, p *Peer, missing []uint64) {
	for i := 0; i+1 < min(len(missing), 2*maxGaps+1); i += 2 {
		c.fill(now, p, missing[i], missing[i+1])
	}
	p.out.confirmed = p.out.confirmed && len(missing) == 0
}

// fill is repair for one gap.
func (c *Core) fill(now Instant, p *Peer, after, upto uint64) {
	o := &p.out
	switch {
	case c.deaf(p):
	case o.start == 0:
		c.gone(p, wire.BreakOf{N: c.n, Text: "what is missing was given up"})
	case upto < o.start:
		c.gone(p, wire.BreakOf{N: o.start - 1, Text: "what is missing was given up"})
	case !c.up:
	case upto > o.last: // it cannot have heard that from us
		c.beat(now, p)
	case after >= o.acked:
		for i := o.from(after + 1); i < len(o.sent) && o.sent[i].n <= upto; i++ {
			// Asked for again so soon: the question is older than the answer, unless that was dropped.
			if it := &o.sent[i]; it.sends == 1 || o.confirmed && it.at < now || now-it.at >= Instant(max(o.srtt, c.cfg.MinRTO)) {
				c.resend(p, it)
			}
		}
	}
}

// resend has a packet leave once more. Of a peer's packets the first that is missing leaves first, however often they
// are asked for: what is behind it, and asked for before, may be more than gets through before the next cut (LINK-4).
func (c *Core) resend(p *Peer, it *item) {
	o := &p.out
	if it.again == c.life {
		return
	}
	it.again = c.life
	if o.again != c.life {
		o.again, o.againFrom = c.life, it.n
		c.ready = append(c.ready, Publish{To: p, again: true})
	}
	o.againFrom = min(o.againFrom, it.n)
}

// leaveAgain makes packets of the first one that is to leave once more; none when all of those were acknowledged or
// given up meanwhile.
func (c *Core) leaveAgain(now Instant, p *Peer) []Publish {
	o := &p.out
	i := o.from(o.againFrom)
	for i < len(o.sent) && o.sent[i].again != c.life {
		i++
	}
	if i == len(o.sent) {
		o.again = 0
		return nil
	}
	it := &o.sent[i]
	o.againFrom = it.n + 1
	c.ready = append(c.ready, Publish{To: p, again: true})
	f := it.f
	it.again, it.at = 0, now
	it.sends++
	p.out.counts.Retransmitted++
	c.stats.Retransmitted++
	pub := Publish{To: p, N: it.n, Hint: !p.out.heard}
	head := wire.Head{Kind: wire.Data, Age: f.age(now), N: it.n, Prev: it.prev}
	if f.subject != "" {
		head.Kind = wire.Repair
		pub.Data = wire.AppendRepair(wire.AppendHead(nil, head), f.subject, f.whole)
	} else {
		// To the process: at the port itself nobody may listen, and its process knows why.
		pub.Data = append(wire.AppendHead(make([]byte, 0, len(f.buf)), head), f.buf[headroom:]...) // f.buf may be in hand
	}
	return c.cut(pub, it.prev)
}

// beat asks the receiver what it has. While the bus says that nobody listens it is asked more often.
func (c *Core) beat(now Instant, p *Peer) {
	o := &p.out
	least := c.rto(o)
	if o.nobody != 0 {
		least = c.cfg.MinRTO
	}
	o.beatGap = min(max(2*o.beatGap, least), c.cfg.MaxBeat)
	o.beatAt = now + Instant(o.beatGap)
	c.watch(p, o.beatAt)
	c.stats.Beats++
	c.ready = append(c.ready, Publish{To: p, Hint: true, Data: wire.AppendHead(nil, wire.Head{Kind: wire.Beat, N: o.last, Prev: o.acked, Known: c.known(p)})})
}

// rto is how long an acknowledgement may take.
func (c *Core) rto(o *outgoing) time.Duration {
	if o.srtt == 0 {
		return c.cfg.FirstRTO
	}
	return min(max(o.srtt+4*o.rttvar, c.cfg.MinRTO), c.cfg.MaxBeat)
}

// sample takes the time between a packet and its acknowledgement into account (RFC 6298).
func (o *outgoing) sample(rtt time.Duration) {
	if o.srtt == 0 {
		o.srtt, o.rttvar = rtt, rtt/2
		return
	}
	o.rttvar += (max(o.srtt-rtt, rtt-o.srtt) - o.rttvar) / 4
	o.srtt += (rtt - o.srtt) / 8
}
