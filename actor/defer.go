package actor

import (
	"sync"
	"sync/atomic"
	"time"
)

// Deferred is an answer given after its handler has returned.
type Deferred[R any] struct{ deferred }

// deferred is a Deferred without the type of the answer.
type deferred struct {
	once     sync.Once
	in       *instance
	to       answerSink
	tasks    int         // guarded by the actor's lock: those for the answer that still run
	deadline *time.Timer // of the caller; nil: it has none
	act      atomic.Pointer[auditRecord]
	span     atomic.Pointer[Span]
	answered atomic.Pointer[error] // the error of the answer; nil: there is none yet
}

// audit records the answer, now or when it is given.
func (d *deferred) audit(act *auditRecord) {
	if d.answered.Load() == nil {
		act.write(ActPending, nil)
	}
	d.act.Store(act)
	d.auditAnswer()
}

// auditAnswer records the answer once, if it was given and is audited.
func (d *deferred) auditAnswer() {
	if err := d.answered.Load(); err != nil {
		if act := d.act.Swap(nil); act != nil {
			act.onAnswer(*err)
		}
	}
}

// setSpan sets the span of the message, which ends with the answer.
func (d *deferred) setSpan(s Span) {
	d.span.Store(&s)
	d.endSpan()
}

// endSpan ends the span of the message once the answer is given.
func (d *deferred) endSpan() {
	if err := d.answered.Load(); err != nil {
		if s := d.span.Swap(nil); s != nil {
			endSpan(*s, *err)
		}
	}
}

// Defer takes over the answer of the current message: the handler's value is ignored, and the
// caller waits for Reply. An error of the handler is the answer, as without Defer. An answer
// missing at the caller's deadline is logged, unless OnCancel was called. An actor that stops first
// finishes the work of Go for such answers. When it ends, it answers the rest with ErrStopped or
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
		ctx.in.log().Error().Msg("Defer called twice, or after the handler returned")
		return
	}
	ctx.deferred = d
	d.to = ctx.answer
	if at, has := ctx.Deadline(); has {
		endpoint, from := ctx.in.currentEndpoint(), ctx.Sender()
		d.deadline = time.AfterFunc(time.Until(at), func() {
			d.in.proc.sampledLog.Warn().Str("actor", d.in.name).Str("endpoint", endpoint).
				Stringer("from", from).Msg("a deferred answer was not given before the caller's deadline")
		})
	}
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
	d.stopDeadline()
	if q, ok := d.to.(*request); ok {
		q.onCancel.Store(&f)
		if q.ctx.cancelled.Load() {
			f()
		}
	}
}

func (d *deferred) stopDeadline() {
	if d.deadline != nil {
		d.deadline.Stop()
	}
}

func (d *deferred) complete(v any, err error) {
	d.once.Do(func() {
		d.stopDeadline()
		d.in.removeDeferred(d)
		d.answered.Store(&err)
		d.auditAnswer()
		d.endSpan()
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
	if in.state == stopping {
		in.wake()
	}
}

// endTaskOf notes the end of a task for a deferred answer, if it was one.
func (in *instance) endTaskOf(d *deferred) {
	if d == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	d.tasks--
	if in.state == stopping {
		in.wake()
	}
}

// awaitsAnswers reports whether a stopping actor still works on deferred answers. The wait for all
// of them ends after Options.Cleanup. The lock is held.
func (in *instance) awaitsAnswers() bool {
	r := in.extra
	for d := range r.deferreds {
		if d.tasks == 0 {
			continue
		}
		if !r.answersTimed {
			r.answersTimed = true
			in.afterFuncLocked(in.proc.options.Cleanup, func() {
				in.mu.Lock()
				defer in.mu.Unlock()
				r.answersOverdue = true
				in.wake()
			})
		}
		return !r.answersOverdue
	}
	return false
}
