package actor

import (
	"sync"
	"sync/atomic"

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

// wanted is what it takes to give a message up.
type wanted struct {
	among *asked
	over  atomic.Bool
	ctx   atomic.Pointer[Context] // of its handler
}

// cancelable lets the sender of a message give it up.
func (d *Delivery) cancelable(a *asked) {
	d.wanted = &wanted{among: a}
	gone, ok := a.add(d.Reply, d)
	if !ok {
		d.wanted = nil
		return
	}
	if gone {
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
	if d.wanted != nil {
		d.wanted.among.forget(d.Reply, d)
	}
}

func (d *Delivery) asker() subjects.ProcID { return d.From.Proc }

func (d *Delivery) giveUp() {
	d.wanted.over.Store(true)
	if ctx := d.wanted.ctx.Load(); ctx != nil {
		ctx.cancel()
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

// lost gives up everything that a proc which is gone waits for.
func (a *asked) lost(from subjects.ProcID) {
	a.mu.Lock()
	var replies []string
	for reply, q := range a.all {
		if asker := q.asker(); asker == from || asker.Lead() == from {
			replies = append(replies, reply)
		}
	}
	a.mu.Unlock()
	for _, reply := range replies {
		a.cancel(from.Process(), reply)
	}
}
