package actor

import (
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// asked are the messages of other procs whose senders wait for an answer, by their reply port.
type asked struct {
	mu  sync.Mutex
	all map[string]question

	early map[string]subjects.ProcessID // given up before they were here, or after they were answered
}

// maxEarly bounds early; then it begins anew.
const maxEarly = 4096

// question is one of them.
type question interface {
	asker() subjects.ProcID
	giveUp() // on any goroutine
}

// add lets the sender give it up; false: it uses a port twice. gone says that it has done so already.
func (a *asked) add(reply string, q question) (gone, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]question{}
	}
	if a.all[reply] != nil {
		return false, false
	}
	a.all[reply] = q
	from, gone := a.early[reply]
	if gone = gone && from == q.asker().Process(); gone {
		delete(a.early, reply)
	}
	return gone, true
}

// forget ends that.
func (a *asked) forget(reply string, q question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[reply] == q {
		delete(a.all, reply)
	}
}

// inquiry is a message of another proc that wants an answer: what it takes is one piece of memory.
type inquiry struct {
	Delivery
	w wanted
}

// wanted is where the answer to a message goes, and what it takes to give it up.
type wanted struct {
	p       *Proc // that answers
	home    replyPort
	among   *asked // nil: it cannot be given up
	kept    bool   // its answer is, for who asks again by the control lane (ACT-12)
	over    atomic.Bool
	running atomic.Pointer[Context] // of its handler: own, once that runs
	quit    atomic.Pointer[func()]  // what else ends, when its answer is given later
	own     Context
}

// replyPort is a port that waits for an answer.
type replyPort struct {
	port subjects.PortID
	peer *link.Peer // of its process; nil: not known

	gather bool // other answers are about to follow
}

// inquiry makes a message of another proc that wants an answer. peer is the process it came from; nil for this
// one. Where somebody else's answers come in nothing is sent: it would be believed there, for this proc was asked.
func (p *Proc) inquiry(peer *link.Peer, e *wire.Envelope) (*Delivery, error) {
	q := &inquiry{}
	q.Reply = e.Reply
	at, ok := p.homeOf(e.Reply)
	if !ok { // somebody wants an answer: an error of the handler is not the actor's end
		q.Answer = func(Answer) {}
		return &q.Delivery, nil
	}
	if peer != nil && at.port.Actor.Proc.Lead() != peer.Lead() {
		p.counts.malformed.Add(1)
		return nil, errorf(CodeBadMessage, p.id.Actor(e.Actor).String(), e.Port, "want a port of %s for the answer, got %q", peer.ID(), e.Reply)
	}
	at.peer = peer
	q.w.p, q.w.home, q.wanted = p, at, &q.w
	return &q.Delivery, nil
}

// cancelable lets the sender of a message give it up.
func (d *Delivery) cancelable(a *asked) {
	w := d.wanted
	if w == nil {
		return
	}
	gone, ok := a.add(d.Reply, d)
	if ok {
		w.among = a
	}
	if gone {
		w.over.Store(true)
	}
}

// forget ends that.
func (d *Delivery) forget() {
	if w := d.wanted; w != nil && w.among != nil {
		w.among.forget(d.Reply, d)
	}
}

// context is what its handler is given.
func (d *Delivery) context(in *instance) *Context {
	ctx := &Context{}
	if d.wanted != nil {
		ctx = &d.wanted.own
	}
	ctx.in, ctx.answer = in, d
	if !d.Deadline.IsZero() {
		ctx.until = in.proc.at(d.Deadline)
	}
	return ctx
}

func (d *Delivery) asker() subjects.ProcID { return d.From.Proc }

func (d *Delivery) giveUp() {
	d.wanted.over.Store(true)
	if ctx := d.wanted.running.Load(); ctx != nil {
		ctx.cancel()
	}
	if quit := d.wanted.quit.Load(); quit != nil {
		(*quit)()
	}
}

// handled says that a handler is about to run the message; false when nobody wants that any more.
func (d *Delivery) handled(ctx *Context) bool {
	w := d.wanted
	if w == nil {
		return true
	}
	w.running.Store(ctx)
	if w.over.Load() {
		d.forget()
		return false
	}
	return true
}

// cancel gives a message up: its context ends, or it is not handled at all.
func (a *asked) cancel(from subjects.ProcessID, reply string) {
	a.mu.Lock()
	q := a.all[reply]
	if q == nil { // the control lane is faster
		if a.early == nil || len(a.early) >= maxEarly {
			a.early = map[string]subjects.ProcessID{}
		}
		a.early[reply] = from
	}
	a.mu.Unlock()
	if q != nil && q.asker().Process() == from {
		q.giveUp()
	}
}

// lost gives up everything that procs which are gone wait for.
func (a *asked) lost(gone func(subjects.ProcID) bool) {
	a.mu.Lock()
	var all []question
	for _, q := range a.all {
		if gone(q.asker()) {
			all = append(all, q)
		}
	}
	a.mu.Unlock()
	for _, q := range all {
		q.giveUp()
	}
}
