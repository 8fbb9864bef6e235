package actor

import (
	"bytes"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// remoteBatch is a batch of messages from one sender in another process to one port. It takes one
// place in an endpoint queue. The messages are decoded on the actor's turn, one after the other.
type remoteBatch struct {
	multicast   *LocalMulticast // set: a multicast message; the fields below are unused
	p           *Proc
	from        subjects.ActorID
	actor, port string
	trace       *wire.Trace    // nil: none
	data        []byte         // the packet with the bodies
	messages    []link.BodyRef // the rest of each message
	single      [1]link.BodyRef
}

// fill makes a batch of received messages. If a packet is mostly for others, the batch copies its
// own part.
func (r *remoteBatch) fill(data []byte, letters []link.BodyRef) {
	r.messages = append(r.single[:0], letters...)
	from := letters[0].Offset
	last := letters[len(letters)-1]
	to := last.Offset + last.Size
	if 2*int(to-from) >= len(data) {
		r.data = data
		return
	}
	r.data = bytes.Clone(data[from:to])
	for i := range r.messages {
		r.messages[i].Offset -= from
	}
}

// count returns the number of messages behind one place in a queue.
func (r *remoteBatch) count() int {
	if r == nil {
		return 1
	}
	return max(1, len(r.messages))
}

// delivery is a message of the run as one of any other kind.
func (r *remoteBatch) delivery(raw []byte) *Delivery {
	return &Delivery{Actor: r.actor, Port: r.port, From: r.from, Raw: raw}
}

// refuse notifies the sender that no handler runs the messages [from, to).
func (r *remoteBatch) refuse(from, to int, typ string, why *Error) {
	for range to - from {
		d := r.delivery(nil)
		d.typ = typ
		r.p.deadLetters.reject(d, why)
	}
}

// blocks are copies of small bodies out of their packets. A kept body then keeps a block, not a
// packet.
type blocks struct {
	block []byte
	used  int
}

const (
	blockSize = 4 << 10
	smallBody = 512     // up to this size several share a block
	largeBody = 1 << 10 // from this size on a body stays in its packet
)

// clone copies a body, unless it is most of its packet. Nil shares nothing.
func (b *blocks) clone(body []byte) []byte {
	n := len(body)
	switch {
	case n == 0:
		return []byte{}
	case n >= largeBody:
		return body
	case n > smallBody, b == nil:
		return append(make([]byte, 0, n), body...)
	case n > len(b.block)-b.used:
		b.block = make([]byte, blockSize)
		b.used = 0
	}
	own := b.block[b.used : b.used+n : b.used+n]
	b.used += n
	copy(own, body)
	return own
}
