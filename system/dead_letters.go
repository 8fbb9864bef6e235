package system

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// ReportDeadLetter reports a returned message to the system controller, unless the message reached
// its proc. An actor.DeadLetterHandler calls it in a task, because finding the controller takes a
// moment. The controller then probes the proc (WORLD-9).
func ReportDeadLetter(ctx context.Context, p *actor.Proc, r actor.DeadLetter) error {
	to, err := subjects.ParseActorID(r.Reason.Actor)
	if err != nil || !isUnreached(r.Reason) && !isInconclusive(r.Reason) {
		return nil
	}
	ctl, err := Find(ctx, p)
	if err != nil {
		return err
	}
	return SuspectProc.Send(ctx, ctl, to.Proc)
}

// isUnreached reports whether a message did not reach its process.
func isUnreached(err error) bool {
	return errors.Is(err, actor.ErrNoProc) || errors.Is(err, actor.ErrProcDead)
}

// isInconclusive reports whether an error does not show if messages reach the proc: the link broke,
// the deadline passed, the message never left, or the process is ending.
func isInconclusive(err error) bool {
	for _, open := range []error{
		actor.ErrLinkBroken, actor.ErrDeadline, actor.ErrExpired,
		actor.ErrStopped, actor.ErrUnavailable, actor.ErrBacklog,
	} {
		if errors.Is(err, open) {
			return true
		}
	}
	return false
}

// probePause is the time between two probes of a proc.
const probePause = 500 * time.Millisecond

// suspect makes the controller probe a proc after a returned message. Any program may report one.
// The proc is unhealthy only if the probe is returned, too.
func (c *Controller) suspect(ctx *actor.Context, id subjects.ProcID) (none actor.None, err error) {
	if _, probing := c.suspects[id]; probing {
		c.suspects[id] = true // the probe may have arrived before the returned message
	} else {
		c.probe(ctx, id)
	}
	return none, nil
}

// probe sends a proc messages with pauses, until the fate of the last shows whether messages reach
// the proc.
func (c *Controller) probe(ctx *actor.Context, id subjects.ProcID) {
	m := c.st.procs[id]
	if m == nil || severity[m.health] >= severity[HealthUnreachable] {
		delete(c.suspects, id)
		return
	}
	c.suspects[id] = false
	p := ctx.Proc()
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, hostInventoryTimeout)
		defer cancel()
		_, err := agent.Ping.Call(work, agent.Of(id).Via(p), actor.None{})
		return func(ctx *actor.Context) {
			switch {
			case isUnreached(err):
				delete(c.suspects, id)
				c.handle(ctx, undelivered{id})
			case c.suspects[id] || isInconclusive(err):
				ctx.After(probePause, func(ctx *actor.Context) { c.probe(ctx, id) })
			default:
				delete(c.suspects, id)
			}
		}
	})
}
