package actor

import "sync"

// Deferred is an answer that will be given later.
type Deferred[R any] struct {
	once sync.Once
	in   *instance
	to   answerer
}

// debt is a Deferred of any type.
type debt interface{ settle(v any, err error) }

// Defer takes over the answer of the message that is being handled: what the handler returns is
// ignored, and the caller waits for Reply. An actor that ends answers what it still owes with
// ErrStopped or ErrFailed. Defer belongs to the handler: called after it has returned, or a second
// time, it takes over nothing and its Reply reaches nobody.
func Defer[R any](ctx *Context) *Deferred[R] {
	d := &Deferred[R]{in: ctx.in}
	if ctx.over.Load() || ctx != ctx.in.turning || ctx.owed != nil || !ctx.in.owe(d) {
		log := ctx.in.log()
		log.Error().Msg("Defer a second time, or after the handler had returned")
		return d
	}
	ctx.owed = d
	d.to = ctx.answer
	return d
}

// Reply gives the answer. The first call counts; it may come from any goroutine. An error is the
// answer, and the actor lives.
func (d *Deferred[R]) Reply(v R, err error) {
	if err != nil {
		err = ranError(err)
	}
	d.settle(v, err)
}

// GivenUp has f run once who asked waits no longer: he has given up, or his proc is known to be gone; at once, when that
// is so already. f may run more than once, on any goroutine, and must not block; after Reply it does not matter. Of
// who asks from this process, or in a cast, nothing is known.
func (d *Deferred[R]) GivenUp(f func()) {
	if to, ok := d.to.(*Delivery); ok && to.wanted != nil {
		if to.wanted.quit.Store(&f); to.wanted.over.Load() {
			f()
		}
	}
}

func (d *Deferred[R]) settle(v any, err error) {
	d.once.Do(func() {
		d.in.settled(d)
		if d.to != nil {
			d.to.settle(v, err)
		}
	})
}

// owe records an answer the actor has to give; false when it has ended and gives none any more.
func (in *instance) owe(d debt) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.state.terminal() {
		return false
	}
	r := in.rarely()
	if r.debts == nil {
		r.debts = map[debt]struct{}{}
	}
	r.debts[d] = struct{}{}
	return true
}

func (in *instance) settled(d debt) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.rare != nil {
		delete(in.rare.debts, d)
	}
}
