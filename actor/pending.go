package actor

import (
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// pendingRequests holds the requests from other procs, by reply port.
type pendingRequests struct {
	mu  sync.Mutex
	all map[string]pendingRequest

	earlyCancels map[string]subjects.ProcessID // given up before they were here, or after they were answered
}

// maxEarlyCancels bounds the early cancels; a full table is cleared.
const maxEarlyCancels = 4096

// pendingRequest is one of them.
type pendingRequest interface {
	requester() subjects.ProcID
	cancel() // on any goroutine
}

// add registers a request. ok is false if its port is in use. gone reports that the caller has
// already cancelled.
func (a *pendingRequests) add(reply string, q pendingRequest) (gone, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]pendingRequest{}
	}
	if a.all[reply] != nil {
		return false, false
	}
	a.all[reply] = q
	from, gone := a.earlyCancels[reply]
	gone = gone && from == q.requester().Process()
	if gone {
		delete(a.earlyCancels, reply)
	}
	return gone, true
}

// remove unregisters a request.
func (a *pendingRequests) remove(reply string, q pendingRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[reply] == q {
		delete(a.all, reply)
	}
}

// request is a request from another proc, as one allocation.
type request struct {
	Delivery
	to replyTo
}

// replyTo is the destination of an answer, and the state of its cancellation.
type replyTo struct {
	p       *Proc // the answering proc
	port    replyPort
	pending *pendingRequests // nil: it cannot be given up
	// the answer is stored for a repeated request on the control connection (ACT-12)
	storeAnswer bool
	cancelled   atomic.Bool
	handlerCtx  atomic.Pointer[Context] // of its running handler
	onCancel    atomic.Pointer[func()]  // called on cancellation of a Deferred
	ctx         Context
}

// replyPort is a port waiting for an answer.
type replyPort struct {
	port subjects.PortID
	peer *link.Peer // of its process; nil: not known

	batch bool // other answers are about to follow
}

// newRequest creates a Delivery for a request from another proc. peer is the sending process; nil
// for this one. The reply port must be on that process: answers sent elsewhere would be forged
// ones.
func (b *inbox) newRequest(peer *link.Peer, e *wire.Envelope) (*Delivery, error) {
	p := b.p
	q := &request{}
	q.Reply = e.Reply
	at, ok := b.parseReplyPort(e.Reply)
	if !ok { // a caller waits: an error of the handler does not end the actor
		q.Answer = func(Answer) {}
		return &q.Delivery, nil
	}
	if peer != nil && at.port.Actor.Proc.Lead() != peer.Lead() {
		p.counts.malformed.Add(1)
		return nil, errorf(CodeBadMessage, p.id.Actor(e.Actor).String(), e.Port,
			"want a port of %s for the answer, got %q", peer.ID(), e.Reply)
	}
	at.peer = peer
	q.to.p = p
	q.to.port = at
	q.replyTo = &q.to
	return &q.Delivery, nil
}

// registerCancel lets the sender of a message give it up.
func (d *Delivery) registerCancel(a *pendingRequests) {
	w := d.replyTo
	if w == nil {
		return
	}
	gone, ok := a.add(d.Reply, d)
	if ok {
		w.pending = a
	}
	if gone {
		w.cancelled.Store(true)
	}
}

// unregisterCancel removes the request from the cancellable ones.
func (d *Delivery) unregisterCancel() {
	if w := d.replyTo; w != nil && w.pending != nil {
		w.pending.remove(d.Reply, d)
	}
}

// context returns the Context of the handler.
func (d *Delivery) context(in *instance) *Context {
	ctx := &Context{}
	if d.replyTo != nil {
		ctx = &d.replyTo.ctx
	}
	ctx.origin = origin{in, d.trace}
	ctx.answer = d
	if !d.Deadline.IsZero() {
		ctx.deadline = in.proc.instant(d.Deadline)
	}
	return ctx
}

func (d *Delivery) requester() subjects.ProcID { return d.From.Proc }

func (d *Delivery) cancel() {
	d.replyTo.cancelled.Store(true)
	if ctx := d.replyTo.handlerCtx.Load(); ctx != nil {
		ctx.cancel()
	}
	if quit := d.replyTo.onCancel.Load(); quit != nil {
		(*quit)()
	}
}

// beginHandling starts the handler of the message; false if the caller has cancelled.
func (d *Delivery) beginHandling(ctx *Context) bool {
	w := d.replyTo
	if w == nil {
		return true
	}
	w.handlerCtx.Store(ctx)
	if w.cancelled.Load() {
		d.unregisterCancel()
		return false
	}
	return true
}

// cancel gives a message up: its context ends, or it is not handled at all.
func (a *pendingRequests) cancel(from subjects.ProcessID, reply string) {
	a.mu.Lock()
	q := a.all[reply]
	if q == nil { // the control connection is faster
		if a.earlyCancels == nil || len(a.earlyCancels) >= maxEarlyCancels {
			a.earlyCancels = map[string]subjects.ProcessID{}
		}
		a.earlyCancels[reply] = from
	}
	a.mu.Unlock()
	if q != nil && q.requester().Process() == from {
		q.cancel()
	}
}

// cancelFrom cancels all requests of dead procs.
func (a *pendingRequests) cancelFrom(gone func(subjects.ProcID) bool) {
	a.mu.Lock()
	var all []pendingRequest
	for _, q := range a.all {
		if gone(q.requester()) {
			all = append(all, q)
		}
	}
	a.mu.Unlock()
	for _, q := range all {
		q.cancel()
	}
}
