package link

import (
	"slices"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// frame is a Data packet under construction, and later its stored copy until the acknowledgement.
// All links of a cast share one frame.
type frame struct {
	to         *Target // of the first envelope; a single message leaves on that port's subject
	subject    string  // of a cast
	castPacket []byte  // of a cast: the packet
	replyAcks  bool    // of a cast: see Cast.Answers
	buf        []byte  // room for a head, then envelopes
	createdAt  Instant
	serial     uint64 // counts the frames of a link
	count      int    // envelopes in it
	open       bool   // more may be added
	fates      []fateRun
	until      Instant // the first deadline in owed; 0: none
	transfer   *transfer
	barriers   []*Barrier // until it leaves; then its item has them
	publishers int        // packets of it about to be published
	returnable bool       // it holds a message that may come back: a send, or a cast of one
	hops       *wire.Hops // of its first sampled message; nil: it has none

	lastTo     *Target
	lastSender string
}

// fateRun is a number of consecutive messages in one frame with an interested sender.
type fateRun struct {
	first, count int
	mark         Mark
	until        Instant
	queriedAt    Instant // when their receiver was asked; 0: it was not
	settled      bool
}

// headroom is the space for the head in front of a frame.
const headroom = wire.HeadSize

// initialFrameSize is the initial capacity of a frame, in bytes.
const initialFrameSize = 256

func newFrame(now Instant, to *Target) *frame {
	return &frame{to: to, buf: make([]byte, headroom, headroom+initialFrameSize), createdAt: now, open: true}
}

// frameBuf is the reusable memory of a frame with many messages: a full packet, and the fate runs.
type frameBuf struct {
	buf   []byte
	fates []fateRun
}

// growFrame gives a frame room for n bytes more.
func (snd *sender) growFrame(f *frame, n int) {
	full := headroom + snd.cfg.PacketSize + headMargin
	if need := len(f.buf) + n; need <= cap(f.buf) || need > full {
		return
	}
	var r frameBuf
	if n := len(snd.freeBufs); n > 0 {
		r = snd.freeBufs[n-1]
		snd.freeBufs = snd.freeBufs[:n-1]
	} else {
		r.buf = make([]byte, 0, full)
	}
	f.buf = append(r.buf[:0], f.buf...)
	if cap(r.fates) > len(f.fates) {
		f.fates = append(r.fates[:0], f.fates...)
	}
}

// maxSpare bounds the buffers kept for later packets: one window, as a fast sender fills it again
// and again. A stored frame takes no more than its packet.
const (
	maxFreeBufs  = 256
	maxFreeFates = 256
)

// recycle keeps the buffer of an acknowledged frame.
func (snd *sender) recycle(f *frame) {
	full := headroom + snd.cfg.PacketSize + headMargin
	if cap(f.buf) != full || f.transfer != nil || f.publishers != 0 || f.subject != "" ||
		len(snd.freeBufs) == maxFreeBufs {
		return
	}
	r := frameBuf{buf: f.buf}
	if cap(f.fates) <= maxFreeFates {
		clear(f.fates)
		r.fates = f.fates[:0]
	}
	snd.freeBufs = append(snd.freeBufs, r)
	f.buf, f.fates = nil, nil
}

// size is the number of bytes of its envelopes.
func (f *frame) size() int { return len(f.buf) - headroom }

// windowCost is the frame's cost in the window of its link.
func (f *frame) windowCost() uint64 { return uint64(f.size() + packetCost) }

// add appends an envelope.
func (f *frame) add(e *wire.Envelope, to *Target, m *Mark, until Instant) {
	same := f.count > 0 && f.lastTo == to && f.lastSender == e.Sender
	f.returnable = f.returnable || m.Call == nil || e.Kind == wire.Cast
	f.buf = e.Append(f.buf, same)
	f.hops = e.AddHops(f.hops)
	if same && m.Call == nil {
		if o := &f.fates[len(f.fates)-1]; o.until == until && o.mark.Call == nil && o.mark.Type == m.Type {
			o.count++
			f.count++
			return
		}
	}
	f.lastTo, f.lastSender = to, e.Sender
	f.fates = append(f.fates, fateRun{first: f.count, count: 1, mark: *m, until: until})
	f.until = soonest(f.until, until)
	f.count++
}

// packet is the frame with a head in front.
func (f *frame) packet(h wire.Head) []byte {
	var room [headroom]byte
	head := wire.AppendHead(room[:0], h)
	at := headroom - len(head)
	copy(f.buf[at:], head)
	return f.buf[at:]
}

// publishSubject returns the subject of the frame's packet: a single message leaves on its port's
// own.
func (f *frame) publishSubject() string {
	if f.count == 1 && f.transfer == nil {
		return f.to.Subject
	}
	return ""
}

// age is the time to subtract from the remaining times in the frame.
func (f *frame) age(now Instant) time.Duration { return time.Duration(now - f.createdAt) }

// split splits the i-th run of messages; the first part has count.
func (f *frame) split(i, count int) {
	rest := f.fates[i]
	f.fates[i].count = count
	rest.first, rest.count = rest.first+count, rest.count-count
	f.fates = slices.Insert(f.fates, i+1, rest)
}

// withoutSettled returns the frame without the settled messages; nil if none is left.
func (f *frame) withoutSettled() *frame {
	rest := newFrame(f.createdAt, nil)
	rest.serial = f.serial
	rest.barriers = f.barriers
	rest.open = false
	es := wire.NewEnvelopeReader(f.buf[headroom:])
	var e wire.Envelope
	for _, o := range f.fates {
		for range o.count {
			es.Next(&e)
			if o.settled {
				continue
			}
			if rest.to == nil {
				rest.to = o.mark.To
			}
			rest.add(&e, o.mark.To, &o.mark, o.until)
		}
	}
	if rest.count == 0 {
		return nil
	}
	return rest
}

// nextDeadline is the first deadline of a message without a fate, or the end of the wait for a
// queried receiver.
func (f *frame) nextDeadline(patience Instant) (until Instant) {
	for i := range f.fates {
		o := &f.fates[i]
		switch {
		case o.settled:
		case o.queriedAt != 0:
			until = soonest(until, o.queriedAt+patience)
		default:
			until = soonest(until, o.until)
		}
	}
	return until
}
