package link

import (
	"slices"

	"github.com/castnet-io/castnet/internal/wire"
)

// transfer is a message larger than a packet. It leaves in parts. Later messages of its sender for
// the same actor wait behind it, and all others overtake it (LINK-9).
type transfer struct {
	to         *Target
	sender     string
	whole      *parts
	sent       int    // bytes of it sent so far
	afterFrame uint64 // the last frame queued before it: its last part leaves after that
	inFlight   int    // unacknowledged parts
	mark       Mark
	until      Instant
	createdAt  Instant
	followers  []message
	barriers   []*Barrier

	cast *sharedCast // with whose other members it leaves; nil: by itself
}

// message is a message in the queue, or behind a transfer.
type message struct {
	to       *Target
	envelope wire.Envelope
	whole    *parts // it, encoded, when it is to leave in parts; its body is there. nil: not yet
	mark     Mark
	until    Instant
	sentAt   Instant // the base of its remaining time
	barriers []*Barrier
}

func (m *message) size() int { return m.bodyLen() + len(m.envelope.Ext) + messageCost }

func (m *message) bodyLen() int {
	if m.whole != nil {
		return m.whole.body
	}
	return m.envelope.BodyLen()
}

// partSize is the size of a transfer's next part: a window has room for several.
func (snd *sender) partSize(o *outgoing, t *transfer) int {
	size := snd.chunkSize()
	if o.openSeq != 0 {
		size = max(1, min(size, int(o.window/4)))
	}
	return min(size, t.whole.toEnd(t.sent))
}

// nextTransfer returns the transfer whose next part leaves now. Transfers take turns with packets,
// and with each other. A last part must not overtake earlier messages.
func (snd *sender) nextTransfer(now Instant, o *outgoing) *transfer {
	for i, t := range o.transfers {
		if snd.maySendPart(o, t) && !snd.awaitsMembers(now, t) {
			copy(o.transfers[i:], o.transfers[i+1:])
			o.transfers[len(o.transfers)-1] = t
			return t
		}
	}
	return nil
}

// maySendPart reports whether the next part of a transfer may leave, except for credit.
func (snd *sender) maySendPart(o *outgoing, t *transfer) bool {
	last := t.sent+snd.partSize(o, t) == t.whole.total
	return (len(o.queue) == 0 || o.partNext && !(last && o.queue[0].serial <= t.afterFrame)) &&
		t.inFlight < snd.chunksInFlight()
}

// chunk is the next part of a transfer.
func (t *transfer) chunk(size int) wire.Envelope {
	return wire.Envelope{
		Kind: wire.Chunk, Actor: t.to.Actor, Port: t.to.Port, Sender: t.sender,
		Ext:  wire.ChunkHead{ID: t.whole.id, Offset: t.sent, Total: t.whole.total}.Append(nil),
		Body: t.whole.bytes(t.sent, size),
	}
}

// takePart counts the next part of a transfer as sent, in a frame. The last part takes the mark.
func (snd *sender) takePart(p *Peer, t *transfer, f *frame, size int) (last bool) {
	f.transfer = t
	t.sent += size
	t.inFlight++
	p.out.partNext = false
	snd.removeQueued(p, size)
	if t.sent < t.whole.total {
		return false
	}
	f.fates = []fateRun{{count: 1, mark: t.mark, until: t.until}}
	f.until = t.until
	f.barriers = t.barriers
	return true
}

// sendPart prepares a part of a transfer. The last part releases the messages behind it.
func (snd *sender) sendPart(now Instant, p *Peer, t *transfer) bool {
	o := &p.out
	if t.until <= now {
		snd.expireTransfer(p, t)
		return true
	}
	if t.cast != nil && snd.isReady(t) && snd.sendShared(now, t) {
		return true
	}
	size := snd.partSize(o, t)
	f := newFrame(t.createdAt, t.to)
	e := t.chunk(size)
	f.buf = t.whole.packet(e.AppendPrefix(f.buf, false), t.sent, size)
	f.count = 1
	f.open = false
	if !o.hasCredit(f.windowCost()) {
		snd.requestAck(now, p)
		return false
	}
	t.leaveCast()
	last := snd.takePart(p, t, f, size)
	snd.publish(now, p, f)
	if last {
		snd.finishTransfer(p, t)
	}
	return true
}

// finishTransfer ends a transfer and queues the messages behind it.
func (snd *sender) finishTransfer(p *Peer, t *transfer) {
	o := &p.out
	t.leaveCast()
	o.transfers = slices.DeleteFunc(o.transfers, func(of *transfer) bool { return of == t })
	for i := range t.followers {
		snd.removeQueued(p, t.followers[i].size())
		snd.enqueue(p, &t.followers[i])
	}
	t.followers = nil
}

// expireTransfer ends an unfinished transfer, and releases the messages behind it.
func (snd *sender) expireTransfer(p *Peer, t *transfer) {
	snd.emitFate(p, &fateRun{mark: t.mark}, 1, Fate{Known: true, Reason: Expired, Text: expiredText})
	releaseBarriers(t.barriers)
	snd.removeQueued(p, t.whole.total-t.sent)
	if t.sent > 0 {
		snd.abortTransfer(p, t)
	}
	snd.finishTransfer(p, t)
}

// abortTransfer tells the receiver that the rest of a transfer does not come.
func (snd *sender) abortTransfer(p *Peer, t *transfer) {
	f := newFrame(t.createdAt, t.to)
	e := wire.Envelope{
		Kind: wire.Chunk, Actor: t.to.Actor, Port: t.to.Port, Sender: t.sender,
		Ext: wire.ChunkHead{ID: t.whole.id}.Append(nil),
	}
	f.buf = e.Append(f.buf, false)
	f.count = 1
	f.open = false
	f.transfer = t
	t.inFlight++
	snd.push(p, f)
	snd.addQueued(p, f.size())
}

// expireFollowers ends messages that waited too long behind a transfer, and returns the next
// deadline.
func (snd *sender) expireFollowers(now Instant, p *Peer, t *transfer) (next Instant) {
	kept := t.followers[:0]
	for i := range t.followers {
		w := &t.followers[i]
		if w.until <= now {
			snd.emitFate(p, &fateRun{mark: w.mark}, 1, Fate{Known: true, Reason: Expired, Text: expiredText})
			releaseBarriers(w.barriers)
			snd.removeQueued(p, w.size())
			continue
		}
		next = soonest(next, w.until)
		kept = append(kept, *w)
	}
	clear(t.followers[len(kept):])
	t.followers = kept
	return next
}
