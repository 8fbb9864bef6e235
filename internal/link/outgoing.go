package link

import (
	"sort"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// sender is the part of a Core for the links to peers.
type sender struct {
	*common
	acks      *receiver // acknowledges in the heads of packets
	connEpoch uint64    // of the data connection: how many there were, with it

	lastSeq       uint64 // the last number given to a packet
	chunkIDs      uint64 // IDs of messages in parts, used so far
	ready         []Publish
	publishing    *frame          // of the packet last returned by Next
	freeBufs      []frameBuf      // buffers of acknowledged packets
	sendTurn      []*Peer         // peers with queued messages, in turn
	queuedBytes   int             // bytes in all queues
	outboxWaiters []*Peer         // peers with a sender waiting for the total queue limit
	groups        []*Group        // groups with deferred casts
	castPlan      []plannedMember // of the current cast
	runs          []Run           // the same
}

// outgoing is the link to a peer, at its sender.
//
//	Send ─▶ queue ─ Next: credit, number ─▶ sent ─ acknowledged ─▶ forgotten
//	  └─▶ transfers ─ in parts ──▲            └─ missing ─▶ sent again
type outgoing struct {
	queue       []*frame
	transfers   []*transfer
	queuedBytes int    // bytes in both
	frameCount  uint64 // number of frames queued so far
	partNext    bool

	sent           []sentPacket
	repliedPackets int    // of them: packets whose arrival is known from an answer
	ackDelayed     bool   // of the others none need be acknowledged before AnswerWait
	openSeq        uint64 // number of the opening packet; 0: it is not open
	lastSeq, acked uint64
	sentBytes      uint64 // bytes sent, in the receiver's measure
	receivedBytes  uint64 // of these: bytes that arrived
	window         uint64

	peerResponded    bool // the receiver has responded since the link was opened
	srtt, rttvar     time.Duration
	awaitingSince    Instant // when the receiver began to owe an answer
	probeAt          Instant
	probeInterval    time.Duration
	noResponderSince Instant // since when the bus reports no subscriber; 0: it does not
	deadline         Instant // the first one of queued and sent messages; 0: none
	resendEpoch      uint64  // the connection epoch of packets to resend; 0: none
	resendFrom       uint64  // they have this number at least
	// refusals were confirmed: the receiver may have dropped packets before it had room
	confirmed      bool
	roomWanted     bool // a sender waits for room
	crowded        bool // because all queues together are full
	sentReturnable bool // messages that may come back have left, on this opening or a former one

	counts OutStats
}

// OutStats are the counts of a link at its sender.
type OutStats struct{ Sent, Retransmitted uint64 }

// sentPacket is a packet sent on a link.
type sentPacket struct {
	seq, prev   uint64
	frame       *frame
	sentAt      Instant // when it left last
	sends       int
	noResponder bool      // the bus reported no subscriber for the first copy
	resendEpoch uint64    // the connection epoch for its next copy; 0: none
	fateKnown   bool      // of a cast, whose frame is shared
	replied     bool      // the receiver has answered it
	queriedAt   Instant   // the same
	transfer    *transfer // it is a part of that
	barriers    []*Barrier
}

func (o *outgoing) idle() bool { return !o.awaitsAck() && o.idleQueue() }

func (o *outgoing) idleQueue() bool { return len(o.queue) == 0 && len(o.transfers) == 0 }

// awaitsAck reports whether the receiver owes an acknowledgement.
func (o *outgoing) awaitsAck() bool { return len(o.sent) > o.repliedPackets }

// hasCredit reports whether cost more bytes may be in flight. Any window admits one packet.
func (o *outgoing) hasCredit(cost uint64) bool {
	flying := o.sentBytes - o.receivedBytes
	return o.openSeq == 0 || flying == 0 || flying+cost <= o.window
}

// publish gives a frame its number and makes it ready.
func (snd *sender) publish(now Instant, p *Peer, f *frame) {
	snd.lastSeq++
	snd.stats.Sent++
	prev := snd.track(now, p, snd.lastSeq, f)
	f.open = false
	f.publishers++
	pub := Publish{frame: f, Subject: f.publishSubject(), To: p, Seq: snd.lastSeq, hops: f.hops,
		WantHint: !p.out.peerResponded, Data: f.packet(wire.Head{
			Kind: wire.Data, Age: f.age(now), Seq: snd.lastSeq, PrevSeq: prev, Ack: snd.acks.piggybackAck(p),
		})}
	if len(pub.Data) <= snd.limit {
		snd.ready = append(snd.ready, pub)
		return
	}
	snd.ready = append(snd.ready, snd.fragment(pub, prev)...)
}

// track puts a frame on a link, under a number.
func (snd *sender) track(now Instant, p *Peer, n uint64, f *frame) (prev uint64) {
	o := &p.out
	asks := o.awaitsAck()
	if o.openSeq == 0 {
		o.openSeq = n
		o.window = uint64(snd.cfg.InitialWindow)
	}
	if !asks {
		o.awaitingSince = now
		o.probeInterval = 0
		o.ackDelayed = f.replyAcks
		o.probeAt = now + snd.ackTimeout(o)
	} else if o.ackDelayed && !f.replyAcks {
		o.ackDelayed = false
		o.probeAt = min(o.probeAt, now+snd.ackTimeout(o))
	}
	prev = o.lastSeq
	o.sent = append(o.sent, sentPacket{seq: n, prev: prev, frame: f, sentAt: now, sends: 1,
		transfer: f.transfer, barriers: f.barriers})
	f.barriers = nil
	o.countSent(n, f)
	o.deadline = soonest(o.deadline, f.until)
	snd.scheduleTick(p, soonest(o.probeAt, o.deadline))
	return prev
}

// countSent records a sent packet.
func (o *outgoing) countSent(n uint64, f *frame) {
	o.lastSeq = n
	o.sentBytes += f.windowCost()
	o.counts.Sent++
	o.sentReturnable = o.sentReturnable || f.returnable
}

// fragment returns a packet, in pieces if it exceeds the bus's limit. prev is the one in its head.
func (snd *sender) fragment(pub Publish, prev uint64) (pieces []Publish) {
	if len(pub.Data) <= snd.limit {
		return []Publish{pub}
	}
	whole := pub.Data      // its frame is never reused, at no loss
	if pub.Subject != "" { // a piece goes where packets go, so the whole must say where it belongs
		head := wire.AppendHead(nil, wire.Head{Kind: wire.Repair, Seq: pub.Seq, PrevSeq: prev})
		whole = wire.AppendRepair(head, pub.Subject, whole)
	}
	size := max(1, snd.limit-2*wire.HeadSize)
	for at := 0; at < len(whole); at += size {
		data := wire.AppendHead(nil, wire.Head{Kind: wire.Fragment, Seq: pub.Seq})
		data = wire.AppendFragment(data, wire.FragmentHead{Offset: at, Total: len(whole)},
			whole[at:min(at+size, len(whole))])
		pieces = append(pieces, Publish{To: pub.To, Seq: pub.Seq, WantHint: pub.WantHint, Data: data})
	}
	return pieces
}

// indexOf returns the index of the first sent packet with that number or a later one.
func (o *outgoing) indexOf(n uint64) int {
	return sort.Search(len(o.sent), func(i int) bool { return o.sent[i].seq >= n })
}

// find returns a sent, unacknowledged packet by number.
func (o *outgoing) find(n uint64) *sentPacket {
	if i := o.indexOf(n); i < len(o.sent) && o.sent[i].seq == n {
		return &o.sent[i]
	}
	return nil
}

// retransmit schedules the receiver's missing packets: pairs of numbers, after one up to another
// (LINK-4).
func (snd *sender) retransmit(now Instant, p *Peer, missing []uint64) {
	for i := 0; i+1 < min(len(missing), 2*maxGaps+1); i += 2 {
		snd.retransmitGap(now, p, missing[i], missing[i+1])
	}
	p.out.confirmed = p.out.confirmed && len(missing) == 0
}

// retransmitGap is repair for one gap.
func (snd *sender) retransmitGap(now Instant, p *Peer, after, upto uint64) {
	o := &p.out
	switch {
	case snd.ignores(p):
	case o.openSeq == 0:
		snd.sendSenderReset(p, wire.ResetBody{Seq: snd.lastSeq, Text: "what is missing was given up"})
	case upto < o.openSeq:
		snd.sendSenderReset(p, wire.ResetBody{Seq: o.openSeq - 1, Text: "what is missing was given up"})
	case !snd.connected:
	case upto > o.lastSeq: // never sent: a false claim
		snd.probe(now, p)
	case after >= o.acked:
		for i := o.indexOf(after + 1); i < len(o.sent) && o.sent[i].seq <= upto; i++ {
			// A request this soon is older than the copy sent, unless that was lost.
			if it := &o.sent[i]; it.sends == 1 || o.confirmed && it.sentAt < now ||
				now-it.sentAt >= Instant(max(o.srtt, snd.cfg.MinRTO)) {
				snd.scheduleResend(p, it)
			}
		}
	}
}

// scheduleResend schedules another copy of a packet. The first missing packet of a peer leaves
// first, regardless of the requests. Later packets may be more than gets through before the next
// disconnect (LINK-4).
func (snd *sender) scheduleResend(p *Peer, it *sentPacket) {
	o := &p.out
	if it.resendEpoch == snd.connEpoch {
		return
	}
	it.resendEpoch = snd.connEpoch
	if o.resendEpoch != snd.connEpoch {
		o.resendEpoch = snd.connEpoch
		o.resendFrom = it.seq
		snd.ready = append(snd.ready, Publish{To: p, resend: true})
	}
	o.resendFrom = min(o.resendFrom, it.seq)
}

// nextResend builds packets from the first one scheduled; none if all of those were settled
// meanwhile.
func (snd *sender) nextResend(now Instant, p *Peer) []Publish {
	o := &p.out
	i := o.indexOf(o.resendFrom)
	for i < len(o.sent) && o.sent[i].resendEpoch != snd.connEpoch {
		i++
	}
	if i == len(o.sent) {
		o.resendEpoch = 0
		return nil
	}
	it := &o.sent[i]
	o.resendFrom = it.seq + 1
	snd.ready = append(snd.ready, Publish{To: p, resend: true})
	f := it.frame
	it.resendEpoch = 0
	it.sentAt = now
	it.sends++
	p.out.counts.Retransmitted++
	snd.stats.Retransmitted++
	pub := Publish{To: p, Seq: it.seq, WantHint: !p.out.peerResponded}
	head := wire.Head{Kind: wire.Data, Age: f.age(now), Seq: it.seq, PrevSeq: it.prev}
	if f.subject != "" {
		head.Kind = wire.Repair
		pub.Data = wire.AppendRepair(wire.AppendHead(nil, head), f.subject, f.castPacket)
	} else {
		// Use the process's subject: the port may have no subscriber, but its process knows why.
		// f.buf may be in hand
		pub.Data = append(wire.AppendHead(make([]byte, 0, len(f.buf)), head), f.buf[headroom:]...)
	}
	return snd.fragment(pub, it.prev)
}

// probe asks the receiver for its state, more often while the bus reports no subscriber.
func (snd *sender) probe(now Instant, p *Peer) {
	o := &p.out
	least := snd.rto(o)
	if o.noResponderSince != 0 {
		least = snd.cfg.MinRTO
	}
	o.probeInterval = min(max(2*o.probeInterval, least), snd.cfg.MaxProbeInterval)
	o.probeAt = now + Instant(o.probeInterval)
	snd.scheduleTick(p, o.probeAt)
	snd.stats.Beats++
	snd.ready = append(snd.ready, Publish{To: p, WantHint: true,
		Data: wire.AppendHead(nil, wire.Head{Kind: wire.Probe, Seq: o.lastSeq, PrevSeq: o.acked,
			Ack: snd.acks.piggybackAck(p)})})
}

// sampleRTT takes the time between a packet and its acknowledgement into account (RFC 6298).
func (o *outgoing) sampleRTT(rtt time.Duration) {
	if o.srtt == 0 {
		o.srtt = rtt
		o.rttvar = rtt / 2
		return
	}
	o.rttvar += (max(o.srtt-rtt, rtt-o.srtt) - o.rttvar) / 4
	o.srtt += (rtt - o.srtt) / 8
}
