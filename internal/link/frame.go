package link

import (
	"slices"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// frame is a Data packet in the making, and then what is kept of it until it is acknowledged. That of
// a cast is shared by all links it went to.
type frame struct {
	to      *Target // of the first envelope; alone, it leaves on that port's subject
	subject string  // of a cast
	whole   []byte  // of a cast: the packet
	answers bool    // of a cast: see Cast.Answers
	buf     []byte  // room for a head, then envelopes
	made    Instant
	serial  uint64 // counts the frames of a link
	count   int    // envelopes in it
	open    bool   // more may be added
	owed    []owed
	until   Instant // the first deadline in owed; 0: none
	part    *transfer
	waiting []*Barrier // until it leaves; then its item has them
	lent    int        // packets made of it that are about to be published
	posts   bool       // something in it can come back: a post, or a cast, which may be one

	lastTo     *Target
	lastSender string
}

// owed is a number of messages in a row of one frame whose sender wants to know what became of them.
type owed struct {
	first, count int
	mark         Mark
	until        Instant
	asked        Instant // when their receiver was asked; 0: it was not
	told         bool
}

// headroom is what a frame leaves in front for its head.
const headroom = wire.HeadSize

// startSize is what a frame has room for at first.
const startSize = 256

func newFrame(now Instant, to *Target) *frame {
	return &frame{to: to, buf: make([]byte, headroom, headroom+startSize), made: now, open: true}
}

// room is what a frame of many messages takes: for all that a packet may have, and for who wants to know what became
// of it. It is used again and again.
type room struct {
	buf  []byte
	owed []owed
}

// enlarge makes room for n bytes more in a frame that had room for the first messages alone.
func (c *Core) enlarge(f *frame, n int) {
	full := headroom + c.cfg.PacketSize + margin
	if need := len(f.buf) + n; need <= cap(f.buf) || need > full {
		return
	}
	var r room
	if n := len(c.spare); n > 0 {
		r, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		r.buf = make([]byte, 0, full)
	}
	f.buf = append(r.buf[:0], f.buf...)
	if cap(r.owed) > len(f.owed) {
		f.owed = append(r.owed[:0], f.owed...)
	}
}

// maxSpare bounds the room that is kept for other packets: a window's, which a sender in a hurry fills
// again and again. What is owed takes no more than the packet.
const (
	maxSpare     = 256
	maxSpareOwed = 256
)

// reuse keeps the room of a frame that has arrived.
func (c *Core) reuse(f *frame) {
	full := headroom + c.cfg.PacketSize + margin
	if cap(f.buf) != full || f.lent != 0 || f.subject != "" || len(c.spare) == maxSpare {
		return
	}
	r := room{buf: f.buf}
	if cap(f.owed) <= maxSpareOwed {
		clear(f.owed)
		r.owed = f.owed[:0]
	}
	c.spare = append(c.spare, r)
	f.buf, f.owed = nil, nil
}

// size is the number of bytes of its envelopes.
func (f *frame) size() int { return len(f.buf) - headroom }

// cost is what it counts for in the window of its link.
func (f *frame) cost() uint64 { return uint64(f.size() + packetCost) }

// add appends an envelope.
func (f *frame) add(e *wire.Envelope, to *Target, m *Mark, until Instant) {
	same := f.count > 0 && f.lastTo == to && f.lastSender == e.Sender
	f.posts = f.posts || m.Call == nil || e.Kind == wire.Cast
	f.buf = e.Append(f.buf, same)
	if same && m.Call == nil {
		if o := &f.owed[len(f.owed)-1]; o.until == until && o.mark.Call == nil && o.mark.Type == m.Type {
			o.count++
			f.count++
			return
		}
	}
	f.lastTo, f.lastSender = to, e.Sender
	f.owed = append(f.owed, owed{first: f.count, count: 1, mark: *m, until: until})
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

// at is the subject that a packet of the frame leaves on: a message alone has its port's own.
func (f *frame) at() string {
	if f.count == 1 && f.part == nil {
		return f.to.Subject
	}
	return ""
}

// age is what the remaining times in the frame have lost.
func (f *frame) age(now Instant) time.Duration { return time.Duration(now - f.made) }

// split makes two of the i-th run of messages, of which the first has count.
func (f *frame) split(i, count int) {
	rest := f.owed[i]
	f.owed[i].count = count
	rest.first, rest.count = rest.first+count, rest.count-count
	f.owed = slices.Insert(f.owed, i+1, rest)
}

// without is the frame without the messages that were told their fate; nil when none is left.
func (f *frame) without(drop func(*wire.Envelope)) *frame {
	rest := newFrame(f.made, nil)
	rest.serial, rest.waiting, rest.open = f.serial, f.waiting, false
	es := wire.NewEnvelopes(f.buf[headroom:])
	var e wire.Envelope
	for _, o := range f.owed {
		for range o.count {
			es.Next(&e)
			if o.told {
				drop(&e)
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

// next is the first deadline of a message whose fate is not known, or the end of the patience with
// who was asked.
func (f *frame) next(patience Instant) (until Instant) {
	for i := range f.owed {
		o := &f.owed[i]
		switch {
		case o.told:
		case o.asked != 0:
			until = soonest(until, o.asked+patience)
		default:
			until = soonest(until, o.until)
		}
	}
	return until
}
