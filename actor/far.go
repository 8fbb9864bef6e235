package actor

import (
	"bytes"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/subjects"
)

// farRun is messages that came together, of one sender in another process to one port. It takes one place in a lane,
// and they are decoded on the actor's turn, one after the other.
type farRun struct {
	fan         *Fan // that it is, and nothing of the below
	p           *Proc
	from        subjects.ActorID
	peer        *link.Peer
	actor, port string
	data        []byte        // what their bodies lie in
	posts       []link.Letter // what else they have
	one         [1]link.Letter
}

// keep makes the run of what came. Of a packet that is mostly for others only its part is kept.
func (r *farRun) keep(data []byte, letters []link.Letter) {
	r.posts = append(r.one[:0], letters...)
	from, last := letters[0].At, letters[len(letters)-1]
	to := last.At + last.Size
	if 2*int(to-from) >= len(data) {
		r.data = data
		return
	}
	r.data = bytes.Clone(data[from:to])
	for i := range r.posts {
		r.posts[i].At -= from
	}
}

// count is how many messages a place in a lane stands for.
func (r *farRun) count() int {
	if r == nil {
		return 1
	}
	return max(1, len(r.posts))
}

// delivery is a message of the run as one of any other kind.
func (r *farRun) delivery(raw []byte) *Delivery {
	return &Delivery{Actor: r.actor, Port: r.port, From: r.from, Raw: raw}
}

// refuse tells their sender that no handler runs the messages from, up to to.
func (r *farRun) refuse(from, to int, typ string, why *Error) {
	var waited uint64
	for _, lt := range r.posts[from:to] {
		d := r.delivery(nil)
		d.typ = typ
		r.p.undeliverable(d, why)
		waited += uint64(lt.Wait)
	}
	r.p.links.Taken(r.peer, waited)
}

// taking is what has been taken up of messages that wait for room, and their link was not told yet. It belongs to the
// turn.
type taking struct {
	run   *farRun
	bytes uint64
}

// sayTaken is how much may be taken up before the link is told.
const sayTaken = 32 << 10

// take takes up the i-th message of a run.
func (t *taking) take(r *farRun, i int) {
	if t.run != r { // to write a pointer costs more than to look
		t.run = r
	}
	if t.bytes += uint64(r.posts[i].Wait); i == len(r.posts)-1 || t.bytes >= sayTaken {
		t.say()
	}
}

// say tells the link. A run that is not handled to its end needs it.
func (t *taking) say() {
	if t.bytes > 0 {
		t.run.p.links.Taken(t.run.peer, t.bytes)
	}
	*t = taking{}
}

// blocks is where small bodies are copied to, out of the packet they came in: who keeps one keeps a
// block, not a packet.
type blocks struct {
	block []byte
	used  int
}

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
	case n > len(b.block)-b.used:
		b.block, b.used = make([]byte, blockSize), 0
	}
	own := b.block[b.used : b.used+n : b.used+n]
	b.used += n
	copy(own, body)
	return own
}
