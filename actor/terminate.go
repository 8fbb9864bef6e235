package actor

import (
	"context"
	"maps"
	"slices"
	"time"
)

// finish winds up an actor that was asked to stop and has handled its mail.
func (in *instance) finish() {
	in.mu.Lock()
	refusal := in.refusalLocked("")
	in.mu.Unlock()
	in.cancel(refusal)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(in.ctx), cleanupTimeout)
	defer cancel()
	if s, ok := in.actor.(Stopper); ok {
		in.turn(nil, func(c *Context) {
			c.Context = ctx
			s.Stopping(c)
		})
	}
	if !in.tasks.wait(ctx) {
		in.log.Warn().Dur("waited", cleanupTimeout).Msg("tasks of a stopped actor still run")
	}
	in.terminate()
}

// terminate is the one place where an actor's life ends: on its own turn, exactly one terminal
// event, after its last handler (ACT-3), and nobody is left waiting for it (DEL-8).
func (in *instance) terminate() {
	in.mu.Lock()
	in.status = Stopped
	if in.failed {
		in.status = Failed
	}
	e := in.event(in.status, in.reason)
	refusal := in.refusalLocked("")
	left, debts := in.mail, slices.Collect(maps.Keys(in.debts))
	in.mail, in.control, in.debts = mail{}, nil, nil
	in.mu.Unlock()

	in.actor = nil // the proc keeps the instance for a while, not what was in it
	for left.len() > 0 {
		d := left.pop()
		about := *refusal
		about.Endpoint = d.Port
		in.proc.undeliverable(&d, &about)
	}
	for _, d := range debts { // their handlers ran
		d.settle(nil, ranError(refusal))
	}
	in.proc.forgetPorts(func(owner string) bool { return owner == in.id.Name }, refusal)
	in.proc.retire(in)
	in.proc.emit(e)
	close(in.done)
}

// event describes the actor's new status.
func (in *instance) event(s Status, reason string) Event {
	return Event{
		Kind: KindActor, Status: string(s), Mesh: in.id.Proc.Mesh.String(), Rank: int(in.id.Proc.Rank),
		Gen: int(in.id.Proc.Gen), Actor: in.id.Name, Type: in.def.name, Reason: reason, At: time.Now(),
	}
}
