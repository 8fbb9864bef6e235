package actor

import (
	"sync"
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

// asked are the messages of other procs whose senders wait for an answer, by their reply port.
type asked struct {
	mu  sync.Mutex
	all map[string]*Delivery

	early map[string]subjects.ProcessID // given up before they were here, or after they were answered
}

// maxEarly bounds early; then it begins anew.
const maxEarly = 4096

// wanted is what it takes to give a message up.
type wanted struct {
	among *asked
	over  atomic.Bool
	ctx   atomic.Pointer[Context] // of its handler
}

// cancelable lets the sender of a message give it up.
func (d *Delivery) cancelable(a *asked) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]*Delivery{}
	}
	if a.all[d.Reply] != nil { // its sender uses a port twice
		return
	}
	a.all[d.Reply] = d
	d.wanted = &wanted{among: a}
	if from, gone := a.early[d.Reply]; gone && from == d.From.Proc.Process() {
		delete(a.early, d.Reply)
		d.wanted.over.Store(true)
	}
	answer := d.Answer
	d.Answer = func(ans Answer) {
		d.forget()
		answer(ans)
	}
}

// forget ends that.
func (d *Delivery) forget() {
	if d.wanted == nil {
		return
	}
	a := d.wanted.among
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[d.Reply] == d {
		delete(a.all, d.Reply)
	}
}

// handled says that a handler is about to run the message; false when nobody wants that any more.
func (d *Delivery) handled(ctx *Context) bool {
	w := d.wanted
	if w == nil {
		return true
	}
	w.ctx.Store(ctx)
	if w.over.Load() {
		d.forget()
		return false
	}
	return true
}

// cancel gives a message up: its context ends, or it is not handled at all.
func (a *asked) cancel(from subjects.ProcessID, reply string) {
	a.mu.Lock()
	d := a.all[reply]
	if d == nil { // the control lane is faster
		if a.early == nil || len(a.early) >= maxEarly {
			a.early = map[string]subjects.ProcessID{}
		}
		a.early[reply] = from
	}
	a.mu.Unlock()
	if d == nil || d.From.Proc.Process() != from {
		return
	}
	d.wanted.over.Store(true)
	if ctx := d.wanted.ctx.Load(); ctx != nil {
		ctx.cancel()
	}
}

// lost gives up everything that a proc which is gone waits for.
func (a *asked) lost(from subjects.ProcID) {
	a.mu.Lock()
	var replies []string
	for reply, d := range a.all {
		if d.From.Proc == from || d.From.Proc.Lead() == from {
			replies = append(replies, reply)
		}
	}
	a.mu.Unlock()
	for _, reply := range replies {
		a.cancel(from.Process(), reply)
	}
}

// blocks is where small bodies are copied to, out of the packet they came in: who keeps one keeps a
// block, not a packet.
type blocks struct{ free []byte }

const (
	blockSize = 4 << 10
	smallBody = 512     // up to this size several share a block
	largeBody = 1 << 10 // from this size on a body shares its packet: that has room for few
)

// clone copies a body, unless it is most of its packet.
func (b *blocks) clone(body []byte) []byte {
	n := len(body)
	switch {
	case n == 0:
		return []byte{}
	case n >= largeBody:
		return body
	case n > smallBody:
		return append(make([]byte, 0, n), body...)
	case n > len(b.free):
		b.free = make([]byte, blockSize)
	}
	own := b.free[:n:n]
	b.free = b.free[n:]
	copy(own, body)
	return own
}
