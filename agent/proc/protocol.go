package proc

import (
	"errors"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// Stop asks an actor to stop after the messages it has accepted, and answers once it has.
func (a *procAgent) Stop(ctx *actor.Context, s agent.Stopping) (agent.Overlay, error) {
	if a.table.Advance(s.ID, own, agent.Status{Phase: agent.ShuttingDown, Reason: s.Reason}) {
		a.proc.StopActor(s.ID, s.Reason) // not there yet: spawn does it
	}
	a.table.AnswerWhen(ctx, s.ID, agent.Stopped, ctx.Point().Rank())
	return nil, nil
}

// Wait answers once an actor has reached a phase.
func (a *procAgent) Wait(ctx *actor.Context, w agent.Waiting) (agent.Overlay, error) {
	a.table.AnswerWhen(ctx, w.ID, w.Until, ctx.Point().Rank())
	return nil, nil
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
func (a *procAgent) observe(ctx *actor.Context, e actor.Event) error {
	if e.Terminal() {
		to := agent.Status{Phase: agent.Stopped, Reason: e.Reason}
		if e.Status == string(actor.Failed) {
			to.Phase = agent.Failed
		}
		a.end(e.Actor, to)
	}
	a.streams.Tell(ctx, e.Actor, e)
	return nil
}

// maxEnded is how many actors that have ended stay on record, for Get and a repeated Create.
const maxEnded = 1024

// end records the end of an actor, in place of the one that ended longest ago.
func (a *procAgent) end(name string, s agent.Status) {
	if !a.table.Advance(name, own, s) {
		return
	}
	a.ended = append(a.ended, name)
	if len(a.ended) > maxEnded {
		a.table.Remove(a.ended[0])
		a.ended = slices.Delete(a.ended, 0, 1)
	}
}

// Keepalive answers how the actor is and changes nothing: an actor lives as long as its proc, whose
// lease its host holds.
func (a *procAgent) Keepalive(_ *actor.Context, l agent.Lease) (agent.Overlay, error) {
	return a.table.Overlay(l.ID), nil
}

// Stream sends the events of an actor, or of all, to a port.
func (a *procAgent) Stream(_ *actor.Context, s agent.Stream) (actor.None, error) {
	return actor.None{}, a.streams.Add(s)
}

// Logs is for the host to answer: it holds the output of its procs.
func (a *procAgent) Logs(*actor.Context, agent.LogQuery) ([]agent.LogTail, error) {
	return nil, errors.New("ask the host's agent: it holds the output of its procs")
}

// Ping is answered by whoever can be reached.
func (a *procAgent) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

// Cleanup lets go of the proc's events.
func (a *procAgent) Cleanup(*actor.Context, error) error {
	a.release()
	return nil
}

var (
	_ agent.Agent   = (*procAgent)(nil)
	_ actor.Cleaner = (*procAgent)(nil)
)
