package host

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
)

// closeGrace is what procs get when the host itself stops.
const closeGrace = 5 * time.Second

// Stop ends this host's share of a mesh, or of a region of it, and answers once every proc of that has ended. A
// second Stop may shorten the grace.
func (a *hostAgent) Stop(ctx *actor.Context, s agent.Stopping) (agent.Overlay, error) {
	err := a.obey(s.Epoch)
	if err == nil {
		err = a.table.Obey(a.id.Label(), s.ID, s.Claim)
	}
	if err != nil {
		return a.table.Overlay(s.ID), err
	}
	if states := a.table.States(s.ID); s.Region != nil && len(states) > 0 {
		if err := states[0].Mesh.CheckPart(*s.Region); err != nil {
			return nil, err
		}
	}
	a.stop(ctx, s)
	ended := agent.Ended(s.ID)
	ended.Region = s.Region
	return nil, a.table.AnswerWhen(ctx, ended, 0)
}

// stop asks the procs of a mesh to end, so many at a time.
func (a *hostAgent) stop(ctx *actor.Context, s agent.Stopping) {
	grace := s.Grace
	if grace <= 0 {
		grace = keys.TerminateGrace.Get(a.opts.Config)
		if of := a.shares[s.ID]; of != nil && of.alive == 1 {
			grace = keys.TerminateSingle.Get(a.opts.Config)
		}
	}
	if s.Region == nil {
		a.table.Release(s.ID)
	}
	asked, first := 0, 0 // ranks in a row
	var m agent.Mesh
	tell := func() {
		if asked > 0 {
			a.step(ctx, "procs.stop.attempt", m, first, asked, agent.Status{Phase: agent.ShuttingDown, Reason: s.Reason})
		}
		asked = 0
	}
	for _, st := range a.table.States(s.ID) {
		c := a.shares.of(st)
		if c == nil || c.life.Over() || s.Region != nil && !s.Region.Contains(st.Rank) {
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
			c.change(func() { c.asked, c.why = true, s.Reason })
			a.move(ctx, c, agent.Ending)
			a.changed(ctx, c)
			a.stops.enter(ctx, func(ctx *actor.Context) {
				if c.life.Over() {
					a.stops.leave(ctx)
					return
				}
				c.slot = true
				c.terminate(grace)
			})
		} else if c.slot && c.process != nil {
			c.process.Terminate(grace)
		}
	}
	tell()
}

// StopAll stops every proc and takes no more; once that is done and answered, the host leaves (AGT-8).
func (a *hostAgent) StopAll(ctx *actor.Context, s agent.StoppingAll) (agent.Summary, error) {
	if err := a.mayEnd(ctx); err != nil {
		return agent.Summary{}, err
	}
	first := !a.gate.leaving
	a.gate.leaving, a.gate.leaveWhy = true, s.Reason
	a.takes(a.gate.mode())
	a.closes(s.Reason)
	a.tell(ctx, "host.shutdown.attempt", s.Reason)
	answer := actor.Defer[agent.Summary](ctx)
	a.stopMeshes(ctx, "", s.Reason, s.Grace, func(ctx *actor.Context, done agent.Summary) {
		a.tellDone(ctx, "host.shutdown", done)
		answer.Reply(done, nil)
		if first {
			a.left()
		}
	})
	return agent.Summary{}, nil
}

// stopMeshes stops the procs of one mesh, or of all, and says what came of it: once all have ended, or
// when the bound of StopBound is over.
func (a *hostAgent) stopMeshes(ctx *actor.Context, mesh, reason string, grace time.Duration, done func(*actor.Context, agent.Summary)) {
	if grace <= 0 {
		grace = keys.TerminateGrace.Get(a.opts.Config)
	}
	var asked []agent.State
	ids := map[string]bool{}
	for _, st := range a.table.States(mesh) {
		if st.Status.Phase.Terminal() {
			continue
		}
		asked = append(asked, st)
		ids[st.ID] = true
	}
	for id := range ids {
		a.stop(ctx, agent.Stopping{ID: id, Reason: reason, Grace: grace})
	}
	bound := StopBound(len(asked), a.stops.limit, grace, keys.TerminateKillWait.Get(a.opts.Config))
	a.table.AnswerAll(ctx, asked, bound, func(ctx *actor.Context) {
		for i, st := range asked {
			if now, ok := a.table.State(st.ID, st.Rank); ok {
				asked[i] = now
			}
		}
		done(ctx, agent.Summarize(asked))
	})
}

// StopBound is how long stopping so many procs takes at most, when each has a grace and so many are
// stopped at a time; killWait is what a killed one has.
func StopBound(procs, atOnce int, grace, killWait time.Duration) time.Duration {
	if atOnce <= 0 {
		atOnce = max(procs, 1)
	}
	rounds := max(1, (procs+atOnce-1)/atOnce)
	return time.Duration(rounds) * (grace + killWait)
}

// cordon closes the host for new procs, or opens it.
func (a *hostAgent) cordon(ctx *actor.Context, c agent.Cordoning) (agent.HostInfo, error) {
	was := a.gate.cordoned
	a.gate.cordoned, a.gate.cordonWhy = c.On, c.Reason
	a.takes(a.gate.mode())
	switch {
	case was == c.On:
	case c.On:
		a.tell(ctx, "host.cordon", c.Reason)
	default:
		a.tell(ctx, "host.uncordon", c.Reason)
	}
	return a.info(), nil
}

// take changes who owns the host (HOST-9).
func (a *hostAgent) take(ctx *actor.Context, t agent.Taking) (agent.HostInfo, error) {
	by := sender(ctx)
	switch {
	case by == "":
		return a.info(), errors.New("a host is taken by a program of castnet: a plain NATS client has no process to own it")
	case t.Force, a.owner == "", a.owner == by:
		if a.owner = by; t.Release {
			a.owner = ""
		}
		return a.info(), nil
	}
	return a.info(), fmt.Errorf("host %s is owned by %s: want its word, or force", a.id.Label(), a.owner)
}

// mayEnd refuses who does not own a host that has an owner (HOST-9).
func (a *hostAgent) mayEnd(ctx *actor.Context) error {
	if by := sender(ctx); a.owner != "" && a.owner != by {
		return fmt.Errorf("host %s is owned by %s: only that stops all of it; take it first", a.id.Label(), a.owner)
	}
	return nil
}

// sender is the process that sent a message; "" when it is no process of castnet's.
func sender(ctx *actor.Context) string {
	if s := ctx.Sender(); s.IsValid() {
		return s.Proc.Process().String()
	}
	return ""
}

// tell says on `ev.` what the host does.
func (a *hostAgent) tell(ctx *actor.Context, name, reason string) {
	mode, _ := a.gate.mode()
	ctx.Proc().Emit(actor.Event{
		Kind: actor.KindHost, Step: name, Status: string(mode), Reason: reason, Mesh: a.id.String(), Host: a.id.String(), At: time.Now(),
	})
}

func (a *hostAgent) tellDone(ctx *actor.Context, name string, done agent.Summary) {
	if err := done.Err(); err != nil {
		a.tell(ctx, name+".failed", err.Error())
		return
	}
	a.tell(ctx, name+".success", fmt.Sprintf("%d procs ended", done.Ended))
}

// Wait answers once a condition holds for the procs of a mesh on this host.
func (a *hostAgent) Wait(ctx *actor.Context, w agent.Waiting) (agent.Overlay, error) {
	return nil, a.table.AnswerWhen(ctx, w, 0)
}

// Get lists the procs of this host. A list of all gives each reason in one line and no output: of
// many procs that have crashed it would not fit into a message.
func (a *hostAgent) Get(_ *actor.Context, q agent.Query) ([]agent.State, error) {
	states := a.table.States(q.ID)
	for i := range states {
		if until := a.table.Expires(states[i].ID); states[i].Mesh != nil && !until.IsZero() {
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

// Keepalive renews the lease of a mesh, or takes the mesh over (HOST-15), and answers how its procs here are: what
// its controller may have missed.
func (a *hostAgent) Keepalive(ctx *actor.Context, l agent.Lease) (agent.Overlay, error) {
	if l.For < 0 {
		return nil, fmt.Errorf("lease of %s for %s: want more than 0", l.For, l.ID)
	}
	if err := a.table.Obey(a.id.Label(), l.ID, l.Claim); err != nil {
		return a.table.Overlay(l.ID), err
	}
	if of := a.shares[l.ID]; of != nil {
		a.lease(ctx, l.ID, l.For, of.keep)
	}
	return a.table.Overlay(l.ID), nil
}

// Stream sends how the procs of a mesh, or of all, are, and each change, to a port (AGT-9).
func (a *hostAgent) Stream(ctx *actor.Context, s agent.Stream) (actor.None, error) {
	var now []actor.Event
	for _, st := range a.table.States(s.ID) {
		if c := a.shares.of(st); c != nil {
			e := a.event(c)
			e.ExitCode, e.Signal, e.StderrTail = st.Proc.ExitCode, st.Proc.Signal, st.Proc.StderrTail
			now = append(now, e)
		}
	}
	return actor.None{}, agent.Subscribe(ctx, &a.streams, s, now)
}

// Undeliverable takes a message that came back: a subscriber has gone.
func (a *hostAgent) Undeliverable(_ *actor.Context, r actor.Returned) error {
	a.streams.Returned(r)
	return nil
}

// Ping is answered by whoever can be reached.
func (a *hostAgent) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

// Cleanup ends every proc before the host goes (HOST-5).
func (a *hostAgent) Cleanup(ctx *actor.Context, _ error) error {
	a.stopAll(ctx, closeGrace)
	return nil
}

var (
	_ agent.Agent       = (*hostAgent)(nil)
	_ actor.Cleaner     = (*hostAgent)(nil)
	_ actor.Undeliverer = (*hostAgent)(nil)
)
