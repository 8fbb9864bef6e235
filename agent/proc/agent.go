package proc

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Options describes a proc that joins a mesh.
type Options struct {
	Bus      *bus.Bus
	Space    subjects.Space
	Registry actor.Registry // what it can run; the agent's own type is added
	Mesh     agent.Mesh
	Rank     int
	Gen      int
	Log      zerolog.Logger
}

// Join starts a proc as a rank of a mesh, with its router and its agent. The caller closes the
// proc, then the router.
func Join(ctx context.Context, o Options) (*actor.Proc, *cast.Router, error) {
	registry, err := o.Registry.With(agentType.Made(newAgent, methods()...).Enduring())
	if err != nil {
		return nil, nil, err
	}
	id := subjects.ProcID{Mesh: o.Mesh.ID, Rank: uint32(o.Rank), Gen: uint32(o.Gen)}
	p, err := actor.NewProc(ctx, actor.Options{ID: id, Bus: o.Bus, Space: o.Space, Registry: registry, Log: o.Log,
		Coordinator: func(actor.Event) {}, // the agent observes every end, and its controller decides
	})
	if err != nil {
		return nil, nil, err
	}
	place := cast.Placement{Mesh: o.Mesh.ID, Extent: o.Mesh.Extent, PerHost: o.Mesh.PerHost}
	router, err := cast.Start(p, &cast.Member{Placement: place, Rank: o.Rank})
	if err == nil {
		var point shape.Point // who asks the agent directly means its place in the whole mesh
		if point, err = o.Mesh.Extent.Point(o.Rank); err == nil {
			_, err = p.Spawn(ctx, actor.Spawning{Type: agentType.Name(), Name: agent.Name, Params: actor.None{}, Point: point, Announce: true})
		}
	}
	if err == nil {
		err = serve(p)
	}
	if err != nil {
		return p, router, fmt.Errorf("start proc %s: %w", id, err)
	}
	return p, router, nil
}

var (
	agentType = actor.NewType[agent.Agent, actor.None]("proc-agent")
	// observed is what the proc's runtime tells the agent about an actor, in the agent's own mailbox.
	observed = actor.NewEndpoint[agent.Agent, actor.Event, actor.None]("observed")
)

// procAgent creates and stops the actors of one proc. Its table holds each under the one rank
// own; answers speak of the proc's rank in the view that asks, whichever created it.
type procAgent struct {
	proc    *actor.Proc
	table   *agent.Table
	ended   []string // actors that have ended, oldest first
	streams agent.Streams
	release func()
}

// own is the rank of everything in a proc agent's table.
const own = 0

func newAgent(ctx *actor.Context, _ actor.None) (agent.Agent, error) {
	p, self := ctx.Proc(), actor.RefOf[agent.Agent](ctx.Self()).Via(ctx.Proc())
	a := &procAgent{proc: p, table: agent.NewTable()}
	a.release = p.Observe(func(e actor.Event) {
		if e.Actor == self.ID().Name {
			return
		}
		if err := observed.Post(context.Background(), self, e); err != nil {
			log := p.Log()
			log.Warn().Err(err).Stringer("event", e).Msg("the proc agent missed an event")
		}
	})
	return a, nil
}

// methods are those of the protocol and the agent's own.
func methods() []actor.Method[agent.Agent] {
	return append(agent.Methods(), observed.By(func(a agent.Agent, ctx *actor.Context, e actor.Event) (actor.None, error) {
		return actor.None{}, a.(*procAgent).observe(ctx, e)
	}))
}

// Create spawns an actor. The answer comes at once; Wait tells when the constructor has returned.
func (a *procAgent) Create(ctx *actor.Context, c agent.Creation) (agent.Overlay, error) {
	if c.Actors == nil {
		return nil, fmt.Errorf("a proc agent creates actors: want the field actors")
	}
	spec := *c.Actors
	if err := subjects.CheckName("actor", spec.Name); err != nil {
		return nil, err
	}
	hash, err := agent.Fingerprint(spec)
	if err != nil {
		return nil, err
	}
	created, err := a.table.Create(spec.Name, hash, []int{own}, nil)
	if err == nil && created {
		a.spawn(ctx, spec)
	}
	return a.table.Overlay(spec.Name).Shift(ctx.Point().Rank()), err
}

// spawn runs the constructor as a task: it may take long.
func (a *procAgent) spawn(ctx *actor.Context, spec agent.ActorSpec) {
	s := actor.Spawning{Type: spec.Type, Name: spec.Name, Raw: spec.Params, Point: ctx.Point(), Announce: true}
	ctx.Go(func(work context.Context) func(*actor.Context) {
		_, err := a.proc.Spawn(work, s)
		return func(*actor.Context) {
			if err != nil {
				a.end(spec.Name, agent.Status{Phase: agent.Failed, Reason: err.Error()})
			} else if !a.table.Advance(spec.Name, own, agent.Status{Phase: agent.Running}) {
				a.proc.StopActor(spec.Name, a.table.Status(spec.Name, own).Reason) // Stop came before it was there
			}
		}
	})
}
