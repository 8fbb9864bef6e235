package proc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Options describes a proc that joins a mesh.
type Options struct {
	Bus      *bus.Bus
	Settings agent.BusSettings // how Bus was opened, for what the proc may launch
	Space    subjects.Space
	Registry actor.Registry // what it can run; the agent's own type is added
	Mesh     agent.Mesh
	Rank     int
	Gen      int
	Log      zerolog.Logger
	Config   *config.Config // of what runs in the proc; nil: all defaults

	// First is the proc that has the process, when this is not it; Bus and Space are then its.
	First *actor.Proc
	// Leave is called, once, when the agent has stopped all actors because it was asked to (AGT-8): the
	// proc is to be closed. failed: an actor had failed. Nil: nobody asks.
	Leave func(failed bool)
	// FirstPacket is more than the number of any packet of whoever had the proc's address before.
	FirstPacket uint64
	// Nonce is what a host has to know that adopts the proc. Empty: none may.
	Nonce string
}

// Config is the configuration of the proc that an actor is in. Actors may read it, and set what is to
// count from then on: that goes before what the client pushed, and after the proc's environment.
func Config(ctx *actor.Context) *config.Config { return agent.ConfigOf(ctx.Proc()) }

// Join starts a proc as a rank of a mesh, with its router and its agent. The caller closes the
// proc, then the router.
func Join(ctx context.Context, o Options) (*actor.Proc, *cast.Router, error) {
	registry, err := o.Registry.With(agentType.Made(newAgent, methods()...).Enduring())
	if err != nil {
		return nil, nil, err
	}
	if o.Leave == nil {
		o.Leave = func(bool) {}
	}
	id := o.Mesh.Proc(o.Rank, o.Gen)
	if o.Config == nil {
		o.Config = &config.Config{}
	}
	opts := actor.Options{ID: id, Bus: o.Bus, Space: o.Space, Registry: registry, Log: o.Log, First: o.First,
		Links:       link.Config{First: o.FirstPacket},
		Coordinator: func(actor.Event) {}, // the agent observes every end, and its controller decides
	}
	agent.Configure(&opts, o.Config)
	p, err := actor.NewProc(ctx, opts)
	if err != nil {
		return nil, nil, err
	}
	p.SetValue(settingsKey{}, o.Settings)
	agent.SetConfig(p, o.Config)
	place := cast.Placement{Mesh: o.Mesh.ID, Extent: o.Mesh.Extent, PerHost: o.Mesh.PerHost, PerProcess: o.Mesh.PerProcess}
	router, err := cast.Start(p, &cast.Member{Placement: place, Rank: o.Rank})
	if err == nil {
		var point shape.Point // who asks the agent directly means its place in the whole mesh
		if point, err = o.Mesh.Extent.Point(o.Rank); err == nil {
			_, err = p.Spawn(ctx, actor.Spawning{Type: agentType.Name(), Name: agent.Name, Params: params{o.Leave, o.Nonce}, Point: point, Mailbox: agent.Mailbox})
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

type settingsKey struct{}

// SettingsOf says how a proc that Join has started reaches the bus; the zero settings for others.
func SettingsOf(p *actor.Proc) agent.BusSettings {
	s, _ := p.Value(settingsKey{}).(agent.BusSettings)
	return s
}

var (
	agentType = actor.NewType[agent.Agent, params]("proc-agent")
	// observed is what the proc's runtime tells the agent about an actor, in the agent's own mailbox.
	observed = actor.NewEndpoint[agent.Agent, actor.Event, actor.None]("observed")
)

// params is what a proc agent is made from; it never leaves the process.
type params struct {
	leave func(failed bool)
	nonce string
}

// procAgent creates and stops the actors of one proc. Its table holds each under the one rank
// own; answers speak of the proc's rank in the view that asks, whichever created it.
type procAgent struct {
	proc    *actor.Proc
	table   *agent.Table
	ended   []string // actors that have ended, oldest first
	streams agent.Streams
	release func()
	leave   func(failed bool)
	nonce   string
	leaving bool
	leases  agent.Leases
	kept    int // actors that have ended which it remembers
}

// own is the rank of everything in a proc agent's table.
const own = 0

func newAgent(ctx *actor.Context, with params) (agent.Agent, error) {
	p, self := ctx.Proc(), actor.RefOf[agent.Agent](ctx.Self()).Via(ctx.Proc())
	a := &procAgent{proc: p, table: agent.NewTable(), leave: with.leave, nonce: with.nonce, kept: config.ProcEndedKept.Get(agent.ConfigOf(p))}
	a.leases = agent.Leases{Table: a.table, Stop: a.stop}
	a.release = p.Observe(func(e actor.Event) {
		if e.Actor == self.ID().Name || !isEnd(e) {
			return
		}
		if err := observed.Post(context.Background(), self, e); err != nil && !errors.Is(err, actor.ErrStopped) {
			log := p.Log()
			log.Warn().Err(err).Stringer("event", e).Msg("the proc agent missed an event")
		}
	})
	return a, nil
}

// isEnd reports whether an actor has ended by itself: what else there is to say the table knows. One that ends with its
// proc does not; that is its host's to tell, and whoever starts procs anew starts their actors, too.
func isEnd(e actor.Event) bool { return e.Terminal() && !e.WithProc() }

// methods are those of the protocol and the agent's own.
func methods() []actor.Method[agent.Agent] {
	return append(agent.Methods(), observed.By(func(a agent.Agent, ctx *actor.Context, e actor.Event) (actor.None, error) {
		a.(*procAgent).observe(ctx, e)
		return actor.None{}, nil
	}), agent.Settings.By(func(a agent.Agent, _ *actor.Context, _ actor.None) ([]config.Entry, error) {
		return agent.ConfigOf(a.(*procAgent).proc).Entries(), nil
	}), agent.Readopt.By(func(a agent.Agent, ctx *actor.Context, r agent.Readoption) (agent.Readopted, error) {
		return a.(*procAgent).readopt(ctx, r)
	}))
}

// Create spawns an actor. The answer comes at once; Wait tells when the constructor has returned.
func (a *procAgent) Create(ctx *actor.Context, c agent.Creation) (agent.Overlay, error) {
	switch {
	case c.Actors == nil || c.Procs != nil:
		return nil, errors.New("a proc agent creates actors: want the field actors, and no other")
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
	starts, err := a.table.Create(agent.Making{
		ID: spec.Name, Hash: hash, Ranks: []int{own}, Gen: c.Gen, Claim: c.Claim, At: a.proc.ID().String(),
	})
	if err == nil && len(starts) > 0 {
		a.leases.Keep(ctx, spec.Name, c.Lease)
		a.changed(ctx, spec.Name, actor.Event{})
		a.spawn(ctx, spec)
	}
	if err == nil && c.Wait {
		return nil, a.table.AnswerWhen(ctx, agent.Waiting{ID: spec.Name, Until: agent.Running}, ctx.Point().Rank())
	}
	return a.table.Overlay(spec.Name).Shift(ctx.Point().Rank()), err
}

// spawn makes an actor. Its constructor may take long.
func (a *procAgent) spawn(ctx *actor.Context, spec agent.ActorSpec) {
	s := actor.Spawning{Type: spec.Type, Name: spec.Name, Raw: spec.Params, Point: ctx.Point(), Announce: true}
	made := func(ctx *actor.Context, err error) {
		if err != nil {
			a.end(ctx, spec.Name, agent.Status{Phase: agent.Failed, Reason: err.Error()}, actor.Event{})
			return
		}
		a.advance(ctx, spec.Name, agent.Status{Phase: agent.Running}, actor.Event{}) // not when Stop came before
	}
	if err := ctx.Spawn(s, made); err != nil {
		made(ctx, err)
	}
}

// advance moves an actor's status, and tells the subscribers when it has moved. about is what the
// runtime said about it.
func (a *procAgent) advance(ctx *actor.Context, name string, s agent.Status, about actor.Event) bool {
	moved := a.table.Advance(name, own, s)
	if moved {
		a.changed(ctx, name, about)
	}
	return moved
}

// changed tells the subscribers how an actor is now.
func (a *procAgent) changed(ctx *actor.Context, name string, about actor.Event) {
	if a.streams.Len() > 0 {
		a.streams.Tell(ctx, name, a.event(name, about))
	}
}

// event says how an actor is, as a stream has it: its rank is that of the view that asked.
func (a *procAgent) event(name string, about actor.Event) actor.Event {
	s := a.table.Status(name, own)
	about.Kind, about.Actor, about.Status, about.Reason = actor.KindActor, name, s.Phase.String(), s.Reason
	about.Mesh, about.Rank, about.Gen = a.proc.ID().Mesh.String(), own, int(a.proc.ID().Gen)
	if about.At.IsZero() {
		about.At = time.Now()
	}
	return about
}
