package actor

import (
	"context"
	"maps"
	"slices"
	"time"
)

// cleanupTimeout is Options.Cleanup where nothing is said.
const cleanupTimeout = 10 * time.Second

// Cleaner is implemented by actors that have something to clean up. Cleanup runs on the actor's turn
// after its last handler and after the end of its children; cause is nil when the actor stops, and
// the *Error its callers get when it was killed or failed. After a panic it does not run. Its
// context ends after Options.Cleanup. The actor is closed by then: what Cleanup sends is not answered to its
// mailbox. The error of a Cleanup that runs because the actor stops makes it fail; otherwise it is
// logged.
type Cleaner interface {
	Cleanup(ctx *Context, cause error) error
}

// finish winds an actor up: children, Cleanup, tasks.
//
//go:noinline
func (in *instance) finish() {
	c, cleans := in.actor.(Cleaner)
	in.mu.Lock()
	if !cleans && in.rare.plain() {
		in.mu.Unlock()
		return
	}
	in.phase, in.winding = inside, true
	in.giveUp()
	over, family := in.over, in.rare.family
	in.mu.Unlock()
	if family != nil {
		in.endChildren(family, over)
	}
	if cleans && !in.crash {
		in.cleanUp(c)
	}
	in.mu.Lock()
	in.giveUp() // also what Cleanup began
	over = in.over
	tasks := &in.rare.tasks
	in.mu.Unlock()
	if over { // its tasks are the proc's to wait for
		return
	}
	ctx, cancel := in.windUp()
	defer cancel()
	if !tasks.wait(ctx) {
		log := in.log()
		log.Warn().Dur("waited", in.proc.cleanup).Msg("tasks of a stopped actor still run")
	}
}

// giveUp ends the actor's context. The lock is held.
func (in *instance) giveUp() {
	if in.rare.giveUp != nil {
		in.rare.giveUp(in.why())
	}
}

// windUp is a context for one of the last things an actor does.
func (in *instance) windUp() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithValue(context.Background(), senderKey{}, in), in.proc.cleanup)
}

func (in *instance) cleanUp(c Cleaner) {
	in.mu.Lock()
	over, why := in.over, in.why()
	in.mu.Unlock()
	ctx, cancel := in.windUp()
	defer cancel()
	in.turn(func(tc *Context) {
		end, _ := ctx.Deadline()
		tc.until = in.proc.at(end)
		tc.own.Store(&deadlined{ctx, cancel})
		var cause error
		if over {
			cause = why
		}
		switch err := c.Cleanup(tc, cause); {
		case err == nil:
		case over:
			log := in.log()
			log.Error().Err(err).Msg("the cleanup of an actor that failed has failed, too")
		default:
			in.fail(ending{code: CodeHandler, reason: "cleanup: " + err.Error()})
		}
	})
}

// terminate is the one place where an actor's life ends: on its own turn, exactly one terminal
// event, after its last handler (ACT-3), and nobody is left waiting for it (DEL-8).
func (in *instance) terminate() {
	in.mu.Lock()
	in.state = stopped
	if in.failed {
		in.state = failed
	}
	if b := in.box; b != nil {
		in.rare.handled = b.handled + uint64(b.claims)
	}
	r := in.rare // there is one: it holds why the actor ends
	if !r.plain() || in.over || in.ported {
		why, debts, watches, alarms := in.why(), r.debts, r.watches, r.alarms
		r.debts, r.watches, r.alarms = nil, nil, nil
		in.mu.Unlock()
		in.release(why, slices.Collect(maps.Keys(debts)), slices.Collect(maps.Keys(watches)), alarms)
		in.mu.Lock()
	}
	r.control = nil
	in.box, in.actor = nil, nil // the proc keeps the instance for a while, not what was in it
	heard := in.failed || in.announced || in.parent != nil || in.birth != nil || in.proc.observed.Load()
	in.mu.Unlock()

	if b := in.birth; b != nil && b.begun != nil && !b.over { // it was killed before its first turn
		b.begun(in, in.refused())
	}
	in.proc.directory.retire(in, in.failed)
	if heard {
		in.bereave()
	}
	in.mu.Lock()
	in.closed = true
	if r.done != nil {
		close(r.done)
	}
	in.mu.Unlock()
}

// release tells everybody who waits for something of an actor that has ended.
//
//go:noinline
func (in *instance) release(why *Error, debts []debt, watches []*watch, alarms map[*alarm]struct{}) {
	in.leftover(why)
	for a := range alarms {
		a.timer.Stop()
	}
	for _, d := range debts { // their handlers ran
		d.settle(nil, ranError(why))
	}
	for _, w := range watches { // before the ports, of which its own watches have some
		w.down(Down{Actor: in.id(), Reason: why})
	}
	in.proc.forgetPorts(func(owner string) bool { return owner == in.name }, why)
}

// why is what those are told who want something of an actor that has ended, or is about to. The lock
// is held.
func (in *instance) why() *Error {
	end := in.rarely().end
	if !in.failed {
		e := errorf(CodeStopped, in.id().String(), "", "the actor stopped: %s", end.reason)
		if in.over || in.state.terminal() {
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

// refused is why, for whoever does not hold the lock; nil while the actor takes messages.
func (in *instance) refused() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.refuses() {
		return nil
	}
	return in.why()
}
