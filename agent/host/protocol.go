package host

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// Stop ends the host's share of a mesh, or of a region, and replies once those procs have ended. A
// second Stop may shorten the grace.
func (a *hostAgent) Stop(ctx *actor.Context, s agent.StopRequest) (agent.Overlay, error) {
	err := a.acceptEpoch(s.Epoch)
	if err == nil {
		err = agent.AcceptClaim(ctx, a.table, a.id.Label(), s.ID, s.Claim)
	}
	if err != nil {
		return a.table.Overlay(s.ID), err
	}
	if states := a.table.States(s.ID); s.Region != nil && len(states) > 0 {
		if err := states[0].Mesh.CheckRegion(*s.Region); err != nil {
			return nil, err
		}
	}
	a.stopMesh(ctx, s, ctx.SentBy())
	ended := agent.UntilEnded(s.ID)
	ended.Region = s.Region
	return nil, a.table.ReplyWhen(ctx, ended, 0)
}

// stopMesh asks the procs of a mesh to end, a bounded number at a time.
func (a *hostAgent) stopMesh(ctx *actor.Context, s agent.StopRequest, by subjects.Sender) {
	grace := s.Grace
	if grace <= 0 {
		grace = keys.TerminateGrace.Get(a.opts.Config)
		if of := a.procs[s.ID]; of != nil && of.alive == 1 {
			grace = keys.TerminateGraceSingle.Get(a.opts.Config)
		}
	}
	if s.Region == nil {
		a.table.MarkStopping(s.ID)
	}
	asked, first := 0, 0 // consecutive ranks
	var m agent.Mesh
	tell := func() {
		if asked > 0 {
			a.emitMeshEvent(ctx, by, "procs.stop.attempt", m, first, asked,
				agent.Status{Phase: agent.ShuttingDown, Reason: s.Reason})
		}
		asked = 0
	}
	for _, st := range a.table.States(s.ID) {
		c := a.procs.findState(st)
		if c == nil || c.state.Terminal() || s.Region != nil && !s.Region.Contains(st.Rank) {
			continue
		}
		if a.table.Advance(s.ID, c.rank, agent.Status{Phase: agent.ShuttingDown, Reason: s.Reason}) {
			if first+asked != c.rank {
				tell()
			}
			if asked == 0 {
				first, m = c.rank, c.mesh
			}
			asked++
			c.update(func() { c.stopRequested, c.stopReason = true, s.Reason })
			a.setProcessState(c, agent.ProcessStopping)
			a.stops.acquire(ctx, func(ctx *actor.Context) {
				if c.state.Terminal() {
					a.stops.release(ctx)
					return
				}
				c.holdsStopSlot = true
				c.terminate(grace)
			})
		} else if c.holdsStopSlot && c.process != nil {
			c.process.Terminate(grace)
		}
	}
	tell()
}

// StopAll stops every proc and refuses new ones. Then it replies, and the host leaves (AGT-8).
func (a *hostAgent) StopAll(ctx *actor.Context, s agent.StopAllRequest) (agent.StopSummary, error) {
	if err := a.checkOwner(ctx); err != nil {
		return agent.StopSummary{}, err
	}
	order, err := a.beginStops(ctx, stopOrder{"", s.Reason, s.Grace, s.MaxConcurrent})
	if err != nil {
		return agent.StopSummary{}, err
	}
	first := !a.gate.leaving
	a.gate.leaving, a.gate.leaveReason = true, s.Reason
	a.onModeChange(a.gate.mode())
	a.onClosing(s.Reason)
	caller := callerOf(ctx)
	a.emitHostEvent(ctx, agent.StepShutdown, s.Reason, caller.sender)
	answer := actor.Defer[agent.StopSummary](ctx)
	a.stopMeshes(ctx, order, caller, func(ctx *actor.Context, done agent.StopSummary) {
		a.emitStopResult(ctx, "host.shutdown", done, caller.sender)
		answer.Reply(done, nil)
	}, func() {
		if first {
			a.onLeft()
		}
	})
	return agent.StopSummary{}, nil
}

// stopMeshes carries out an order, and calls over at its end: once all procs have ended, or after
// StopBound. It returns the summary before that, or before the deadline of the caller. The order
// ignores this deadline: its stops go on.
func (a *hostAgent) stopMeshes(ctx *actor.Context, order *stopOrder, by caller,
	done func(*actor.Context, agent.StopSummary), over func()) {
	grace := order.grace
	if grace <= 0 {
		grace = keys.TerminateGrace.Get(a.opts.Config)
	}
	states := a.table.States(order.mesh)
	ids := map[string]bool{} // also of meshes without a live proc: their ranks do not restart here
	for _, st := range states {
		ids[st.ID] = true
	}
	asked := agent.Alive(states)
	for id := range ids {
		a.stopMesh(ctx, agent.StopRequest{ID: id, Reason: order.reason, Grace: grace}, by.sender)
	}
	atOnce := cmp.Or(order.limit, a.opts.maxStops())
	bound := StopBound(len(asked), atOnce, grace, keys.TerminateKillWait.Get(a.opts.Config))
	replied, cancel := false, func() {}
	reply := func(ctx *actor.Context, sum agent.StopSummary) {
		if !replied {
			replied = true
			cancel()
			done(ctx, sum)
		}
	}
	a.table.WhenEndedWithin(ctx, asked, bound, func(ctx *actor.Context, sum agent.StopSummary) {
		a.endStops(ctx, order)
		reply(ctx, sum)
		over()
	})
	if !replied && !by.deadline.IsZero() {
		cancel = ctx.After(agent.BeforeDeadline(time.Until(by.deadline)), func(ctx *actor.Context) {
			reply(ctx, a.table.SummarizeStop(asked))
		})
	}
}

// StopBound returns the maximum time to stop a number of procs with a grace, some of them at a
// time. killWait is the time after SIGKILL.
func StopBound(procs, atOnce int, grace, killWait time.Duration) time.Duration {
	if atOnce <= 0 {
		atOnce = max(procs, 1)
	}
	rounds := max(1, (procs+atOnce-1)/atOnce)
	return time.Duration(rounds) * (grace + killWait)
}

// cordon closes the host to new procs, or reopens it.
func (a *hostAgent) cordon(ctx *actor.Context, c agent.CordonRequest) (agent.HostInfo, error) {
	if err := a.checkRights(ctx); err != nil {
		return a.info(), err
	}
	was := a.gate.cordoned
	a.gate.cordoned, a.gate.cordonReason = c.Cordon, c.Reason
	a.onModeChange(a.gate.mode())
	switch {
	case was == c.Cordon:
	case c.Cordon:
		a.emitHostEvent(ctx, "host.cordon", c.Reason, ctx.SentBy())
	default:
		a.emitHostEvent(ctx, "host.uncordon", c.Reason, ctx.SentBy())
	}
	return a.info(), nil
}

// emitHostEvent publishes an event of the host on `ev.`, with the sender of its order.
func (a *hostAgent) emitHostEvent(ctx *actor.Context, name, reason string, by subjects.Sender) {
	mode, _ := a.gate.mode()
	ctx.Proc().Emit(actor.Event{
		Kind: actor.KindHost, Step: name, Status: string(mode), Reason: reason, Mesh: a.id.String(),
		Host: a.id.String(), At: time.Now(), By: by.String(),
	})
}

func (a *hostAgent) emitStopResult(ctx *actor.Context, name string, done agent.StopSummary,
	by subjects.Sender) {
	if err := done.Err(); err != nil {
		a.emitHostEvent(ctx, name+".failed", err.Error(), by)
		return
	}
	a.emitHostEvent(ctx, name+".success", fmt.Sprintf("%d procs ended", done.Ended), by)
}

// Wait replies once a condition holds for the procs of a mesh on this host.
func (a *hostAgent) Wait(ctx *actor.Context, w agent.WaitRequest) (agent.Overlay, error) {
	return nil, a.table.ReplyWhen(ctx, w, 0)
}

// Get lists the procs of this host. The list of all has one line of each reason and no output. With
// many crashed procs, more would not fit a message.
func (a *hostAgent) Get(ctx *actor.Context, q agent.GetRequest) ([]agent.State, error) {
	states := a.table.States(q.ID)
	plain := !ctx.Sender().IsValid() // a NATS client
	for i := range states {
		if plain || !a.table.MayRead(states[i].ID, ctx.RemoteSender()) {
			states[i].Mesh = states[i].Mesh.Public()
		}
	}
	if q.Usage {
		a.measure(states)
	}
	for i := range states {
		if until := a.table.LeaseExpiry(states[i].ID); states[i].Mesh != nil && !until.IsZero() {
			states[i].Lease = max(time.Until(until), 1)
		}
	}
	if q.ID != "" {
		return states, nil
	}
	for i := range states {
		s := &states[i]
		s.Status.Reason, _, _ = strings.Cut(s.Status.Reason, "\n")
		if s.Proc != nil {
			p := *s.Proc
			p.StderrTail, s.Proc = nil, &p
		}
	}
	return states, nil
}

// measure adds what each running process uses.
func (a *hostAgent) measure(states []agent.State) {
	for i, s := range states {
		if c := a.procs.findState(s); c != nil && c.process != nil && !c.state.Terminal() {
			p := *s.Proc
			p.CPUTime, p.Memory = c.process.Usage()
			states[i].Proc = &p
		}
	}
}

// Keepalive renews the lease of a mesh, or takes the mesh over (HOST-10). It returns the statuses
// of its procs, in case their controller missed events.
func (a *hostAgent) Keepalive(ctx *actor.Context, l agent.Lease) (agent.Overlay, error) {
	if l.TTL < 0 {
		return nil, fmt.Errorf("lease of %s for %s: want more than 0", l.TTL, l.ID)
	}
	before := a.table.Claim(l.ID)
	if err := agent.AcceptClaim(ctx, a.table, a.id.Label(), l.ID, l.Claim); err != nil {
		return a.table.Overlay(l.ID), err
	}
	if now := a.table.Claim(l.ID).Owner; before.Owner.IsValid() && before.Owner.Proc != now.Proc {
		a.emitOwner(ctx, l.ID, now)
	}
	if of := a.procs[l.ID]; of != nil {
		a.renewLease(ctx, l.ID, l.TTL, of.kept)
	}
	if l.Mesh != nil && l.Claim != (agent.Claim{}) && l.Mesh.Check() == nil {
		if hash, err := l.Mesh.Fingerprint(a.id); err == nil {
			a.table.Describe(l.ID, hash, l.Mesh)
		}
	}
	return a.table.Overlay(l.ID), nil
}

// emitOwner reports another owner of a mesh to those who follow it.
func (a *hostAgent) emitOwner(ctx *actor.Context, id string, owner subjects.ActorID) {
	for _, st := range a.table.States(id) {
		if c := a.procs.findState(st); c != nil {
			e := a.event(c)
			e.Step = actor.StepOwner
			e.Status = "owned"
			e.Reason = ""
			e.Object = owner.String()
			ctx.Proc().Emit(e)
			return
		}
	}
}

// Ping returns at once. It shows that the agent is reachable.
func (a *hostAgent) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

// Cleanup ends every proc before the host ends (HOST-5).
func (a *hostAgent) Cleanup(ctx *actor.Context, _ error) error {
	grace := keys.TerminateGrace.Get(a.opts.Config)
	if by := a.closeBy.Load(); by != nil {
		grace = max(0, min(grace, time.Until(*by)*3/4))
	}
	a.stopAll(ctx, grace)
	return nil
}

var (
	_ agent.Agent   = (*hostAgent)(nil)
	_ actor.Cleaner = (*hostAgent)(nil)
)
