package link

import (
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/internal/wire"
)

// scheduleAck schedules the report of the link's state to the sender, by a time at the latest.
func (rcv *receiver) scheduleAck(p *Peer, at Instant) {
	p.in.ackAt = soonest(p.in.ackAt, at)
	p.in.ackDelayed = false
	rcv.scheduleTick(p, at)
}

// receiveWindow is the credit of a peer: its share of the total.
func (rcv *receiver) receiveWindow() uint64 {
	share := rcv.cfg.WindowAll / max(1, rcv.openSenders)
	return uint64(min(rcv.cfg.Window, max(share, packetCost)))
}

// ackThreshold is the number of bytes acknowledged at once: a part of the sender's window. The
// window is not known before the first report of a link.
func (rcv *receiver) ackThreshold(in *incoming) uint64 {
	if in.reportedBytes == 0 {
		return min(rcv.receiveWindow(), uint64(rcv.cfg.InitialWindow)) / 4
	}
	return rcv.receiveWindow() / 4
}

func (rcv *receiver) ackState(in *incoming) wire.AckState {
	return wire.AckState{Acked: in.acked, ReceivedBytes: in.receivedBytes, Window: rcv.receiveWindow()}
}

// piggybackAck returns the link state for the head of a packet to p; nil if it is unchanged, or too
// large for a head.
func (rcv *receiver) piggybackAck(p *Peer) *wire.AckState {
	in := &p.in
	if in.ackAt == 0 && in.unackedPackets == 0 || len(in.refusals) > 0 || in.requestedUpTo != 0 ||
		in.acked == 0 {
		return nil
	}
	k := rcv.ackState(in)
	in.ackSent()
	return &k
}

func (in *incoming) ackSent() {
	in.ackAt = 0
	in.ackDelayed = false
	in.unackedPackets = 0
	in.reportedBytes = in.receivedBytes
	in.pendingReplies = slices.DeleteFunc(in.pendingReplies, func(n uint64) bool { return n <= in.acked })
}

// sendLinkState sends the full state of the link from p, with as many refusals as fit. Packets
// after the first omitted refusal are not acknowledged yet.
func (rcv *receiver) sendLinkState(now Instant, p *Peer) {
	in := &p.in
	s := &wire.LinkStateBody{Progress: rcv.ackState(in), FirstRefusal: in.firstRefusal}
	s.Refusals = append(s.Refusals, in.refusals[:rcv.refusalsThatFit(in.refusals)]...)
	if rest := in.refusals[len(s.Refusals):]; len(rest) > 0 {
		s.Progress.Acked = min(s.Progress.Acked, rest[0].Seq-1)
	}
	s.Missing = rcv.missingToRequest(now, p)
	in.ackSent()
	if len(in.refusals) > 0 {
		rcv.scheduleAck(p, now+Instant(rcv.rto(&p.out))) // until it is confirmed
	}
	rcv.emitControl(p, wire.LinkState, s)
}

// refusalCost is the size of a refusal without its reason, in bytes.
const refusalCost = 40

// refusalsThatFit is how many refusals go into one packet, one at least.
func (rcv *receiver) refusalsThatFit(all []wire.Refusal) int {
	size := 0
	for i, r := range all {
		size += len(r.Why) + refusalCost
		if i > 0 && size > rcv.limit/2 {
			return i
		}
	}
	return len(all)
}

// tickIn does the due work on the link from a peer, and returns the time of the next.
func (rcv *receiver) tickIn(now Instant, p *Peer) (next Instant) {
	in := &p.in
	if in.idle() {
		return 0
	}
	silent := rcv.silenceDeadline(p)
	if silent <= now && rcv.connected && in.isIncomplete() {
		rcv.closeIncoming(p, 0)
		rcv.emitBroken(p,
			&Error{Reason: LinkReset, Text: fmt.Sprintf("%s is silent, and packets of it are missing", p.id)})
		return 0
	}
	if in.ackAt != 0 && in.ackAt <= now || in.requestedUpTo != 0 && in.requestAgainAt <= now {
		rcv.sendLinkState(now, p)
	}
	if in.isIncomplete() && rcv.connected {
		next = silent
	}
	if in.requestedUpTo != 0 {
		next = soonest(next, in.requestAgainAt)
	}
	return soonest(next, in.ackAt)
}

// rejectPacket reports an invalid packet to its sender, and ends the link.
func (rcv *receiver) rejectPacket(p *Peer, n uint64, text string) {
	rcv.stats.Malformed++
	rcv.sendReceiverReset(p, n, text)
}

// sendReceiverReset tells a peer that its link is over. The message may get lost.
func (rcv *receiver) sendReceiverReset(p *Peer, n uint64, text string) {
	rcv.emitControl(p, wire.ReceiverReset,
		wire.ResetBody{Seq: n, Text: truncateText(text), Last: p.in.lastSeq})
}

// OnHead takes the acknowledgement in the head of a packet of p.
func (snd *sender) OnHead(now Instant, p *Peer, k *wire.AckState) error {
	snd.markHeard(now, p)
	if k == nil {
		return nil
	}
	snd.catchUpWith(p, k)
	if err := snd.checkAck(p, k); err != nil {
		return err
	}
	snd.applyAck(now, p, k)
	return nil
}

// OnProbe takes the sender's probe: packet n was the last, and acked was acknowledged.
func (rcv *receiver) OnProbe(now Instant, p *Peer, n, acked uint64) {
	in := &p.in
	if rcv.ignores(p) {
		return
	}
	rcv.markHeard(now, p)
	if acked > in.lastSeq || n < in.lastSeq || in.openSeq == 0 && n == in.lastSeq {
		rcv.sendReceiverReset(p, n, fmt.Sprintf("the link of packet %d is not open any more", n))
		return
	}
	in.highestSeq = n // also when it is less than an earlier claim
	rcv.dropAbove(p, n)
	in.requestAgainAt = now
	rcv.sendLinkState(now, p)
}

// dropAbove drops parked packets above the sender's last number: another process has sent them
// (LINK-14), or they will be sent again.
func (rcv *receiver) dropAbove(p *Peer, n uint64) {
	in := &p.in
	for i := len(in.outOfOrder) - 1; i >= 0 && in.outOfOrder[i].Seq > n; i-- {
		rcv.overrun(in)
		rcv.countOutOfOrder(in, -in.outOfOrder[i].Size, -1)
		in.outOfOrder = slices.Delete(in.outOfOrder, i, i+1)
	}
}

// OnConfirm takes the sender's confirmation of all refusals before a number.
func (rcv *receiver) OnConfirm(now Instant, p *Peer, next uint64) {
	in := &p.in
	if next <= in.firstRefusal || next > in.firstRefusal+uint64(len(in.refusals)) {
		return // old or malformed
	}
	known := int(next - in.firstRefusal)
	in.refusals = append([]wire.Refusal(nil), in.refusals[known:]...)
	in.firstRefusal = next
	if len(in.refusals) > 0 || in.unackedPackets > 0 {
		rcv.scheduleAck(p, now+Instant(rcv.cfg.AckDelay))
	} else {
		in.ackAt = 0
	}
	rcv.requestMissing(now, p)
}

// maxTombstones bounds how many runs of messages of all peers must not be delivered.
const maxTombstones = 1 << 16

// OnQuery takes the sender's query for the fates of messages. Undelivered ones will not be
// delivered any more (LINK-8).
func (rcv *receiver) OnQuery(now Instant, p *Peer, q *wire.FateQueryBody) {
	in := &p.in
	if rcv.ignores(p) {
		return
	}
	rcv.markHeard(now, p)
	was := in.tombstones[q.Seq]
	switch {
	case q.Seq <= in.lastSeq:
		rcv.sendLinkState(now, p)
	case len(q.Indexes)%2 != 0 || len(q.Indexes) == 0:
		rcv.stats.Malformed++
	case len(in.tombstones) >= rcv.cfg.MaxRefusals && was == nil,
		len(was)+len(q.Indexes) > 2*rcv.cfg.MaxRefusals,
		rcv.tombstones >= maxTombstones: // then the fate is unknown
	default:
		if in.tombstones == nil {
			in.tombstones = map[uint64][]int{}
		}
		in.tombstones[q.Seq] = append(was, q.Indexes...)
		rcv.tombstones += len(q.Indexes) / 2
		rcv.emitControl(p, wire.FateReply, *q)
	}
}

// OnResume takes a receiver's report of its reconnect.
func (snd *sender) OnResume(now Instant, p *Peer) {
	snd.markHeard(now, p)
	snd.catchUp(p)
	if p.out.awaitsAck() && snd.connected {
		p.out.probeInterval = 0
		snd.probe(now, p)
	}
}

// OnSenderReset takes a sender's reset: packets up to a number will not come. If it disowns the
// last number taken here, its own last number takes that place (LINK-14). OnSenderReset reports
// whether a link has ended.
func (rcv *receiver) OnSenderReset(p *Peer, g *wire.ResetBody) bool {
	in := &p.in
	disowned := g.Last != 0
	if rcv.ignores(p) || disowned && g.Last != in.lastSeq {
		return false
	}
	if !disowned && g.Seq < in.lastSeq {
		return rcv.endFormerLink(p, g)
	}
	news := in.openSeq != 0 || len(in.outOfOrder) > 0 || g.Seq > in.lastSeq
	rcv.closeIncoming(p, g.Seq)
	if disowned {
		in.lastSeq = g.Seq
		rcv.stats.Malformed++
	}
	if news {
		rcv.emitReset(p, g)
	}
	return news
}

// endFormerLink takes the reset of a link that was over before the current one opened. It is news
// if packets of it did not arrive, as for a process with the name of an earlier one: they may have
// been answers.
func (rcv *receiver) endFormerLink(p *Peer, g *wire.ResetBody) bool {
	in := &p.in
	news := g.Seq < in.openSeq && g.Seq > in.formerEnd
	if news {
		in.formerEnd = g.Seq
		rcv.emitReset(p, g)
	}
	return news
}

// emitReset emits the end of a link by its sender's reset.
func (rcv *receiver) emitReset(p *Peer, g *wire.ResetBody) {
	why := &Error{Reason: LinkReset, Text: g.Text}
	// its Goodbye travels on the other connection, and may come later
	if g.Closed || g.Text == wire.ClosedText {
		why = &Error{Reason: PeerClosed, Text: p.id.String() + " has closed its links"}
	}
	rcv.emitBroken(p, why)
}
