package link

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

const (
	expiredText = "it did not arrive within its deadline"
	unknownText = "its deadline passed before its arrival was known"
)

// emitFate gives count messages of a run a fate (LINK-3).
func (snd *sender) emitFate(p *Peer, o *fateRun, count int, fate Fate) {
	if fate.Known {
		snd.stats.Undeliverable += uint64(count)
	} else {
		snd.stats.Indeterminate += uint64(count)
	}
	fate.Mark = o.mark
	fate.Peer = p
	fate.Count = count
	snd.addEffect(Effect{Kind: EffectFate, Peer: p, Fate: fate})
}

// setFate sets the fate of those messages of a packet, in a range of indexes, that have none.
// Barriers behind the packet are released later.
func (snd *sender) setFate(p *Peer, it *sentPacket, from, to int, fate Fate) {
	f := it.frame
	first := sort.Search(len(f.fates), func(i int) bool { return f.fates[i].first+f.fates[i].count > from })
	// a packet has thousands, returned one by one
	for i := first; i < len(f.fates) && f.fates[i].first < to; i++ {
		o := &f.fates[i]
		lo, hi := max(from, o.first), min(to, o.first+o.count)
		switch {
		case o.settled || it.fateKnown || lo >= hi:
		case lo > o.first:
			f.split(i, lo-o.first) // the rest is next
		default:
			if hi < o.first+o.count {
				f.split(i, hi-o.first)
				o = &f.fates[i]
			}
			snd.emitFate(p, o, o.count, fate)
			if f.subject != "" { // it has one message, reported for each link
				it.fateKnown = true
			} else {
				o.settled = true
			}
		}
	}
}

// allMessages is more than a packet has messages.
const allMessages = int(^uint(0) >> 1)

// OnState takes the receiver's state of the link to p. An error reports an impossible state.
func (snd *sender) OnState(now Instant, p *Peer, s *wire.LinkStateBody) error {
	if snd.ignores(p) {
		return nil
	}
	snd.markHeard(now, p)
	if len(s.Refusals) > 0 {
		snd.catchUp(p) // with all that may be refused
	}
	snd.catchUpWith(p, &s.Progress)
	if err := snd.checkAck(p, &s.Progress); err != nil {
		return err
	}
	snd.applyRefusals(p, s)
	snd.applyAck(now, p, &s.Progress)
	snd.retransmit(now, p, s.Missing)
	return nil
}

// checkAck returns an error for an impossible acknowledgement.
func (snd *sender) checkAck(p *Peer, k *wire.AckState) error {
	o := &p.out
	switch {
	case k.Acked > snd.lastSeq || o.openSeq != 0 && k.Acked > o.lastSeq:
	case o.isCurrent(k) && k.ReceivedBytes > o.sentBytes:
	default:
		return nil
	}
	return fmt.Errorf("link: %s claims to have %d bytes of %d, up to packet %d of %d", p.id, k.ReceivedBytes,
		o.sentBytes, k.Acked, o.lastSeq)
}

// isCurrent reports whether an acknowledgement is about the current opening of the link.
func (o *outgoing) isCurrent(k *wire.AckState) bool { return o.openSeq != 0 && k.Acked >= o.openSeq }

// applyAck applies acknowledgements and credit. Values below the known ones are old.
func (snd *sender) applyAck(now Instant, p *Peer, k *wire.AckState) {
	o := &p.out
	if !o.isCurrent(k) || k.Acked < o.acked {
		return
	}
	o.peerResponded = true
	// A peer may also count messages from before this opening, hence the min.
	o.receivedBytes = max(o.receivedBytes, k.ReceivedBytes)
	if k.Window != 0 {
		o.window = min(k.Window, uint64(snd.cfg.Window))
	}
	gone := o.indexOf(k.Acked + 1)
	for i := range o.sent[:gone] {
		it := &o.sent[i]
		if it.replied {
			o.repliedPackets--
		}
		if it.seq == k.Acked && it.sends == 1 && !it.frame.replyAcks {
			o.sampleRTT(time.Duration(now - it.sentAt))
		}
		it.release()
		snd.recycle(it.frame)
	}
	if gone > 0 {
		o.dropSent(gone)
		o.acked = k.Acked
		o.ackDelayed = len(o.sent) > 0 && !slices.ContainsFunc(o.sent,
			func(it sentPacket) bool { return !it.frame.replyAcks })
		snd.resetProbeTimer(now, p)
	}
	snd.leaveIfLow(p)
	snd.signalRoom(p)
	snd.scheduleSend(p)
}

// minSentCap is the capacity kept for packets of an idle link.
const minSentCap = 8

// dropSent drops the first sent packets.
func (o *outgoing) dropSent(n int) {
	clear(o.sent[:n])
	switch {
	case n < len(o.sent):
		o.sent = o.sent[n:]
	case cap(o.sent) <= minSentCap:
		o.sent = o.sent[:0]
	default:
		o.sent = nil
	}
}

// release frees the memory of a packet.
func (it *sentPacket) release() {
	if it.transfer != nil {
		it.transfer.inFlight--
	}
	releaseBarriers(it.barriers)
	it.barriers = nil
}

// applyRefusals gives refused messages their fate, once each, and confirms them.
func (snd *sender) applyRefusals(p *Peer, s *wire.LinkStateBody) {
	if len(s.Refusals) == 0 {
		return
	}
	var last *sentPacket
	for _, r := range s.Refusals {
		it := p.out.find(r.Seq)
		if it != last && last != nil {
			last.releaseBarriers()
		}
		last = it
		if it != nil && r.Index >= 0 && r.Count > 0 && r.Count < allMessages-r.Index {
			fate := Fate{Known: true, Reason: Refused, Why: r.Why}
			if len(r.Why) == 0 { // it arrived after a question about its fate at its deadline
				fate.Reason, fate.Text = Expired, expiredText
			}
			snd.setFate(p, it, r.Index, r.Index+r.Count, fate)
		}
	}
	if last != nil {
		last.releaseBarriers()
	}
	p.out.confirmed = true
	snd.emitControl(p, wire.ConfirmRefusals, wire.ConfirmBody{Next: s.FirstRefusal + uint64(len(s.Refusals))})
}

// OnVerdict takes the receiver's verdict that messages did not arrive and never will.
func (snd *sender) OnVerdict(p *Peer, v *wire.FateQueryBody) {
	snd.catchUp(p)
	it := p.out.find(v.Seq)
	if it == nil {
		return
	}
	for i := 0; i+1 < len(v.Indexes); i += 2 {
		first := v.Indexes[i]
		count := v.Indexes[i+1]
		if first >= 0 && count > 0 && count < allMessages-first {
			snd.setFate(p, it, first, first+count, Fate{Known: true, Reason: Expired, Text: expiredText})
		}
	}
	it.releaseBarriers()
}

// OnReceiverReset takes the receiver's reset of the link. It answers an old packet if the receiver
// has taken later ones.
func (snd *sender) OnReceiverReset(p *Peer, b *wire.ResetBody) {
	snd.catchUp(p)
	o := &p.out
	if old := b.Seq < b.Last && b.Last <= o.lastSeq; !old && o.openSeq != 0 &&
		b.Seq >= o.openSeq && b.Seq <= o.lastSeq {
		snd.resetOutgoing(p, LinkReset, b.Text)
		if b.Last > snd.lastSeq {
			snd.disown(p, b.Last)
		}
	}
}

// maxSkip bounds how many numbers a claim of another process costs: more than leave while a reset
// is on its way.
const maxSkip = 1 << 32

// disown tells the receiver that another process has used number n in the name of this one
// (LINK-14). No packet gets that number later: a late copy of this reset would take it back.
func (snd *sender) disown(p *Peer, n uint64) {
	snd.sendSenderReset(p, wire.ResetBody{Seq: snd.lastSeq, Text: "another process has used number " +
		strconv.FormatUint(n, 10), Last: n})
	if n > snd.lastSeq {
		snd.lastSeq += min(n-snd.lastSeq, maxSkip)
	}
}

// OnHint takes the bus's report of no subscriber for packet n; 0: for a probe (LINK-13). It takes
// effect when repeated for long enough.
func (snd *sender) OnHint(now Instant, p *Peer, n uint64) {
	snd.catchUp(p)
	o := &p.out
	if it := o.find(n); it != nil && it.sends == 1 {
		it.noResponder = true
	}
	if !o.awaitsAck() {
		return
	}
	if o.noResponderSince == 0 {
		o.noResponderSince = now
		o.probeInterval = 0
		o.probeAt = now + Instant(snd.cfg.MinRTO)
		snd.scheduleTick(p, o.probeAt)
		if p.leftAt == 0 {
			return
		}
	}
	if now-o.noResponderSince >= snd.noResponderGrace(p) {
		snd.resetOutgoing(p, NoProcess, "no responders: process "+p.id.String()+" does not exist or is gone")
	}
}

// noResponderGrace is the delay before missing subscribers of a peer take effect: a known peer may
// be reconnecting, unless it said goodbye.
func (snd *sender) noResponderGrace(p *Peer) Instant {
	if p.leftAt != 0 {
		return 0
	}
	if p.heardFrom {
		return Instant(snd.cfg.ReconnectGrace)
	}
	return Instant(snd.cfg.NoResponderGrace)
}

// OnGoodbye takes a peer's announcement that it closes its links.
func (snd *sender) OnGoodbye(now Instant, p *Peer) {
	p.leftAt = now
	snd.scheduleTick(p, snd.silenceDeadline(p))
}

// resetOutgoing ends the link to a peer. Every message in flight gets a fate, and the next message
// opens the link again (LINK-6).
func (snd *sender) resetOutgoing(p *Peer, why Reason, text string) {
	snd.leave(p)
	p.suspect.trust()
	o := &p.out
	if o.idle() && (o.openSeq == 0 || why == LinksClosed || why == BusClosed) { // the peer needs no reset
		return
	}
	fate := Fate{Reason: why, Text: text}
	for i := range o.sent {
		it := &o.sent[i]
		fate.Known = it.noResponder && it.sends == 1 // the only copy had no receiver
		snd.setFate(p, it, 0, allMessages, fate)
		it.releaseBarriers()
		it.release()
	}
	fate.Known = true // of messages not completely sent
	for _, f := range o.queue {
		for i := range f.fates {
			snd.emitFate(p, &f.fates[i], f.fates[i].count, fate)
		}
		releaseBarriers(f.barriers)
	}
	for _, t := range o.transfers {
		t.leaveCast()
		snd.emitFate(p, &fateRun{mark: t.mark}, 1, fate)
		releaseBarriers(t.barriers)
		for i := range t.followers {
			snd.emitFate(p, &fateRun{mark: t.followers[i].mark}, 1, fate)
			releaseBarriers(t.followers[i].barriers)
		}
	}
	if why != Dead && p.leftAt == 0 && o.openSeq != 0 {
		snd.sendSenderReset(p, wire.ResetBody{Seq: o.lastSeq, Text: text, Closed: why == LinksClosed})
	}
	snd.removeQueued(p, o.queuedBytes)
	*o = outgoing{
		frameCount: o.frameCount, roomWanted: o.roomWanted,
		crowded: o.crowded, sentReturnable: o.sentReturnable,
		resendEpoch: o.resendEpoch, resendFrom: o.resendFrom, counts: o.counts,
	}
	snd.emitBroken(p, &Error{Reason: why, Text: text})
}

// sendSenderReset tells the receiver that no packet up to a number will come any more.
func (snd *sender) sendSenderReset(p *Peer, g wire.ResetBody) {
	g.Text = truncateText(g.Text)
	snd.emitControl(p, wire.SenderReset, g)
}

// truncateText is a text short enough for a control packet.
func truncateText(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), 512)], "")
}
