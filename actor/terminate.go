package actor

import (
	"context"
	"maps"
	"slices"
	"time"
)

// cleanupTimeout is the default of Options.Cleanup.
const cleanupTimeout = 10 * time.Second

// Cleaner is implemented by actors with resources to release. Cleanup runs on the actor's turn
// after its last handler and after the end of its children. cause is nil if the actor stops, and
// the *Error of its callers if it was killed or failed. After a panic Cleanup does not run.
//
// Its context ends after Options.Cleanup. The mailbox is closed by then, so Cleanup gets no dead
// letters. When the actor stops, an error of Cleanup makes it fail; otherwise it is logged.
type Cleaner interface {
	Cleanup(ctx *Context, cause error) error
}

// shutdown winds an actor up: children, Cleanup, tasks.
//
//go:noinline
func (in *instance) shutdown() {
	c, cleans := in.actor.(Cleaner)
	in.mu.Lock()
	if !cleans && in.extra.needsNoCleanup() {
		in.mu.Unlock()
		return
	}
	in.phase = phaseControl
	in.cleaningUp = true
	in.cancelContext()
	over := in.aborted
	children := in.extra.children
	in.mu.Unlock()
	if children != nil {
		children.stop(in, over)
	}
	if cleans && !in.handlerCrashed {
		in.runCleanup(c)
	}
	in.mu.Lock()
	in.cancelContext() // including work that Cleanup started
	over = in.aborted
	tasks := &in.extra.tasks
	in.mu.Unlock()
	if over { // its tasks are the proc's to wait for
		return
	}
	ctx, cancel := in.cleanupContext()
	defer cancel()
	if !tasks.wait(ctx) {
		in.log().Warn().Dur("waited", in.proc.options.Cleanup).Msg("tasks of a stopped actor still run")
	}
}

// cancelContext ends the actor's context. The lock is held.
func (in *instance) cancelContext() {
	if in.extra.cancel != nil {
		in.extra.cancel(in.endError())
	}
}

// cleanupContext is a context for one of the last things an actor does.
func (in *instance) cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(origin{in: in}.context(context.Background()), in.proc.options.Cleanup)
}

func (in *instance) runCleanup(c Cleaner) {
	in.mu.Lock()
	over := in.aborted
	why := in.endError()
	in.mu.Unlock()
	ctx, cancel := in.cleanupContext()
	defer cancel()
	in.runOnTurn(func(tc *Context) {
		end, _ := ctx.Deadline()
		tc.deadline = in.proc.instant(end)
		tc.deadlineCtx.Store(&deadlineContext{Context: ctx, cancel: cancel})
		var cause error
		if over {
			cause = why
		}
		switch err := c.Cleanup(tc, cause); {
		case err == nil:
		case over:
			in.log().Error().Err(err).Msg("cleanup of a failed actor failed")
		default:
			in.fail(ending{code: CodeHandler, reason: "cleanup: " + err.Error()})
		}
	})
}

// terminate ends an actor's life, in one place: on its own turn, with exactly one terminal event
// after its last handler (ACT-3). No sender is left waiting (DEL-5).
func (in *instance) terminate() {
	in.mu.Lock()
	in.state = stopped
	if in.failed {
		in.state = failed
	}
	if b := in.mailbox; b != nil {
		in.extra.handled = b.handled + uint64(b.turnClaims)
	}
	r := in.extra // there is one: it holds why the actor ends
	if !r.needsNoCleanup() || in.aborted || in.hasPorts {
		why := in.endError()
		deferreds := slices.Collect(maps.Keys(r.deferreds))
		observers := slices.Collect(maps.Keys(r.observers))
		timers := r.timers
		r.deferreds = nil
		r.observers = nil
		r.timers = nil
		in.mu.Unlock()
		in.notifyWaiters(why, deferreds, observers, timers)
		in.mu.Lock()
	}
	r.control = nil
	// the proc keeps the instance for a while, not what was in it
	in.mailbox = nil
	in.actor = nil
	in.currentCtx = nil
	heard := in.failed || in.announceEnd || in.parent != nil || in.spawn != nil || in.proc.observers.some.Load()
	in.mu.Unlock()

	// it was killed before its first turn
	if b := in.spawn; b != nil && b.onConstructed != nil && !b.constructed {
		b.onConstructed(in, in.refusalError())
	}
	in.proc.directory.retire(in, in.failed)
	if heard {
		in.notifyParent()
	}
	in.mu.Lock()
	in.terminated = true
	if r.done != nil {
		close(r.done)
	}
	in.mu.Unlock()
}

// notifyWaiters notifies everything that waits for an ended actor.
//
//go:noinline
func (in *instance) notifyWaiters(why *Error, deferreds []*deferred, observers []*endObserver,
	timers map[*delayedCall]struct{}) {
	in.mailbox.rejectLeftover(why)
	for a := range timers {
		a.timer.Stop()
	}
	for _, d := range deferreds { // their handlers ran
		d.complete(nil, ranError(why))
	}
	for _, w := range observers { // before the ports, which include ports of its own watches
		w.down(Down{Actor: in.id(), Reason: why})
	}
	in.proc.ports.closeOf(func(owner string) bool { return owner == in.name }, why)
}

// endError is the error for senders to an ended or ending actor. The lock is held.
func (in *instance) endError() *Error {
	end := in.ensureExtra().ending
	if !in.failed {
		e := errorf(CodeStopped, in.id().String(), "", "the actor stopped: %s", end.reason)
		if in.aborted || in.state.terminal() {
			event := in.event(Stopped, end)
			e.Event = &event
		}
		return e
	}
	event := in.event(Failed, end)
	e := errorf(CodeFailed, in.id().String(), "", "the actor failed: %s", event.Reason)
	e.Event = &event
	return e
}

// refusalError is endError without the lock; nil while the actor takes messages.
func (in *instance) refusalError() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.refuses() {
		return nil
	}
	return in.endError()
}
