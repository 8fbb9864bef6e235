package link

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/castnet-io/castnet/internal/wire"
)

// incoming is the link from a peer, at its receiver.
type incoming struct {
	start uint64 // number of the packet that opened it; 0: it is not open, and only an opening is taken
	last  uint64 // the last packet that came in order, or will never
	acked uint64 // the last whose messages are all in mailboxes, or refused
	taken uint64 // bytes since the link was opened
	said  uint64 // taken, when that was said last

	waited     uint64 // bytes of messages that waited for room and were taken up
	saidWaited uint64 // waited, when that was said last
	held       int64  // the same that are not taken up, of former openings, too; less than none: more will be said to have come
	former     uint64 // of held: what came before the link was opened; it counts as taken up first
	saidFormer uint64 // former, when that was said last

	parked     []Arrival // behind a gap, by number
	parkedSize int
	top        uint64  // the highest number that is known to have been sent
	missing    uint64  // what is missing up to this was asked for; 0: nothing was
	missAt     Instant // when it is asked for again
	stuckSince Instant

	unsaid  int      // packets that are not acknowledged
	sayAt   Instant  // when they must be; 0: there is nothing to say
	calm    bool     // sayAt is but for casts whose answers may come before
	answers []uint64 // casts that are not acknowledged, whose answers will say so
	refused []wire.Refusal
	first   uint64           // the number of refused[0]
	tombs   map[uint64][]int // messages that must not be delivered any more, by packet

	pieces assembly
	chunks map[uint64]*assembly

	counts InStats
}

// InStats are the counts of a link at its receiver.
type InStats struct{ Delivered, Duplicates, Gaps, Overrun uint64 }

func (in *incoming) idle() bool { return in.sayAt == 0 && !in.waits() }

// waits reports whether the sender owes something: what is missing, the rest of what came in part, or
// that it knows what was refused.
func (in *incoming) waits() bool {
	return in.missing != 0 || len(in.refused) > 0 || len(in.chunks) > 0 || len(in.pieces.buf) > 0
}

// Arrival is a packet that came on a link.
type Arrival struct {
	N, Prev uint64
	Settled bool   // of a cast: all before it was acknowledged, and Prev says nothing
	Answers bool   // of a cast: see Cast
	Size    int    // of its envelopes
	Packet  any    // what the caller needs to deliver it
	Waits   uint64 // set before Done: bytes of its messages that wait for room, of which Taken will be told

	// Set by the Core:
	Came Instant // when a packet arrived that waited for another; 0: it did not wait
	Skip []int   // messages that must not be delivered, as pairs of index and count
}

// Arrive takes a packet. It returns true when its messages are to be delivered now; Done must follow.
// Else it was here before, or comes later, from Done.
func (c *Core) Arrive(now Instant, p *Peer, a Arrival) (Arrival, bool) {
	in := &p.in
	if c.deaf(p) {
		return a, false
	}
	c.alive(now, p)
	c.watch(p, 0)
	switch opens := a.Prev == 0 && !a.Settled; {
	case a.N == 0 || a.Prev >= a.N:
		c.refuse(p, a.N, fmt.Sprintf("packet %d claims to follow %d", a.N, a.Prev))
		return a, false
	case a.N <= in.last:
		c.duplicate(in)
		c.say(p, now+Instant(c.cfg.AckDelay)/4)
		return a, false
	case c.full(in): // the sender must know of these refusals before there are more
		c.overrun(in)
		in.top = max(in.top, a.N)
		return a, false
	case opens:
		c.openIn(p, a.N)
	case in.start == 0 && (a.Settled || a.Prev <= in.last):
		c.notOpen(p, a.N, fmt.Sprintf("packet %d continues a link that is not open", a.N))
		return a, false
	case a.Settled || a.Prev == in.last:
	case a.Prev < in.last:
		c.refuse(p, a.N, fmt.Sprintf("packet %d claims to follow %d, but %d came after that", a.N, a.Prev, in.last))
		return a, false
	default:
		c.park(now, p, a)
		return a, false
	}
	return c.accept(p, a), true
}

func (c *Core) duplicate(in *incoming) {
	in.counts.Duplicates++
	c.stats.Duplicates++
}

// overrun counts a packet that had to be dropped and will come again.
func (c *Core) overrun(in *incoming) {
	in.counts.Overrun++
	c.stats.Overrun++
}

// full reports whether nothing more is taken before the sender has confirmed what was refused.
func (c *Core) full(in *incoming) bool { return len(in.refused) >= c.cfg.Refusals }

// accept makes a packet the last of its link.
func (c *Core) accept(p *Peer, a Arrival) Arrival {
	in := &p.in
	in.last = a.N
	in.taken += uint64(a.Size + packetCost)
	if a.Answers {
		in.answers = append(in.answers, a.N)
	}
	if a.Skip = in.tombs[a.N]; a.Skip != nil {
		c.bury(in, a.N)
	}
	if in.pieces.n <= a.N {
		c.dropPieces(in)
	}
	in.counts.Delivered++
	c.stats.Delivered++
	return a
}

// openIn starts the link anew. What is known of it before belongs to one that was given up: the sender
// has told all fates of that.
func (c *Core) openIn(p *Peer, n uint64) {
	in := &p.in
	if in.start != 0 {
		c.broken(p, &Error{Reason: LinkOver, Text: p.id.String() + " has opened its link anew"})
	}
	parked, top := in.parked, in.top
	c.shut(p, n-1)
	c.senders++
	in.start, in.first, in.top = n, n<<numberBits, top
	in.former = uint64(max(0, in.held))
	for _, a := range parked {
		if a.N > n {
			in.parked = append(in.parked, a)
			c.parks(in, a.Size, 1)
		}
	}
}

// numberBits are for the refusals of one packet: their numbers go up from one opening of the link to
// the next, also when a receiver has forgotten the one before.
const numberBits = 20

// shut ends the link from a peer: nothing up to a number is taken any more.
func (c *Core) shut(p *Peer, upto uint64) {
	in := &p.in
	if in.start != 0 {
		c.senders--
	}
	c.dropParts(p)
	c.parks(in, -in.parkedSize, -len(in.parked))
	*in = incoming{last: max(in.last, upto), tombs: in.tombs, held: in.held, counts: in.counts}
	for n := range in.tombs {
		if n <= in.last {
			c.bury(in, n)
		}
	}
}

// bury forgets which messages of a packet must not be delivered.
func (c *Core) bury(in *incoming, n uint64) {
	c.tombs -= len(in.tombs[n]) / 2
	delete(in.tombs, n)
}

// parks counts packets behind a gap: so many bytes and packets more, or less.
func (c *Core) parks(in *incoming, bytes, packets int) {
	in.parkedSize += bytes
	c.parked += bytes + packets*packetCost
}

// park keeps a packet that came before another one, and asks for that.
func (c *Core) park(now Instant, p *Peer, a Arrival) {
	in := &p.in
	at, found := slices.BinarySearchFunc(in.parked, a.N, func(b Arrival, n uint64) int { return cmp.Compare(b.N, n) })
	switch {
	case found:
		c.duplicate(in)
		return
	case len(in.parked) >= c.cfg.Parked || in.parkedSize+a.Size > c.cfg.ParkedSize, c.parked+a.Size+packetCost > c.cfg.ParkedAll:
		c.overrun(in)
	default:
		a.Came = now
		in.parked = slices.Insert(in.parked, at, a)
		c.parks(in, a.Size, 1)
	}
	in.top = max(in.top, a.N)
	c.miss(now, p)
}

// maxGaps bounds for how many gaps one packet asks.
const maxGaps = 64

// gaps are what is missing, as pairs: after one number, up to another. upto is the end of the last, pairs
// are those above a number. What lies behind all that is parked counts with tail only: while there is no
// room to park, every packet lengthens it.
func (c *Core) gaps(in *incoming, above uint64, tail bool) (pairs []uint64, upto uint64) {
	if c.full(in) {
		return nil, 0
	}
	gap := func(after, to uint64) {
		if to <= after {
			return
		}
		upto = to
		if to > above && len(pairs) < 2*maxGaps {
			pairs = append(pairs, after, to)
		}
	}
	after := in.last
	for i := range in.parked {
		gap(after, in.parked[i].Prev)
		after = in.parked[i].N
	}
	if tail || len(in.parked) == 0 {
		gap(after, in.top)
	}
	return pairs, upto
}

// miss asks for what is missing, at once when that is news.
func (c *Core) miss(now Instant, p *Peer) {
	in := &p.in
	if _, upto := c.gaps(in, math.MaxUint64, false); upto > in.missing {
		c.state(now, p)
	} else if upto == 0 {
		in.whole()
	}
}

// whole notes that nothing is missing.
func (in *incoming) whole() { in.missing, in.missAt, in.stuckSince = 0, 0, 0 }

// asks notes what is missing, and returns what of it is asked for: nothing again while the answer may be
// on its way.
func (c *Core) asks(now Instant, p *Peer) []uint64 {
	in := &p.in
	again := now >= in.missAt
	above := in.missing
	if again {
		above = 0
	}
	pairs, upto := c.gaps(in, above, again)
	if upto == 0 {
		in.whole()
	}
	if len(pairs) == 0 {
		return nil
	}
	if in.missing = pairs[len(pairs)-1]; again {
		in.missAt = now + Instant(c.rto(&p.out))
	}
	c.watch(p, in.missAt)
	if in.stuckSince == 0 {
		in.stuckSince = now
		in.counts.Gaps++
		c.stats.Gaps++
	}
	return pairs
}

// Done says that the messages of a packet are in mailboxes, in refused or in Skip, and returns the next
// packet that may be delivered.
func (c *Core) Done(now Instant, p *Peer, a Arrival, refused []wire.Refusal) (Arrival, bool) {
	in := &p.in
	in.held += int64(a.Waits)
	if c.deaf(p) || in.start == 0 || a.N < in.start || a.N > in.last || a.N <= in.acked {
		return a, false // the link was given up meanwhile
	}
	in.acked = a.N
	in.unsaid++
	known := len(in.refused)
	in.refused = append(in.refused, refused...)
	for i := 0; i+1 < len(a.Skip); i += 2 { // the verdict on these may have been lost
		in.refused = append(in.refused, wire.Refusal{N: a.N, Index: a.Skip[i], Count: a.Skip[i+1]})
	}
	news := len(in.refused) > known
	switch {
	case in.unsaid >= c.cfg.AckEvery, in.taken-in.said >= c.sayEvery(in), known == 0 && news:
		c.state(now, p)
	case news:
		c.say(p, now+Instant(c.cfg.AckDelay)/4)
	case !a.Answers:
		c.say(p, now+Instant(c.cfg.AckDelay))
	case slices.Contains(in.answers, a.N):
		c.sayCalmly(p, now+Instant(c.cfg.AnswerWait))
	}
	return c.unpark(now, p)
}

// unpark is the next packet that waited and may be delivered now.
func (c *Core) unpark(now Instant, p *Peer) (Arrival, bool) {
	in := &p.in
	if c.full(in) {
		for range in.parked {
			c.overrun(in)
		}
		c.parks(in, -in.parkedSize, -len(in.parked))
		in.parked = nil
	}
	for len(in.parked) > 0 {
		next := in.parked[0]
		if next.N > in.last && next.Prev > in.last {
			break
		}
		in.parked = slices.Delete(in.parked, 0, 1)
		c.parks(in, -next.Size, -1)
		if next.N > in.last && next.Prev == in.last {
			return c.accept(p, next), true
		}
	}
	if len(in.parked) == 0 {
		in.parked = nil
	}
	c.miss(now, p)
	return Arrival{}, false
}
