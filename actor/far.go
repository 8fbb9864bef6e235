package actor

import (
	"sync/atomic"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/subjects"
)

// far is what a message that another process posted has, besides itself.
type far struct {
	run  *farRun
	wait uint32 // what its link is told once it is taken up, when it waits for room; of a Fan: which turn
}

// farRun is what messages have in common that came together, of one sender to one port.
type farRun struct {
	fan         *Fan // that it is, and nothing of the below
	p           *Proc
	from        subjects.ActorID
	peer        *link.Peer
	actor, port string
	taken       atomic.Uint64 // what the link has not been told yet
	left        atomic.Int64  // messages that are not taken up
}

// sayTaken is how much may be taken up before the link is told.
const sayTaken = 32 << 10

// take says that a message is taken up, or will not be.
func (f far) take() {
	if f.wait == 0 {
		return
	}
	r := f.run
	n := r.taken.Add(uint64(f.wait))
	if r.left.Add(-1) <= 0 || n >= sayTaken {
		r.p.links.Taken(r.peer, r.taken.Swap(0))
	}
}

// delivery is the message as one of any other kind.
func (r *farRun) delivery(raw []byte) *Delivery {
	return &Delivery{Actor: r.actor, Port: r.port, From: r.from, Raw: raw}
}

// blocks is where small bodies are copied to, out of the packet they came in: who keeps one keeps a
// block, not a packet.
type blocks struct{ free []byte }

const (
	blockSize = 4 << 10
	smallBody = 512     // up to this size several share a block
	largeBody = 1 << 10 // from this size on a body shares its packet: that has room for few
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
	case n > len(b.free):
		b.free = make([]byte, blockSize)
	}
	own := b.free[:n:n]
	b.free = b.free[n:]
	copy(own, body)
	return own
}
