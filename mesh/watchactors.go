package mesh

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// changesFound is changes for actors whose owner is unknown to the handle or absent: their procs
// know it.
func (m ActorMesh[A]) changesFound(ctx context.Context) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		w := m.watched()
		w.other = nil
		if !m.uncontrolled {
			var err error
			w.owner, err = m.procs.ownerOf(ctx, m.name)
			if err != nil {
				if ctx.Err() == nil {
					yield(actor.Event{}, fmt.Errorf("watch %s: %w", m.name, err))
				}
				return
			}
		}
		if !w.owner.IsValid() {
			actors := &ofActors{watched: w, procs: m.procs, actors: m.name}
			free := askedWatch{watched: w, source: actors, ranks: incarnations{}}
			free.owner = m.procs.net.proc.LatestGeneration(m.procs.placement().Proc(0)).Actor(agent.Name)
			w.other = free.changes
		}
		for e, err := range w.changes(ctx) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// ownerTimeout bounds the wait for a proc that knows the owner of an actor.
const ownerTimeout = 10 * time.Second

// ownerOf returns the owner of the actors of a full name, from the first proc that knows it; zero:
// they have none.
func (p ProcMesh) ownerOf(ctx context.Context, name string) (owner subjects.ActorID, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	answered := false
	for _, r := range cast.Stream(ctx, p.agents(), agent.Get, agent.GetRequest{ID: name}) {
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

// ofActors is the source of events of actors without owner. Their procs report their ends at once,
// and remember them; hosts report the ends of the procs.
type ofActors struct {
	watched
	procs  ProcMesh
	actors string
}

func (w *ofActors) name() string { return w.actors }

func (w *ofActors) asked() subjects.ActorID { return subjects.ActorID{} }

func (w *ofActors) listen(said *backlog, _ chan<- struct{}) (end func(), err error) {
	space := w.net.proc.Space()
	mesh := w.procs.desc.ID
	told := func(e actor.Event) {
		if e, in := e.ClampRanks(w.procs.desc.Extent.NumRanks()); in && e.Terminal() {
			e.Each(said.take)
		}
	}
	return w.subscribe(map[string]func(actor.Event){
		space.ActorEvents(actor.KindActor, mesh, w.actors): told,
		space.Events(actor.KindProc, mesh):                 told,
	})
}

// read turns the end of a proc into that of its actor.
func (w *ofActors) read(e actor.Event, ranks incarnations) (actor.Event, bool) {
	if e.Kind == actor.KindProc {
		if i, was := ranks[e.Rank]; !was || i.over {
			return e, false
		}
		e.Kind = actor.KindActor
		e.Actor = w.actors
	}
	if p, err := w.procs.desc.Extent.Point(e.Rank); err == nil {
		e.Point = p.String()
	}
	return e, true
}

// ask asks each proc, and the hosts of silent ones. If none answers, that is an error.
func (w *ofActors) ask(ctx context.Context, said *backlog, known incarnations) error {
	if known.allOver(w.region.NumRanks()) {
		return nil
	}
	gens := map[int]int{} // the generation of the asked proc, or an earlier one
	for _, base := range w.region.Ranks() {
		gens[base] = int(w.net.proc.LatestGeneration(w.procs.placement().Proc(base)).Gen)
	}
	all, silent, err := w.askProcs(ctx)
	if err != nil {
		return err
	}
	for view, base := range w.region.Ranks() {
		states, in := all.At(view)
		last, was := known[base]
		switch _, is := silent[view]; {
		case is || !in:
		case len(states) > 0:
			said.take(w.about(base, gens[base], states[0].Status))
		case was && !last.over:
			gone := agent.Status{Phase: agent.Stopped, Reason: "its proc no longer has it"}
			said.take(w.about(base, last.gen, gone))
		}
	}
	if len(silent) == 0 {
		return nil
	}
	hosts, err := w.procs.States(ctx)
	for view, s := range hosts.Values() {
		if base, in := w.region.BaseRank(view); in == nil && s.Status.Phase.Terminal() {
			said.take(w.about(base, s.Gen, s.Status))
		}
	}
	if len(silent) < w.region.NumRanks() {
		return nil
	}
	return errors.Join(fmt.Errorf("no proc answers: %s", silent[0].Reason), err)
}

// askProcs returns the procs' states, and the errors of silent procs. It leaves time to ask their
// hosts.
func (w *ofActors) askProcs(
	ctx context.Context,
) (all shape.ValueMesh[[]agent.State], silent map[int]agent.Status, err error) {
	if d, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, d.Add(-time.Until(d)/2))
		defer cancel()
	}
	all, err = cast.Gather(ctx, w.procs.agents(), agent.Get, agent.GetRequest{ID: w.actors})
	silent, err = statusesByRank(err)
	return all, silent, err
}

func (w *ofActors) about(base, gen int, s agent.Status) actor.Event {
	e := actor.Event{
		Kind: actor.KindActor, Status: string(actor.Running), Mesh: w.procs.desc.ID.String(), Rank: base,
		Gen: gen, Actor: w.actors, Reason: s.Reason, At: time.Now(),
	}
	switch s.Phase {
	case agent.Failed:
		e.Status = string(actor.Failed)
	case agent.Stopped:
		e.Status = string(actor.Stopped)
	}
	return e
}
