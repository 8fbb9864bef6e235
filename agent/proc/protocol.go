package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// Stop asks an actor to stop after its accepted messages and replies at its end.
func (a *procAgent) Stop(ctx *actor.Context, s agent.StopRequest) (agent.Overlay, error) {
	if err := agent.AcceptClaim(ctx, a.table, a.proc.ID().String(), s.ID, s.Claim); err != nil {
		return a.table.Overlay(s.ID).Shift(ctx.Point().Rank()), err
	}
	a.stopActor(ctx, s.ID, s.Reason)
	return nil, a.table.ReplyWhen(ctx, agent.UntilEnded(s.ID), ctx.Point().Rank())
}

func (a *procAgent) stopActor(ctx *actor.Context, name, reason string) {
	a.table.MarkStopping(name)
	if a.table.Advance(name, tableRank, agent.Status{Phase: agent.ShuttingDown, Reason: reason}) {
		a.proc.StopActor(name, reason)
	}
}

// StopAll stops every actor, then requests the close of the proc (AGT-8). After the grace,
// unfinished actors end with the proc.
func (a *procAgent) StopAll(ctx *actor.Context, s agent.StopAllRequest) (agent.StopSummary, error) {
	asked := agent.Alive(a.table.States(""))
	for _, st := range asked {
		a.stopActor(ctx, st.ID, s.Reason)
	}
	first := !a.leaving
	a.leaving = true
	rank := ctx.Point().Rank()
	answer := actor.Defer[agent.StopSummary](ctx)
	a.table.WhenEnded(ctx, asked, s.Grace, func(ctx *actor.Context, done agent.StopSummary) {
		for i := range done.Remaining {
			done.Remaining[i].Rank = rank
		}
		answer.Reply(done, nil)
		if first { // the reply leaves before the close of the proc, which flushes
			a.onLeave(done.Failed > 0 || len(done.Remaining) > 0)
		}
	})
	return agent.StopSummary{}, nil
}

// Wait replies once the condition holds for an actor.
func (a *procAgent) Wait(ctx *actor.Context, w agent.WaitRequest) (agent.Overlay, error) {
	return nil, a.table.ReplyWhen(ctx, w, ctx.Point().Rank())
}

// Get lists the actors of the proc by name: those of the agent with their status, and others.
// Replies use the proc's rank in the caller's view.
func (a *procAgent) Get(ctx *actor.Context, q agent.GetRequest) ([]agent.State, error) {
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
			states = append(states,
				agent.State{ID: info.Name, Status: agent.Status{Phase: phaseOf(info.Status), Reason: info.Reason}})
		}
		states[i].Actor = &agent.ActorInfo{
			Type: info.Type, Queued: info.Queued, Handled: info.Handled, Current: info.Current,
			Endpoints: a.proc.Registry().Endpoints(info.Type), Managed: known,
			Reducers: reducers(a.proc.Registry(), info.Type), Latency: meanLatency(info.Endpoints),
		}
		if q.Schemas {
			states[i].Actor.Schemas = agent.EndpointSchemas(a.proc.Registry(), info.Type)
		}
	}
	for i := range states {
		states[i].Rank = ctx.Point().Rank()
	}
	slices.SortFunc(states, func(x, y agent.State) int { return strings.Compare(x.ID, y.ID) })
	return states, nil
}

// reducers returns the declared reducers of an actor type by endpoint, or nil.
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

// onActorEnd handles the runtime's report of an actor's end.
func (a *procAgent) onActorEnd(e actor.Event) {
	to := agent.Status{Phase: agent.Stopped, Reason: e.Reason}
	if e.Status == string(actor.Failed) {
		to.Phase = agent.Failed
	}
	a.recordEnd(e.Actor, to)
}

// recordEnd records the end of an actor and drops the oldest record. Get and a repeated Create use
// the records.
func (a *procAgent) recordEnd(name string, s agent.Status) {
	if !a.table.Advance(name, tableRank, s) {
		return
	}
	a.endedActors = append(a.endedActors, name)
	if len(a.endedActors) > a.maxEnded {
		a.table.Remove(a.endedActors[0])
		a.endedActors = slices.Delete(a.endedActors, 0, 1)
	}
}

// Keepalive renews the lease of an actor, or takes it over (AGT-10), and returns its status.
func (a *procAgent) Keepalive(ctx *actor.Context, l agent.Lease) (agent.Overlay, error) {
	if l.TTL < 0 {
		return nil, fmt.Errorf("lease of %s for %s: want more than 0", l.TTL, l.ID)
	}
	if err := agent.AcceptClaim(ctx, a.table, a.proc.ID().String(), l.ID, l.Claim); err != nil {
		return a.table.Overlay(l.ID).Shift(ctx.Point().Rank()), err
	}
	a.leases.Renew(ctx, l.ID, l.TTL)
	return a.table.Overlay(l.ID).Shift(ctx.Point().Rank()), nil
}

// Logs returns nothing: the host holds the output of its procs.
func (a *procAgent) Logs(*actor.Context, agent.LogsRequest) ([]agent.LogTail, error) {
	return nil, errors.New("a proc agent has no output of procs: ask the agent of its host")
}

// readopt accepts the adoption by a host with the nonce (PROC-2).
func (a *procAgent) readopt(ctx *actor.Context, r agent.ReadoptRequest) (agent.ReadoptResponse, error) {
	id := a.proc.ID()
	if r.Proc != id || !agent.CheckProof(r.Proof, a.nonce, agent.ProofReadopt, id, r.Host, r.Challenge) {
		return agent.ReadoptResponse{}, fmt.Errorf("cannot adopt proc %s: want the proof of its launch", id)
	}
	log := ctx.Log()
	log.Info().Stringer("host", r.Host).Msg("adopted by another host agent")
	return agent.ReadoptResponse{PID: os.Getpid(),
		Proof: agent.Proof(a.nonce, agent.ProofAdopted, id, r.Host, r.Challenge)}, nil
}

// Ping returns at once. It shows that the agent is reachable.
func (a *procAgent) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

// Cleanup ends the subscription to the proc's events.
func (a *procAgent) Cleanup(*actor.Context, error) error {
	a.stopObserving()
	return nil
}

var (
	_ agent.Agent       = (*procAgent)(nil)
	_ actor.Cleaner     = (*procAgent)(nil)
	_ actor.RoutineActs = (*procAgent)(nil)
)

// meanLatency returns the mean time of a message in the mailbox and in the handler.
func meanLatency(endpoints []actor.EndpointInfo) time.Duration {
	var samples, total float64
	for _, e := range endpoints {
		n := float64(e.Waited.Samples)
		samples += n
		total += n * float64(e.Waited.Mean+e.Ran.Mean)
	}
	if samples == 0 {
		return 0
	}
	return time.Duration(total / samples)
}
