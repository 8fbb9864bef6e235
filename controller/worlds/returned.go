package worlds

import (
	"context"
	"errors"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// Report tells the system controller of a message that came back, if its proc was not reached. An actor that is an
// actor.Undeliverer does so in a task of its own, as finding the controller takes a moment. It is a question to that one
// (WORLD-9).
func Report(ctx context.Context, p *actor.Proc, r actor.Returned) error {
	to, err := subjects.ParseActorID(r.Reason.Actor)
	if err != nil || !unreached(r.Reason) {
		return nil
	}
	system, err := Find(ctx, p)
	if err != nil {
		return err
	}
	return Returned.Post(ctx, system, to.Proc)
}

// unreached reports whether a message did not come as far as the process that it was for.
func unreached(err error) bool {
	return errors.Is(err, actor.ErrNoProc) || errors.Is(err, actor.ErrProcDead) || errors.Is(err, actor.ErrExpired)
}

// suspect has a message of the controller's own sent to a proc of which somebody had one back: anybody may say so, and
// the proc is unhealthy only when this one comes back, too.
func (c *Controller) suspect(ctx *actor.Context, id subjects.ProcID) {
	m := c.st.procs[id]
	if m == nil || c.suspects[id] || severity[m.health] >= severity[Unreachable] {
		return
	}
	c.suspects[id] = true
	p := ctx.Proc()
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, lookWithin)
		defer cancel()
		_, err := agent.Ping.Call(work, agent.Of(id).Via(p), actor.None{})
		return func(ctx *actor.Context) {
			delete(c.suspects, id)
			if unreached(err) {
				c.hear(ctx, returned{id})
			}
		}
	})
}
