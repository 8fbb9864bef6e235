package proc

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// Stop asks an actor to stop after the messages it has accepted, and answers once it has.
func (a *procAgent) Stop(ctx *actor.Context, s agent.Stopping) (agent.Overlay, error) {
	if err := a.table.Obey(a.proc.ID().String(), s.ID, s.Claim); err != nil {
		return a.table.Overlay(s.ID).Shift(ctx.Point().Rank()), err
	}
	a.stop(ctx, s.ID, s.Reason)
	return nil, a.table.AnswerWhen(ctx, agent.Ended(s.ID), ctx.Point().Rank())
}

func (a *procAgent) stop(ctx *actor.Context, name, reason string) {
	a.table.Release(name)
	if a.advance(ctx, name, agent.Status{Phase: agent.ShuttingDown, Reason: reason}, actor.Event{}) {
		a.proc.StopActor(name, reason)
	}
}

// StopAll stops every actor, and then has the proc closed (AGT-8). Each has the grace to end what it
// has accepted; those that have not by then end with the proc.
func (a *procAgent) StopAll(ctx *actor.Context, s agent.StoppingAll) (agent.Summary, error) {
	var asked []agent.State
	for _, st := range a.table.States("") {
		if !st.Status.Phase.Terminal() {
			asked = append(asked, st)
			a.stop(ctx, st.ID, s.Reason)
		}
	}
	first := !a.leaving
	a.leaving = true
	sum := func() agent.Summary {
		for i, st := range asked {
			if now := a.table.States(st.ID); len(now) > 0 {
				asked[i] = now[0]
			}
			asked[i].Rank = ctx.Point().Rank()
		}
		return agent.Summarize(asked)
	}
	answer := actor.Defer[agent.Summary](ctx)
	a.table.AnswerAll(ctx, asked, s.Grace, func(ctx *actor.Context) {
		done := sum()
		answer.Reply(done, nil)
		if first { // the answer leaves before the proc is closed, which sends what is under way
			a.leave(done.Failed > 0 || len(done.Left) > 0)
		}
	})
	return agent.Summary{}, nil
}

// Wait answers once the condition holds for an actor.
func (a *procAgent) Wait(ctx *actor.Context, w agent.Waiting) (agent.Overlay, error) {
	return nil, a.table.AnswerWhen(ctx, w, ctx.Point().Rank())
}

// Get lists the actors of the proc by name: those created through the agent with their status,
// and the proc's own. The rank is the proc's place in the view that was asked.
func (a *procAgent) Get(ctx *actor.Context, q agent.Query) ([]agent.State, error) {
	states := a.table.States(q.ID)
	managed := len(states)
	for _, info := range a.proc.Actors() {
		if q.ID != "" && q.ID != info.Name {
			continue
		}
		i := slices.IndexFunc(states[:managed], func(s agent.State) bool { return s.ID == info.Name })
		known := i >= 0
		if !known {
			i = len(states)
			states = append(states, agent.State{ID: info.Name, Status: agent.Status{Phase: phaseOf(info.Status), Reason: info.Reason}})
		}
		states[i].Actor = &agent.ActorInfo{
			Type: info.Type, Queued: info.Queued, Handled: info.Handled, Current: info.Current,
			Endpoints: a.proc.Registry().Endpoints(info.Type), Managed: known, Reducers: reducers(a.proc.Registry(), info.Type),
		}
		if q.Schemas {
			states[i].Actor.Schemas = agent.Schemas(a.proc.Registry(), info.Type)
		}
	}
	for i := range states {
		states[i].Rank = ctx.Point().Rank()
	}
	slices.SortFunc(states, func(x, y agent.State) int { return strings.Compare(x.ID, y.ID) })
	return states, nil
}

// reducers are those that the endpoints of a type declare; nil when none does.
func reducers(r actor.Registry, typeName string) (out map[string][]string) {
	for _, e := range r.Describe(typeName) {
		if len(e.Reducers) > 0 {
			if out == nil {
				out = map[string][]string{}
			}
			out[e.Name] = e.Reducers
		}
	}
	return out
}

func phaseOf(s actor.Status) agent.Phase {
	switch s {
	case actor.Running:
		return agent.Running
	case actor.Stopping:
		return agent.ShuttingDown
	case actor.Stopped:
		return agent.Stopped
	case actor.Failed:
		return agent.Failed
	}
	return agent.Initializing
}

// observe takes the runtime's word that an actor has ended.
func (a *procAgent) observe(ctx *actor.Context, e actor.Event) {
	to := agent.Status{Phase: agent.Stopped, Reason: e.Reason}
	if e.Status == string(actor.Failed) {
		to.Phase = agent.Failed
	}
	a.end(ctx, e.Actor, to, e)
}

// end records the end of an actor, in place of the one that ended longest ago. Those on record are there
// for Get and a repeated Create.
func (a *procAgent) end(ctx *actor.Context, name string, s agent.Status, about actor.Event) {
	if !a.advance(ctx, name, s, about) {
		return
	}
	a.ended = append(a.ended, name)
	if len(a.ended) > a.kept {
		a.table.Remove(a.ended[0])
		a.ended = slices.Delete(a.ended, 0, 1)
	}
}

// Keepalive renews the lease of an actor, or takes it over (AGT-10), and answers how it is.
func (a *procAgent) Keepalive(ctx *actor.Context, l agent.Lease) (agent.Overlay, error) {
	if l.For < 0 {
		return nil, fmt.Errorf("lease of %s for %s: want more than 0", l.For, l.ID)
	}
	if err := a.table.Obey(a.proc.ID().String(), l.ID, l.Claim); err != nil {
		return a.table.Overlay(l.ID).Shift(ctx.Point().Rank()), err
	}
	a.leases.Keep(ctx, l.ID, l.For)
	return a.table.Overlay(l.ID).Shift(ctx.Point().Rank()), nil
}

// Stream sends how an actor is, or all are, and each change of it, to a port (AGT-9).
func (a *procAgent) Stream(ctx *actor.Context, s agent.Stream) (actor.None, error) {
	var now []actor.Event
	for _, st := range a.table.States(s.ID) {
		now = append(now, a.event(st.ID, actor.Event{}))
	}
	return actor.None{}, agent.Subscribe(ctx, &a.streams, s, now)
}

// Undeliverable takes a message that came back: a subscriber has gone.
func (a *procAgent) Undeliverable(_ *actor.Context, r actor.Returned) error {
	a.streams.Returned(r)
	return nil
}

// Logs is for the host to answer: it holds the output of its procs.
func (a *procAgent) Logs(*actor.Context, agent.LogQuery) ([]agent.LogTail, error) {
	return nil, errors.New("ask the host's agent: it holds the output of its procs")
}

// readopt takes the word of a host that has adopted the proc (PROC-5).
func (a *procAgent) readopt(ctx *actor.Context, r agent.Readoption) (agent.Readopted, error) {
	if r.Proc != a.proc.ID() || a.nonce == "" || subtle.ConstantTimeCompare([]byte(r.Nonce), []byte(a.nonce)) == 0 {
		return agent.Readopted{}, fmt.Errorf("proc %s: who adopts it must know what its host told it", a.proc.ID())
	}
	log := ctx.Log()
	log.Info().Stringer("host", r.Host).Msg("adopted by another host agent")
	return agent.Readopted{PID: os.Getpid()}, nil
}

// Ping is answered by whoever can be reached.
func (a *procAgent) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

// Cleanup lets go of the proc's events.
func (a *procAgent) Cleanup(*actor.Context, error) error {
	a.release()
	return nil
}

var (
	_ agent.Agent       = (*procAgent)(nil)
	_ actor.Cleaner     = (*procAgent)(nil)
	_ actor.Undeliverer = (*procAgent)(nil)
)
