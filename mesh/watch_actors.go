package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// findSource finds the source of actors whose owner is unknown to the handle or absent: their
// procs know it.
func findSource(ctx context.Context, m actorMesh) (source, error) {
	owner := subjects.ActorID{}
	if !m.uncontrolled {
		var err error
		owner, err = ownerOf(ctx, m.procs, m.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if owner.IsValid() {
		return controllerOf(m, owner), nil
	}
	return &actorSource{procs: m.procs, actors: m.name}, nil
}

// controllerOf is the source of actors with an owner.
func controllerOf(m actorMesh, owner subjects.ActorID) source {
	return controllerSource{m.procs.net, owner, m.procs.desc.ID, m.name}
}

// ownerTimeout bounds the wait for a proc that knows the owner of an actor.
const ownerTimeout = 10 * time.Second

// ownerOf returns the owner of the actors of a full name, from the first proc that knows it; zero:
// they have none.
func ownerOf(ctx context.Context, p ProcMesh, name string) (owner subjects.ActorID, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	answered := false
	for _, r := range cast.Stream(ctx, agentsOf(p), agent.Get, agent.GetRequest{ID: name}) {
		switch {
		case r.Err != nil:
			err = r.Err
		case len(r.Value) == 0:
			answered = true
		default:
			if c := r.Value[0].Claim; c != nil {
				owner = c.Owner
			}
			return owner, nil
		}
	}
	if answered || err == nil {
		return owner, &NotFoundError{What: "actor mesh", Name: name}
	}
	return owner, fmt.Errorf("cannot find its owner: %w", err)
}

// actorSource is the source of actors without owner. Their procs report their ends at once, and
// remember them; hosts report the ends of the procs.
type actorSource struct {
	procs  ProcMesh
	actors string
}

// watched is the agent of the first proc.
func (w *actorSource) watched() subjects.ActorID {
	first := controller.Placement(w.procs.desc).Proc(0)
	return w.procs.net.proc.Members().LatestGeneration(first).Actor(agent.Name)
}

func (w *actorSource) subscribe(hear func(actor.Event), relist func()) (cancel func(), err error) {
	p := w.procs.net.proc
	mesh := w.procs.desc.ID
	ranks := w.procs.desc.Extent.NumRanks()
	hearEnd := func(e actor.Event) {
		if e, in := e.ClampRanks(ranks); in && e.Terminal() {
			hear(e)
		}
	}
	deafen, err := p.Members().ListenProcs(mesh, ranks, hearEnd)
	if err != nil {
		return nil, err
	}
	subject := p.Space().ActorEvents(actor.KindActor, mesh, w.actors)
	unlisten, err := listen(w.procs.net.proc, subject, hearEnd, relist)
	if err != nil {
		deafen()
		return nil, err
	}
	return func() { unlisten(); deafen() }, nil
}

// list asks each proc, and the hosts of silent ones. If none answers, that is an error.
func (w *actorSource) list(
	ctx context.Context, _ uint64, known func() rankStates,
) (l eventList, err error) {
	ctx, cancel := context.WithTimeout(ctx, listInterval(w.procs.net))
	defer cancel()
	region := w.procs.region
	before := known()
	if before.haveEnded(region) {
		return l, nil
	}
	place := controller.Placement(w.procs.desc)
	gens := map[int]int{} // the generation of the asked proc, or an earlier one
	for _, base := range region.Ranks() {
		gens[base] = int(w.procs.net.proc.Members().LatestGeneration(place.Proc(base)).Gen)
	}
	all, silent, err := w.askProcs(ctx)
	if err != nil {
		return l, err
	}
	for view, base := range region.Ranks() {
		states, in := all.At(view)
		last, was := before.latest[base]
		switch _, is := silent[view]; {
		case is || !in:
		case len(states) > 0:
			l.events = append(l.events, w.about(base, gens[base], states[0].Status))
		case was && !last.Terminal():
			gone := agent.Status{Phase: agent.Stopped, Reason: "its proc no longer has it"}
			l.events = append(l.events, w.about(base, last.Gen, gone))
		}
	}
	if len(silent) == 0 {
		return l, nil
	}
	hosts, err := w.procs.States(ctx)
	for view, s := range hosts.Values() {
		if base, bad := region.BaseRank(view); bad == nil && s.Status.Phase.Terminal() {
			l.events = append(l.events, w.about(base, s.Gen, s.Status))
		}
	}
	if len(silent) < region.NumRanks() {
		return l, nil
	}
	return l, errors.Join(fmt.Errorf("no proc answers: %s", silent[0].Reason), err)
}

// askProcs returns the procs' states, and the errors of silent procs. It leaves time to ask their
// hosts.
func (w *actorSource) askProcs(
	ctx context.Context,
) (all shape.ValueMesh[[]agent.State], silent map[int]agent.Status, err error) {
	if d, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, d.Add(-time.Until(d)/2))
		defer cancel()
	}
	all, err = cast.Gather(ctx, agentsOf(w.procs), agent.Get, agent.GetRequest{ID: w.actors})
	silent, err = statusesByRank(err)
	return all, silent, err
}

func (w *actorSource) about(base, gen int, s agent.Status) actor.Event {
	return w.procs.eventOf(w.actors, base, gen, s)
}

// eventOf returns the status of a rank as an event; no actors: of its proc.
func (p ProcMesh) eventOf(actors string, base, gen int, s agent.Status) actor.Event {
	e := actor.Event{
		Kind: actor.KindProc, Status: string(actor.Running), Mesh: p.desc.ID.String(), Rank: base,
		Gen: gen, Actor: actors, Reason: s.Reason, At: time.Now(),
	}
	if actors != "" {
		e.Kind = actor.KindActor
	}
	switch s.Phase {
	case agent.Failed:
		e.Status = string(actor.Failed)
	case agent.Stopped:
		e.Status = string(actor.Stopped)
	}
	return e
}
