package worlds

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// Report tells the system controller of a message that came back, unless its proc was reached. An actor that is an
// actor.Undeliverer does so in a task of its own, as finding the controller takes a moment. It is a question to that one
// (WORLD-9).
func Report(ctx context.Context, p *actor.Proc, r actor.Returned) error {
	to, err := subjects.ParseActorID(r.Reason.Actor)
	if err != nil || !unreached(r.Reason) && !unsure(r.Reason) {
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
	return errors.Is(err, actor.ErrNoProc) || errors.Is(err, actor.ErrProcDead)
}

// unsure reports whether the fate of a message leaves open if messages reach its proc: the link broke on the way, the
// time ran out, the message never left, or the answer was that of a process that is ending.
func unsure(err error) bool {
	for _, open := range []error{
		actor.ErrLinkBroken, actor.ErrDeadline, actor.ErrExpired, actor.ErrStopped, actor.ErrUnavailable, actor.ErrBacklog,
	} {
		if errors.Is(err, open) {
			return true
		}
	}
	return false
}

// probePause is between two probes of a proc.
const probePause = 500 * time.Millisecond

// suspect has the controller probe a proc of which somebody had a message back: anybody may say so, and the proc is
// unhealthy only when the probe comes back, too.
func (c *Controller) suspect(ctx *actor.Context, id subjects.ProcID) {
	if _, probing := c.suspects[id]; probing {
		c.suspects[id] = true // the probe may have passed before that message did
		return
	}
	c.probe(ctx, id)
}

// probe sends a proc a message, and another one after a pause, until the fate of the last says whether messages reach the
// proc.
func (c *Controller) probe(ctx *actor.Context, id subjects.ProcID) {
	m := c.st.procs[id]
	if m == nil || severity[m.health] >= severity[Unreachable] {
		delete(c.suspects, id)
		return
	}
	c.suspects[id] = false
	p := ctx.Proc()
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, lookWithin)
		defer cancel()
		_, err := agent.Ping.Call(work, agent.Of(id).Via(p), actor.None{})
		return func(ctx *actor.Context) {
			switch {
			case unreached(err):
				delete(c.suspects, id)
				c.hear(ctx, returned{id})
			case c.suspects[id] || unsure(err):
				ctx.After(probePause, func(ctx *actor.Context) { c.probe(ctx, id) })
			default:
				delete(c.suspects, id)
			}
		}
	})
}
