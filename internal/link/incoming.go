package link

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/castnet-io/castnet/internal/wire"
)

// receiver is the part of a Core for the links from peers.
type receiver struct {
	*common
	assemblyBytes   int // bytes of unfinished messages of all peers
	fragmentBytes   int // of packets: these must not wait for messages, which are behind them on their links
	outOfOrderBytes int // bytes of packets behind gaps
	tombstones      int // messages that must not be delivered any more, in runs
	openSenders     int // peers with an open link to this process
}

// incoming is the link from a peer, at its receiver.
type incoming struct {
	openSeq       uint64 // number of the opening packet; 0: closed, and only an opening is accepted
	formerEnd     uint64 // the end of the link before it that is known here; later ones are news
	lastSeq       uint64 // the last packet in order, received or skipped
	acked         uint64 // the last whose messages are all in mailboxes, or refused
	receivedBytes uint64 // bytes since the link was opened
	reportedBytes uint64 // receivedBytes in the last report

	outOfOrder      []Arrival // behind a gap, by number
	outOfOrderBytes int
	highestSeq      uint64  // the highest number known to be sent
	requestedUpTo   uint64  // missing packets up to this were requested; 0: none were
	requestAgainAt  Instant // when it is asked for again
	stuckSince      Instant

	unackedPackets int      // packets without an acknowledgement
	ackAt          Instant  // when they are acknowledged; 0: nothing to report
	ackDelayed     bool     // ackAt is only for casts with pending answers
	pendingReplies []uint64 // unacknowledged casts whose answers will acknowledge them
	refusals       []wire.Refusal
	firstRefusal   uint64           // the number of refusals[0]
	tombstones     map[uint64][]int // by packet: messages that must not be delivered any more

	fragments assembly
	chunks    map[uint64]*assembly

	counts InStats
}

// InStats are the counts of a link at its receiver.
type InStats struct{ Delivered, Duplicates, Gaps, Overrun uint64 }

func (in *incoming) idle() bool { return in.ackAt == 0 && !in.isIncomplete() }

// isIncomplete reports whether the sender owes something: missing packets, the rest of a message,
// or the confirmation of refusals.
func (in *incoming) isIncomplete() bool {
	return in.requestedUpTo != 0 || len(in.refusals) > 0 || len(in.chunks) > 0 || len(in.fragments.parts) > 0
}

// Arrival is a packet received on a link.
type Arrival struct {
	Seq, PrevSeq uint64
	AllAcked     bool // of a cast: all packets before it were acknowledged, and Prev is unused
	ReplyAcks    bool // of a cast: see Cast
	Size         int  // of its envelopes
	Packet       any  // the caller's data for its delivery

	// Set by the Core:
	ParkedAt Instant // when a packet was parked behind a gap; 0: it was not
	Skip     []int   // messages that must not be delivered, as pairs of index and count
}

// Arrive takes a packet. It returns true when its messages are to be delivered now; Done must
// follow. Else it was here before, or comes later, from Done.
func (rcv *receiver) Arrive(now Instant, p *Peer, a Arrival) (Arrival, bool) {
	in := &p.in
	if rcv.ignores(p) {
		return a, false
	}
	rcv.markHeard(now, p)
	rcv.scheduleTick(p, 0)
	switch opens := a.PrevSeq == 0 && !a.AllAcked; {
	case a.Seq == 0 || a.PrevSeq >= a.Seq:
		rcv.rejectPacket(p, a.Seq, fmt.Sprintf("packet %d claims to follow %d", a.Seq, a.PrevSeq))
		return a, false
	case a.Seq <= in.lastSeq:
		rcv.duplicate(in)
		rcv.scheduleAck(p, now+Instant(rcv.cfg.AckDelay)/4)
		return a, false
	case rcv.refusalsFull(in): // the sender must know of these refusals before there are more
		rcv.overrun(in)
		in.highestSeq = max(in.highestSeq, a.Seq)
		return a, false
	case opens:
		rcv.openIncoming(p, a.Seq)
	case in.openSeq == 0 && (a.AllAcked || a.PrevSeq <= in.lastSeq):
		rcv.sendReceiverReset(p, a.Seq, fmt.Sprintf("packet %d continues a link that is not open", a.Seq))
		return a, false
	case a.AllAcked || a.PrevSeq == in.lastSeq:
	case a.PrevSeq < in.lastSeq:
		rcv.rejectPacket(p, a.Seq, fmt.Sprintf("packet %d claims to follow %d, but %d came after that", a.Seq,
			a.PrevSeq, in.lastSeq))
		return a, false
	default:
		rcv.holdOutOfOrder(now, p, a)
		return a, false
	}
	return rcv.accept(p, a), true
}

func (rcv *receiver) duplicate(in *incoming) {
	in.counts.Duplicates++
	rcv.stats.Duplicates++
}

// overrun counts a dropped packet that will be sent again.
func (rcv *receiver) overrun(in *incoming) {
	in.counts.Overrun++
	rcv.stats.Overrun++
}

// refusalsFull reports whether unconfirmed refusals block new packets.
func (rcv *receiver) refusalsFull(in *incoming) bool { return len(in.refusals) >= rcv.cfg.MaxRefusals }

// accept makes a packet the last of its link.
func (rcv *receiver) accept(p *Peer, a Arrival) Arrival {
	in := &p.in
	in.lastSeq = a.Seq
	in.receivedBytes += uint64(a.Size + packetCost)
	if a.ReplyAcks {
		in.pendingReplies = append(in.pendingReplies, a.Seq)
	}
	a.Skip = in.tombstones[a.Seq]
	if a.Skip != nil {
		rcv.dropTombstone(in, a.Seq)
	}
	if in.fragments.seq <= a.Seq {
		rcv.dropFragments(in)
	}
	in.counts.Delivered++
	rcv.stats.Delivered++
	return a
}

// openIncoming opens the link again. Its former state belongs to a reset link: the sender has
// reported all fates of that.
func (rcv *receiver) openIncoming(p *Peer, n uint64) {
	in := &p.in
	formerEnd := in.lastSeq
	if in.openSeq != 0 || len(in.outOfOrder) > 0 && in.outOfOrder[0].Seq < n {
		rcv.emitBroken(p, &Error{Reason: LinkReset, Text: p.id.String() + " has reopened its link"})
		formerEnd = n
	}
	parked := in.outOfOrder
	top := in.highestSeq
	rcv.closeIncoming(p, n-1)
	rcv.openSenders++
	in.openSeq = n
	in.formerEnd = formerEnd
	in.firstRefusal = n << refusalSeqBits
	in.highestSeq = top
	for _, a := range parked {
		if a.Seq > n {
			in.outOfOrder = append(in.outOfOrder, a)
			rcv.countOutOfOrder(in, a.Size, 1)
		}
	}
}

// refusalSeqBits are the bits for the refusals of one packet. Refusal numbers grow from one opening
// of the link to the next, even if the receiver forgot the former one.
const refusalSeqBits = 20

// closeIncoming ends the link from a peer: nothing up to a number is taken any more.
func (rcv *receiver) closeIncoming(p *Peer, upto uint64) {
	in := &p.in
	if in.openSeq != 0 {
		rcv.openSenders--
	}
	rcv.dropAssemblies(p)
	rcv.countOutOfOrder(in, -in.outOfOrderBytes, -len(in.outOfOrder))
	*in = incoming{lastSeq: max(in.lastSeq, upto), tombstones: in.tombstones, counts: in.counts}
	for n := range in.tombstones {
		if n <= in.lastSeq {
			rcv.dropTombstone(in, n)
		}
	}
}

// dropTombstone drops the tombstone of a packet.
func (rcv *receiver) dropTombstone(in *incoming, n uint64) {
	rcv.tombstones -= len(in.tombstones[n]) / 2
	delete(in.tombstones, n)
}

// countOutOfOrder adds bytes and packets behind a gap to the totals; negative numbers subtract.
func (rcv *receiver) countOutOfOrder(in *incoming, bytes, packets int) {
	in.outOfOrderBytes += bytes
	rcv.outOfOrderBytes += bytes + packets*packetCost
}

// holdOutOfOrder parks a packet behind a gap, and requests the missing ones.
func (rcv *receiver) holdOutOfOrder(now Instant, p *Peer, a Arrival) {
	in := &p.in
	at, found := slices.BinarySearchFunc(in.outOfOrder, a.Seq,
		func(b Arrival, n uint64) int { return cmp.Compare(b.Seq, n) })
	switch {
	case found:
		rcv.duplicate(in)
		return
	case len(in.outOfOrder) >= rcv.cfg.MaxOutOfOrder,
		in.outOfOrderBytes+a.Size > rcv.cfg.MaxOutOfOrderBytes,
		rcv.outOfOrderBytes+a.Size+packetCost > rcv.cfg.MaxOutOfOrderTotal:
		rcv.overrun(in)
	default:
		a.ParkedAt = now
		in.outOfOrder = slices.Insert(in.outOfOrder, at, a)
		rcv.countOutOfOrder(in, a.Size, 1)
	}
	in.highestSeq = max(in.highestSeq, a.Seq)
	rcv.requestMissing(now, p)
}

// maxGaps bounds the gaps in one request.
const maxGaps = 64

// gaps returns the missing packets above a number, as pairs: after one number, up to another. upto
// is the end of the last gap. The range behind all parked packets counts only with tail: without
// room to park, every packet extends it.
func (rcv *receiver) gaps(in *incoming, above uint64, tail bool) (pairs []uint64, upto uint64) {
	if rcv.refusalsFull(in) {
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
	after := in.lastSeq
	for i := range in.outOfOrder {
		gap(after, in.outOfOrder[i].PrevSeq)
		after = in.outOfOrder[i].Seq
	}
	if tail || len(in.outOfOrder) == 0 {
		gap(after, in.highestSeq)
	}
	return pairs, upto
}

// requestMissing requests missing packets, at once if the gap is new.
func (rcv *receiver) requestMissing(now Instant, p *Peer) {
	in := &p.in
	if _, upto := rcv.gaps(in, math.MaxUint64, false); upto > in.requestedUpTo {
		rcv.sendLinkState(now, p)
	} else if upto == 0 {
		in.clearGaps()
	}
}

// clearGaps records that nothing is missing.
func (in *incoming) clearGaps() {
	in.requestedUpTo = 0
	in.requestAgainAt = 0
	in.stuckSince = 0
}

// missingToRequest updates the known gaps and returns those to request. It omits gaps whose repair
// may be on its way.
func (rcv *receiver) missingToRequest(now Instant, p *Peer) []uint64 {
	in := &p.in
	again := now >= in.requestAgainAt
	above := in.requestedUpTo
	if again {
		above = 0
	}
	pairs, upto := rcv.gaps(in, above, again)
	if upto == 0 {
		in.clearGaps()
	}
	if len(pairs) == 0 {
		return nil
	}
	in.requestedUpTo = pairs[len(pairs)-1]
	if again {
		in.requestAgainAt = now + Instant(rcv.rto(&p.out))
	}
	rcv.scheduleTick(p, in.requestAgainAt)
	if in.stuckSince == 0 {
		in.stuckSince = now
		in.counts.Gaps++
		rcv.stats.Gaps++
	}
	return pairs
}

// Done records that the messages of a packet are in mailboxes, refused or skipped. It returns the
// next deliverable packet.
func (rcv *receiver) Done(now Instant, p *Peer, a Arrival, refused []wire.Refusal) (Arrival, bool) {
	in := &p.in
	if rcv.ignores(p) || in.openSeq == 0 || a.Seq < in.openSeq || a.Seq > in.lastSeq || a.Seq <= in.acked {
		return a, false // the link was given up meanwhile
	}
	in.acked = a.Seq
	in.unackedPackets++
	known := len(in.refusals)
	in.refusals = append(in.refusals, refused...)
	for i := 0; i+1 < len(a.Skip); i += 2 { // the verdict on these may have been lost
		in.refusals = append(in.refusals, wire.Refusal{Seq: a.Seq, Index: a.Skip[i], Count: a.Skip[i+1]})
	}
	news := len(in.refusals) > known
	switch {
	case in.unackedPackets >= rcv.cfg.AckEvery, in.receivedBytes-in.reportedBytes >= rcv.ackThreshold(in),
		known == 0 && news:
		rcv.sendLinkState(now, p)
	case news:
		rcv.scheduleAck(p, now+Instant(rcv.cfg.AckDelay)/4)
	case !a.ReplyAcks:
		rcv.scheduleAck(p, now+Instant(rcv.cfg.AckDelay))
	case slices.Contains(in.pendingReplies, a.Seq):
		rcv.delayAck(p, now+Instant(rcv.cfg.ReplyAckDelay))
	}
	return rcv.nextInOrder(now, p)
}

// nextInOrder returns the next parked packet that may be delivered now.
func (rcv *receiver) nextInOrder(now Instant, p *Peer) (Arrival, bool) {
	in := &p.in
	if rcv.refusalsFull(in) {
		for range in.outOfOrder {
			rcv.overrun(in)
		}
		rcv.countOutOfOrder(in, -in.outOfOrderBytes, -len(in.outOfOrder))
		in.outOfOrder = nil
	}
	for len(in.outOfOrder) > 0 {
		next := in.outOfOrder[0]
		if next.Seq > in.lastSeq && next.PrevSeq > in.lastSeq {
			break
		}
		in.outOfOrder = slices.Delete(in.outOfOrder, 0, 1)
		rcv.countOutOfOrder(in, -next.Size, -1)
		if next.Seq > in.lastSeq && next.PrevSeq == in.lastSeq {
			return rcv.accept(p, next), true
		}
	}
	if len(in.outOfOrder) == 0 {
		in.outOfOrder = nil
	}
	rcv.requestMissing(now, p)
	return Arrival{}, false
}
