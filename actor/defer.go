package actor

import "sync"

// Deferred is an answer given after its handler has returned.
type Deferred[R any] struct{ deferred }

// deferred is a Deferred without the type of the answer.
type deferred struct {
	once sync.Once
	in   *instance
	to   answerSink
}

// Defer takes over the answer of the current message: the handler's results are ignored, and the
// caller waits for Reply. When an actor ends, it answers outstanding requests with ErrStopped or
// ErrFailed.
//
// Call Defer inside the handler. After the handler has returned, or a second time, it takes over
// nothing and its Reply is dropped.
func Defer[R any](ctx *Context) *Deferred[R] {
	d := &Deferred[R]{}
	takeOver(&d.deferred, ctx)
	return d
}

func takeOver(d *deferred, ctx *Context) {
	d.in = ctx.in
	if ctx.returned.Load() || ctx != ctx.in.currentCtx || ctx.deferred != nil || !ctx.in.addDeferred(d) {
		log := ctx.in.log()
		log.Error().Msg("Defer called twice, or after the handler returned")
		return
	}
	ctx.deferred = d
	d.to = ctx.answer
}

// Reply gives the answer. The first call counts; it may come from any goroutine. An error is the
// answer and does not fail the actor.
func (d *Deferred[R]) Reply(v R, err error) {
	if err != nil {
		err = ranError(err)
	}
	d.complete(v, err)
}

// OnCancel runs f once the caller stops waiting, or its proc is known to be dead; at once if either
// is so already. f may run more than once, on any goroutine, and must not block. After Reply it has
// no effect. Callers in this process are not covered.
func (d *deferred) OnCancel(f func()) {
	if q, ok := d.to.(*request); ok {
		q.onCancel.Store(&f)
		if q.ctx.cancelled.Load() {
			f()
		}
	}
}

func (d *deferred) complete(v any, err error) {
	d.once.Do(func() {
		d.in.removeDeferred(d)
		if d.to != nil {
			d.to.complete(v, err)
		}
	})
}

// addDeferred records an answer the actor has to give; false when it has ended and gives none any
// more.
func (in *instance) addDeferred(d *deferred) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.state.terminal() {
		return false
	}
	r := in.ensureExtra()
	if r.deferreds == nil {
		r.deferreds = map[*deferred]struct{}{}
	}
	r.deferreds[d] = struct{}{}
	return true
}

func (in *instance) removeDeferred(d *deferred) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.extra != nil {
		delete(in.extra.deferreds, d)
	}
}
