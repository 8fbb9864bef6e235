package actor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// finish ends an actor that was asked to stop and has handled its mail.
func (in *instance) finish() {
	in.cancel(errors.New(in.reason))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(in.ctx), cleanupTimeout)
	defer cancel()
	if s, ok := in.actor.(Stopper); ok {
		err := in.turn(nil, func(c *Context) {
			c.Context = ctx
			s.Stopping(c)
		})
		if err != nil {
			return // it failed on its way out; fail has told everybody
		}
	}
	if !waitUntil(ctx, &in.tasks) {
		in.log.Warn().Dur("waited", cleanupTimeout).Msg("tasks of a stopped actor still run")
	}
	in.terminate(Stopped, in.reason)
}

// fail ends an actor at once: its context is cancelled, its mail comes back.
func (in *instance) fail(reason string) {
	in.cancel(errors.New(reason))
	in.terminate(Failed, reason)
}

// terminate is the one place where an actor's life ends: exactly one terminal event, after its
// last handler (ACT-3), and nobody is left waiting for it (DEL-8).
func (in *instance) terminate(to Status, reason string) {
	in.mu.Lock()
	if in.status.Terminal() {
		in.mu.Unlock()
		return
	}
	in.status, in.reason = to, reason
	left := in.mail
	in.mail, in.control = mail{}, nil
	debts := slices.Collect(maps.Keys(in.debts))
	refusal := in.refusalLocked("")
	in.mu.Unlock()

	for left.len() > 0 {
		d := left.pop()
		in.proc.undeliverable(&d, refusal)
	}
	for _, d := range debts {
		d.settle(nil, refusal)
	}
	in.proc.forgetPorts(in.id.Name, refusal)
	in.proc.emit(in.event(to, reason))
	close(in.done)
}

// event describes the actor's new status.
func (in *instance) event(s Status, reason string) Event {
	return Event{
		Kind: KindActor, Status: string(s), Mesh: in.id.Proc.Mesh.String(), Rank: int(in.id.Proc.Rank),
		Gen: int(in.id.Proc.Gen), Actor: in.id.Name, Type: in.def.name, Reason: reason, At: time.Now(),
	}
}

// waitUntil waits for a group until ctx ends, and reports whether the group was done.
func waitUntil(ctx context.Context, wg *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
