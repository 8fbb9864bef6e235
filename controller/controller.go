package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// spawnReserve is the part of a spawn's deadline that is left for what the caller does besides
	// waiting for ranks.
	spawnReserve = 9
	// leastStop is the least wait for ranks to end, beyond their grace.
	leastStop = 5 * time.Second
	// lastGrace is how long a proc may take to stop before it is killed when the controller itself is
	// going.
	lastGrace = 3 * time.Second
)

// spawnLimit bounds the wait for ranks to run. By default it is longer than hosts wait for a proc to
// become ready, so that their word on each rank arrives.
func (c *controller) spawnLimit() time.Duration {
	deadline := config.MeshSpawnDeadline.Get(c.config)
	limit := deadline - deadline/spawnReserve
	if c.spec.Actors != nil {
		return min(limit, config.ActorSpawnIdle.Get(c.config)) // one answer is all the news there is
	}
	return limit
}

// stopLimit bounds the wait for ranks to end, their grace included.
func (c *controller) stopLimit(grace time.Duration) time.Duration {
	return grace + max(leastStop, config.MeshStopDeadline.Get(c.config)-config.TerminateGrace.Get(c.config))
}

// stopGrace is how long a proc may take to stop before it is killed.
func (c *controller) stopGrace() time.Duration {
	if c.spec.Region.NumRanks() == 1 {
		return config.TerminateSingle.Get(c.config)
	}
	return config.TerminateGrace.Get(c.config)
}

// lease is how long ranks outlive the last word of their controller; 0: for ever.
func (c *controller) lease() time.Duration {
	if c.spec.Lease == 0 {
		return config.SupervisionOrphan.Get(c.config)
	}
	return max(c.spec.Lease, 0)
}

// Type is the actor type of controllers.
var Type = actor.NewType[agent.Agent, Spec]("controller")

// word is something that happened to the mesh. It means nothing when it comes from another process: who may
// say what about whom is decided by the subjects of events.
type word struct{ what any }

// heard is what the bus brings about the mesh, in the controller's own mailbox.
var heard = actor.NewEndpoint[agent.Agent, word, actor.None]("heard")

// Def is the definition of controllers: the registry of whoever makes meshes holds it.
func Def() actor.Def {
	return Type.Made(newOwner, append(agent.Methods(),
		heard.By(func(a agent.Agent, ctx *actor.Context, w word) (actor.None, error) {
			a.(owner).hear(ctx, w.what)
			return actor.None{}, nil
		}),
		Health.By(func(a agent.Agent, ctx *actor.Context, _ actor.None) (Report, error) {
			return a.(owner).report(), nil
		}),
		agent.Vacate.By(servedBy("procs", (*controller).Vacate)), agent.Restart.By(servedBy("procs", (*controller).Restart)),
		agent.Arrive.By(servedBy("actors", (*controller).Arrive)), holdHosts.By(servedBy("hosts", (*hosts).hold)),
		agent.Ends.By(servedBy("procs or actors", (*controller).Ends)).Urgent())...).Enduring()
}

// owner is a controller, whatever its mesh is of.
type owner interface {
	agent.Agent
	hear(ctx *actor.Context, what any)
	report() Report
}

func newOwner(ctx *actor.Context, s Spec) (agent.Agent, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Hosts {
		return newHosts(ctx, s)
	}
	return newController(ctx, s)
}

// servedBy binds what the controllers of some meshes alone can do.
func servedBy[C owner, In, Out any](meshes string, f func(C, *actor.Context, In) (Out, error)) func(agent.Agent, *actor.Context, In) (Out, error) {
	return func(a agent.Agent, ctx *actor.Context, in In) (out Out, err error) {
		c, is := a.(C)
		if !is {
			return out, fmt.Errorf("mesh %s cannot be asked for that: want one of %s", a.(owner).report().ID, meshes)
		}
		return f(c, ctx, in)
	}
}

// controller is the actor of a mesh of procs or actors.
type controller struct {
	*state
	speaker
	config    *config.Config
	sub       *bus.Sub // to events of actors; nil: it has none
	deafen    func()   // ends the events of procs
	unwatch   func()   // lets go of the hosts' presence
	started   bool
	up        bool      // every rank has run
	leaving   bool      // everything is being stopped, and then it ends
	alarm     time.Time // when it will hear that something is due; zero: never
	renewal   time.Time // when leases are to be renewed next
	stalls    int       // renewals that came much too late
	restarted int       // ranks that were started anew

	asking   map[subjects.HostID]bool                             // dead hosts whose procs are being asked, or will be
	emptied  map[subjects.HostID][]*actor.Deferred[agent.Vacated] // who waits for a host to be emptied
	rolls    []rolling
	arrivals []arrival
}

// newController follows the mesh's events, so that nothing that is created later goes unheard (CTL-1).
func newController(ctx *actor.Context, s Spec) (agent.Agent, error) {
	s.Procs.Owner = ctx.Self()
	if s.Actors != nil {
		spec := *s.Actors
		spec.Owner = ctx.Self()
		s.Actors = &spec
	}
	s.Policy.Spares = anyOrder(s.Policy.Spares)
	st, err := newState(s)
	if err != nil {
		return nil, err
	}
	c := &controller{
		state: st, speaker: newSpeaker(st.record, st.phase), config: agent.ConfigOf(ctx.Proc()), unwatch: func() {}, deafen: func() {},
		asking: map[subjects.HostID]bool{}, emptied: map[subjects.HostID][]*actor.Deferred[agent.Vacated]{},
	}
	c.heldFor = config.SupervisionHeld.Get(c.config)
	p, self := ctx.Proc(), actor.RefOf[agent.Agent](ctx.Self()).Via(ctx.Proc())
	hear := func(e actor.Event) {
		if !e.Terminal() && e.Status != string(actor.Running) && e.Step != agent.Moving { // nothing else changes a status
			return
		}
		if err := heard.Post(context.Background(), self, word{e}); err != nil && !errors.Is(err, actor.ErrStopped) {
			log := p.Log()
			log.Warn().Err(err).Stringer("event", e).Msg("a controller missed an event")
		}
	}
	if err := c.follow(p, hear); err != nil {
		c.unsubscribe()
		return nil, fmt.Errorf("follow mesh %s: %w", s.Procs.ID, err)
	}
	c.inhabit(p)
	c.watchHosts(p, self)
	return c, nil
}

// follow has the controller hear of the procs of the mesh and of its actors, in the order of the events.
func (c *controller) follow(p *actor.Proc, hear func(actor.Event)) error {
	ranks := c.spec.Procs.Extent.NumRanks()
	deafen, err := p.ListenProcs(c.spec.Procs.ID, ranks, hear)
	if err != nil {
		return err
	}
	c.deafen = deafen
	if c.spec.Actors == nil {
		return nil
	}
	subject := p.Space().ActorEvents(actor.KindActor, c.spec.Procs.ID, c.spec.Actors.Name)
	c.sub, err = p.Bus().Control().Subscribe(subject, func(m bus.Msg) {
		e, err := actor.OpenEvent(p.Space(), m)
		if err != nil {
			log := p.Log()
			log.Warn().Err(err).Str("subject", m.Subject).Msg("a controller missed an event")
			return
		}
		if e, in := e.Within(ranks); in {
			hear(e)
		}
	})
	return err
}

// inhabit notes which procs the actors will be in, where these are not the first of their rank.
func (c *controller) inhabit(p *actor.Proc) {
	if c.spec.Actors == nil || p.Changes(c.spec.Procs.ID) == 0 {
		return
	}
	for rank := range c.spec.Region.NumRanks() {
		_, base := c.host(rank)
		if now, later := p.Successor(c.spec.Procs.Proc(base, 0)); later {
			c.seat(rank).inhabit(now)
		}
	}
}

// watchHosts has the controller hear how the mesh's hosts are, and those that may take their place.
func (c *controller) watchHosts(p *actor.Proc, self actor.Ref[agent.Agent]) {
	hosts := slices.Concat(c.spec.Procs.Hosts, c.spec.Policy.Spares)
	c.unwatch = c.spec.watch(p, self, slices.DeleteFunc(hosts, func(h subjects.HostID) bool { return !h.IsValid() })) // a world may lack some
}

// hear takes what has happened, and does what follows from it.
func (c *controller) hear(ctx *actor.Context, what any) {
	defer c.progress(ctx)
	x := c.step(what, time.Now())
	for _, e := range x.lost {
		p := ctx.Proc()
		p.Bus().Data().AfterReceived(func() { p.MarkDown(e) }) // what they said before comes first
		ctx.Proc().Emit(e)
	}
	for _, e := range x.news {
		if log := ctx.Log(); e.Failed() || e.Step == "rank.restart.attempt" || e.Step == agent.Fencing {
			log.Warn().Msg(e.String())
		}
		if strings.HasPrefix(e.Step, "rank.") || e.Step == agent.Fencing { // its own; other steps are what a host has told
			c.tellRank(ctx, e)
		}
		if e.Kind == actor.KindProc && e.Status == string(actor.Running) {
			ctx.Proc().Learn(e) // its host says so, too, but that may be lost with a connection
		}
		c.streams.Tell(ctx, c.spec.id(), e)
	}
	c.raise(ctx, x.failures)
	c.startAgain(ctx, x.starts)
	for _, l := range x.leaves {
		c.leave(ctx, l)
	}
	for _, f := range x.follows {
		c.await(ctx, f)
	}
	c.answerVacated(x.vacated)
	c.answerRolled(x.rolled)
	c.answerArrivals()
	for _, h := range x.strays {
		c.stopStrays(ctx, h)
	}
	for _, h := range x.asks {
		c.askKept(ctx, h)
	}
	c.arrange(ctx, x.wake)
	if c.over() {
		c.unsubscribe() // there is nothing left to hear
	}
}

// arrange has the controller hear when something is due.
func (c *controller) arrange(ctx *actor.Context, at time.Time) {
	if at.IsZero() || !c.alarm.IsZero() && !at.Before(c.alarm) {
		return
	}
	c.alarm = at
	ctx.After(max(0, time.Until(at)), func(ctx *actor.Context) {
		if c.alarm.Equal(at) {
			c.alarm = time.Time{}
			c.hear(ctx, due{})
		}
	})
}

// progress tells on `ev.` when the mesh has come up, failed to, or stopped.
func (c *controller) progress(ctx *actor.Context) {
	for _, s := range c.steps() {
		c.up = c.up || s.name == "mesh.spawn.success"
		c.tell(ctx, s.name, s.reason)
	}
}

func (c *controller) tell(ctx *actor.Context, step, reason string) {
	ctx.Proc().Emit(actor.Event{
		Kind: actor.KindMesh, Step: step, Status: c.phase().String(), Reason: reason, Mesh: c.spec.Procs.ID.String(),
		Actor: c.spec.actors(), Name: c.spec.Name, Count: c.spec.Region.NumRanks(), At: time.Now(),
	})
}

// tellRank tells on `ev.` what became of one rank, as news of the mesh.
func (c *controller) tellRank(ctx *actor.Context, e actor.Event) {
	e.Kind = actor.KindMesh
	ctx.Proc().Emit(e)
}

// Create starts the mesh, or takes it over: one message per host (CTL-2). The second time it does nothing.
func (c *controller) Create(ctx *actor.Context, _ agent.Creation) (agent.Overlay, error) {
	if c.leaving {
		return nil, fmt.Errorf("the controller of %s is stopping: it creates nothing", c.spec.id())
	}
	if !c.started {
		c.started = true
		if c.spec.Take {
			c.takeAll(ctx)
		} else {
			c.tell(ctx, "mesh.spawn.attempt", "")
			c.each(ctx, c.create, c.notCreated)
		}
		c.askSpares(ctx, func(*actor.Context) {})
		c.renew(ctx)
	}
	return c.table.Overlay(c.spec.id()), nil
}

// shares are the tasks that an operation on the mesh takes: one per host, or one over the cast road.
func (c *controller) shares() []int {
	shares := make([]int, 1, len(c.spec.Procs.Hosts))
	if c.spec.Actors != nil {
		return shares
	}
	for host := 1; host < len(c.spec.Procs.Hosts); host++ {
		shares = append(shares, host)
	}
	return shares
}

// each runs a task per share of the mesh, and per host that is being emptied, all at the same time. What they bring is heard on the
// turn, and what went wrong is told to failed.
func (c *controller) each(ctx *actor.Context, t task, failed func(ctx *actor.Context, host int, err error)) {
	p := ctx.Proc()
	for _, at := range c.places(c.shares()) {
		asked := c.ask()
		ctx.Go(func(work context.Context) func(*actor.Context) {
			o, err := t(work, p, at.mesh, at.host)
			return func(ctx *actor.Context) {
				c.hear(ctx, answer{asked, o, at.behind})
				if err != nil && !c.refused(ctx, err) {
					failed(ctx, at.host, err)
				}
			}
		})
	}
}

// notCreated takes the error of a creation (CTL-5).
func (c *controller) notCreated(ctx *actor.Context, host int, err error) {
	c.hear(ctx, failure{host, err})
}

// notStopped takes the error of a stop: whoever asked sees which ranks are left.
func (c *controller) notStopped(ctx *actor.Context, host int, err error) {
	log := ctx.Log()
	log.Warn().Err(err).Str("mesh", c.spec.id()).Int("host", host).Msg("not told that all ranks have stopped")
}

func (c *controller) unsubscribe() {
	if c.sub != nil {
		_ = c.sub.Unsubscribe() // it fails when the connection is gone: nothing comes any more either way
	}
	c.deafen()
	c.unwatch()
	c.unwatch = func() {}
}

// Cleanup stops the mesh before its controller goes (CTL-4). Its owner has not, and the log says so.
func (c *controller) Cleanup(ctx *actor.Context, why error) error {
	defer c.unsubscribe()
	if !c.started || c.over() || c.spec.leaves() {
		return nil
	}
	log := ctx.Log()
	log.Info().AnErr("why", why).Str("mesh", c.spec.id()).Int("ranks", c.table.Alive()).Msg("its owner ends and has not stopped it: stopping it")
	const reason = "its controller stops"
	c.begin(ctx, reason)
	p, places := ctx.Proc(), c.places(c.shares())
	type result struct {
		at  place
		o   agent.Overlay
		err error
	}
	results := make(chan result, len(places))
	for _, at := range places {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 2*lastGrace)
			defer cancel()
			s := agent.Stopping{ID: c.spec.id(), Reason: reason, Grace: lastGrace, Claim: c.spec.claim()}
			o, err := c.stop(ctx, p, at.mesh, at.host, s)
			results <- result{at, o, err}
		}()
	}
	for range places {
		r := <-results
		c.hear(ctx, answer{c.ask(), r.o, r.at.behind})
		if r.err != nil {
			c.notStopped(ctx, r.at.host, r.err)
		}
	}
	return nil
}
