package proc

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Options describe a proc that joins a mesh.
type Options struct {
	Bus *bus.Bus
	// Principal is the first part of the proc's sender; zero: u-anon.
	Principal subjects.Principal
	Settings  agent.BusSettings // settings of Bus, for children of the proc
	Space     subjects.Space
	Registry  actor.Registry // actor types of the proc; Join adds the agent's
	Mesh      agent.Mesh
	Rank      int
	Gen       int
	Log       zerolog.Logger
	Config    *config.Config // for actors of the proc; nil: defaults

	// Tracer makes spans of the proc's messages; nil: none. With a Leader: that of the leader.
	Tracer actor.Tracer

	// Leader is the first proc of a shared process, or nil. Bus and Space are then the leader's.
	Leader *actor.Proc
	// OnLeave is called once after a StopAll has stopped all actors (AGT-8). The caller then closes
	// the proc. failed reports a failed actor. Nil: StopAll has no callback.
	OnLeave func(failed bool)
	// FirstPacket exceeds the packet numbers of all earlier procs at the address.
	FirstPacket uint64
	// Nonce authenticates a host that adopts the proc. Empty: no adoption.
	Nonce string
}

// Config returns the configuration of an actor's proc. Actors may read and set it. A value set
// there overrides the client's, but not the environment of the proc.
func Config(ctx *actor.Context) *config.Config { return agent.ConfigOf(ctx.Proc()) }

// Join starts a proc as a rank of a mesh, with router and agent. The caller closes the proc, then
// the router.
func Join(ctx context.Context, o Options) (*actor.Proc, *cast.Router, error) {
	registry, err := o.Registry.WithInternal(definition())
	if err != nil {
		return nil, nil, err
	}
	if o.OnLeave == nil {
		o.OnLeave = func(bool) {}
	}
	id := o.Mesh.ProcID(o.Rank, o.Gen)
	if o.Config == nil {
		o.Config = &config.Config{}
	}
	opts := actor.Options{ID: id, Principal: o.Principal, Bus: o.Bus, Space: o.Space, Registry: registry,
		Log: o.Log, Tracer: o.Tracer, Lead: o.Leader, Links: link.Config{FirstSeq: o.FirstPacket},
		Coordinator: func(actor.Event) {}, // the agent observes every end, and its controller decides
	}
	agent.ConfigureProc(&opts, o.Config)
	p, err := actor.NewProc(ctx, opts)
	if err != nil {
		return nil, nil, err
	}
	o.Mesh.NoteIn(p.Members())
	p.Values().Set(busSettingsKey{}, o.Settings)
	agent.SetConfig(p, o.Config)
	agent.SetCommandEnv(p, o.Mesh.Command.With(o.Mesh.RankSpec(o.Rank).Command).Env)
	place := cast.Placement{
		Mesh: o.Mesh.ID, Extent: o.Mesh.Extent, PerHost: o.Mesh.PerHost, PerProcess: o.Mesh.PerProcess,
	}
	router, err := cast.Start(p, &cast.Member{Placement: place, Rank: o.Rank})
	if err == nil {
		var point shape.Point // direct requests to the agent use its rank in the whole mesh
		point, err = o.Mesh.Extent.Point(o.Rank)
		if err == nil {
			_, err = p.Spawn(ctx,
				actor.SpawnSpec{Type: agentType.Name(), Name: agent.Name, Params: params{o.OnLeave, o.Nonce},
					Point: point, Mailbox: agent.MailboxSize})
		}
	}
	if err == nil {
		err = serveMicro(p)
	}
	if err != nil {
		return p, router, fmt.Errorf("start proc %s: %w", id, err)
	}
	return p, router, nil
}

type busSettingsKey struct{}

// BusSettingsOf returns the bus settings of a proc that Join started, otherwise zero.
func BusSettingsOf(p *actor.Proc) agent.BusSettings {
	s, _ := p.Values().Get(busSettingsKey{}).(agent.BusSettings)
	return s
}

var (
	agentType = actor.NewType[agent.Agent, params]("proc-agent")
	// actorEnded is the runtime's report of an actor's end, through the agent's own mailbox.
	actorEnded = actor.NewEndpoint[agent.Agent, actor.Event, actor.None]("observed")
)

// params are the arguments of a proc agent. They never leave the process.
type params struct {
	onLeave func(failed bool)
	nonce   string
}

// procAgent creates and stops the actors of one proc. Its table holds each actor under rank
// tableRank. Replies use the proc's rank in the caller's view.
type procAgent struct {
	proc          *actor.Proc
	table         *agent.Table
	endedActors   []string // ended actors, oldest first
	stopObserving func()
	onLeave       func(failed bool)
	nonce         string
	leaving       bool
	leases        agent.Leases
	maxEnded      int // number of ended actors to remember
}

// tableRank is the rank of every entry in a proc agent's table.
const tableRank = 0

func newAgent(ctx *actor.Context, with params) (agent.Agent, error) {
	p, self := ctx.Proc(), actor.RefOf[agent.Agent](ctx.Self()).Via(ctx.Proc())
	a := &procAgent{
		proc: p, table: agent.NewTable(), onLeave: with.onLeave, nonce: with.nonce,
		maxEnded: config.ProcEndedHistory.Get(agent.ConfigOf(p)),
	}
	a.leases = agent.Leases{Table: a.table, Stop: a.stopActor}
	a.stopObserving = p.Observe(func(e actor.Event) {
		if e.Actor == self.ID().Name || !isOwnEnd(e) {
			return
		}
		if err := actorEnded.Send(context.Background(), self, e); err != nil && !errors.Is(err, actor.ErrStopped) {
			log := p.Log()
			log.Warn().Err(err).Stringer("event", e).Msg("the proc agent missed an event")
		}
	})
	return a, nil
}

// IsRoutine reports whether an order is one of the owner of actors. There may be one for each rank,
// and the owner is audited itself.
func (a *procAgent) IsRoutine(message any) bool {
	s, ok := message.(agent.StopRequest)
	return ok && s.Claim != (agent.Claim{})
}

// isOwnEnd reports whether an event is the end of an actor by itself. An actor that ends with its
// proc does not count: the host reports that end, and the owner restarts the actors with the proc.
func isOwnEnd(e actor.Event) bool {
	return e.Kind == actor.KindActor && e.Terminal() && !e.EndedWithProc()
}

// definition is the actor definition of proc agents.
func definition() actor.Def {
	return agent.PermitRoles(agent.OnProc, agentType.Define(newAgent, methods()...).ResumeOnError())
}

// methods returns the methods of the protocol and of the agent itself.
func methods() []actor.Method[agent.Agent] {
	return append(agent.Methods(),
		actorEnded.Handle(func(a agent.Agent, ctx *actor.Context, e actor.Event) (actor.None, error) {
			a.(*procAgent).onActorEnd(e)
			return actor.None{}, nil
		}), agent.GetConfig.Handle(func(a agent.Agent, _ *actor.Context, _ actor.None) ([]config.Entry, error) {
			return agent.ConfigOf(a.(*procAgent).proc).Entries(), nil
		}), agent.GetMetrics.Handle(func(a agent.Agent, _ *actor.Context, _ actor.None) (agent.Metrics, error) {
			return agent.Metrics{Meshes: []agent.MeshMetrics{agent.ProcMetrics(a.(*procAgent).proc)}}, nil
		}), agent.GetProfile.Handle(func(a agent.Agent, ctx *actor.Context,
			r agent.ProfileRequest) ([]byte, error) {
			return nil, a.(*procAgent).profile(ctx, r)
		}), agent.GetCasts.Handle(func(a agent.Agent, _ *actor.Context, r agent.CastsRequest) (agent.Casts, error) {
			return a.(*procAgent).casts(r)
		}), agent.Readopt.Handle(func(a agent.Agent, ctx *actor.Context,
			r agent.ReadoptRequest) (agent.ReadoptResponse, error) {
			return a.(*procAgent).readopt(ctx, r)
		}))
}

// Create spawns an actor and replies at once. Wait replies once the constructor has returned.
func (a *procAgent) Create(ctx *actor.Context, c agent.CreateRequest) (agent.Overlay, error) {
	switch {
	case c.Actors == nil || c.Procs != nil:
		return nil, errors.New("a proc agent creates actors: want the field actors only")
	case len(c.Ranks) > 0:
		return nil, errors.New("a proc agent has one rank: want no ranks")
	case c.Lease < 0:
		return nil, fmt.Errorf("lease of %s: want more than 0, or 0 for none", c.Lease)
	case a.leaving:
		return nil, fmt.Errorf("proc %s is stopping: it takes no actors", a.proc.ID())
	}
	spec := *c.Actors
	if err := subjects.CheckName("actor", spec.Name); err != nil {
		return nil, err
	}
	hash, err := spec.Fingerprint()
	if err != nil {
		return nil, err
	}
	starts, err := a.table.Create(agent.ResourceSpec{
		ID: spec.Name, Hash: hash, Ranks: []int{tableRank}, Gen: c.Gen, Claim: c.Claim,
		By: ctx.RemoteSender(), Agent: a.proc.ID().String(),
	})
	if err == nil && len(starts) > 0 {
		a.leases.Renew(ctx, spec.Name, c.Lease)
		a.spawnActor(ctx, spec)
	}
	if err == nil && c.Wait {
		return nil, a.table.ReplyWhen(ctx, agent.WaitRequest{ID: spec.Name, Until: agent.Running},
			ctx.Point().Rank())
	}
	return a.table.Overlay(spec.Name).Shift(ctx.Point().Rank()), err
}

// spawnActor spawns an actor. Its constructor may take long.
func (a *procAgent) spawnActor(ctx *actor.Context, spec agent.ActorSpec) {
	s := actor.SpawnSpec{Type: spec.Type, Name: spec.Name, Raw: spec.Params, Point: ctx.Point(), Announce: true}
	if spec.Linked {
		s.Parent = spec.Owner
	}
	made := func(ctx *actor.Context, err error) {
		if err != nil {
			a.recordEnd(spec.Name, agent.Status{Phase: agent.Failed, Reason: err.Error()})
			return
		}
		a.table.Advance(spec.Name, tableRank, agent.Status{Phase: agent.Running}) // no effect after a Stop
	}
	if err := ctx.Spawn(s, made); err != nil {
		made(ctx, err)
	}
}
