package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// spawnReserve divides a spawn's deadline: this part remains for the caller's work besides the
	// wait for ranks.
	spawnReserve = 9
	// minStopWait is the least wait for ranks to end, beyond their grace.
	minStopWait = 5 * time.Second
	// closingGrace is the time for a proc to stop before it is killed when the controller
	// itself ends.
	closingGrace = 3 * time.Second
)

// spawnLimit bounds the wait for ranks to run. By default it exceeds the hosts' wait for a ready
// proc, so that their report on each rank arrives.
func (o orders) spawnLimit() time.Duration {
	deadline := config.MeshSpawnTimeout.Get(o.config)
	limit := deadline - deadline/spawnReserve
	if o.mesh.Actors != nil {
		return min(limit, config.ActorSpawnProgressTimeout.Get(o.config)) // one reply reports all ranks
	}
	return limit
}

// stopLimit bounds the wait for ranks to end, their grace included.
func (o orders) stopLimit(grace time.Duration) time.Duration {
	return grace + max(minStopWait, config.MeshStopTimeout.Get(o.config)-config.TerminateGrace.Get(o.config))
}

// stopGrace is the time for a proc to stop before it is killed.
func (o orders) stopGrace() time.Duration {
	if o.mesh.Region.NumRanks() == 1 {
		return config.TerminateGraceSingle.Get(o.config)
	}
	return config.TerminateGrace.Get(o.config)
}

// lease is the time for which ranks outlive the last renewal by their controller; 0: for ever.
func (o orders) lease() time.Duration {
	if o.mesh.Lease == 0 {
		return config.SupervisionLeaseTTL.Get(o.config)
	}
	return max(o.mesh.Lease, 0)
}

// Type is the actor type of controllers.
var Type = actor.NewType[agent.Agent, Spec]("controller")

// notification is an event of the mesh, from the controller's own process only (AGT-13).
type notification struct{ event any }

// notify puts events from the bus into the controller's own mailbox.
var notify = actor.NewEndpoint[agent.Agent, notification, actor.None]("heard")

// Def is the definition of controllers. The registry of every program that makes meshes holds it.
func Def() actor.Def {
	return agent.PermitRoles(agent.OnController, Type.Define(newMeshController, append(agent.Methods(),
		notify.Handle(func(a agent.Agent, ctx *actor.Context, w notification) (actor.None, error) {
			a.(meshController).handle(ctx, w.event)
			return actor.None{}, nil
		}),
		Health.Handle(func(a agent.Agent, ctx *actor.Context, _ actor.None) (Report, error) {
			return a.(meshController).report(), nil
		}),
		agent.Evacuate.Handle(onlyFor("procs", (*controller).Evacuate)).Audited(),
		agent.Restart.Handle(onlyFor("procs", (*controller).Restart)).Audited(),
		agent.Resize.Handle(onlyFor("procs", (*controller).Resize)).Audited(),
		agent.Invite.Handle(onlyFor("procs", (*controller).Invite)).Audited(),
		agent.Join.Handle(onlyFor("procs", (*controller).Join)).Audited(),
		agent.Revision.Handle(onlyFor("procs", (*controller).Revision)),
		agent.Follow.Handle(onlyFor("actors", (*controller).Follow)),
		agent.AwaitActor.Handle(onlyFor("actors", (*controller).Arrive)),
		allocateHosts.Handle(onlyFor("hosts", (*hostsController).holdAllocation)),
		agent.ListEvents.Handle(listEvents).Urgent())...).ResumeOnError())
}

func listEvents(a agent.Agent, _ *actor.Context, q agent.ListEventsRequest) (agent.EventList, error) {
	return a.(meshController).listEvents(q)
}

// meshController is the controller of a mesh of any kind.
type meshController interface {
	agent.Agent
	handle(ctx *actor.Context, what any)
	report() Report
	listEvents(q agent.ListEventsRequest) (agent.EventList, error)
}

func newMeshController(ctx *actor.Context, s Spec) (agent.Agent, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Hosts {
		return newHostsController(ctx, s)
	}
	return newController(ctx, s)
}

// onlyFor binds an endpoint that only the controllers of some meshes have.
func onlyFor[C meshController, In, Out any](
	meshes string, f func(C, *actor.Context, In) (Out, error),
) func(agent.Agent, *actor.Context, In) (Out, error) {
	return func(a agent.Agent, ctx *actor.Context, in In) (out Out, err error) {
		c, is := a.(C)
		if !is {
			return out, fmt.Errorf("mesh %s does not have this endpoint: want a mesh of %s",
				a.(meshController).report().ID, meshes)
		}
		return f(c, ctx, in)
	}
}

// controller is the actor of a mesh of procs or actors.
type controller struct {
	*state
	recordServer
	orders
	sub              *bus.Sub // events of actors; nil: a mesh of procs
	unsubscribeProcs func()   // ends the events of procs
	unwatch          func()   // ends the subscription to the hosts' presence
	started          bool
	everRan          bool      // every rank has run
	shuttingDown     bool      // StopAll: the controller ends after its mesh
	nextWake         time.Time // of the next timerFired; zero: none is scheduled
	nextRenewal      time.Time
	stalls           int // renewals that were a whole period late
	restarts         int // of ranks

	shrunk bool // the last change removed hosts; owners of actors may have missed it

	informed map[subjects.HostID]int // the revision of the mesh that a host knows

	orphanChecks      map[subjects.HostID]bool // dead hosts whose procs are probed
	evacuationWaiters map[subjects.HostID][]*actor.Deferred[agent.EvacuateResponse]
	restartWaiters    []restartWaiter
	actorWaiters      []actorWaiter
}

// newController subscribes to the mesh's events before anything is created (CTL-3).
func newController(ctx *actor.Context, s Spec) (agent.Agent, error) {
	if s.Actors == nil {
		s.Procs.Owner = ctx.Self()
	}
	s.Procs.NoteIn(ctx.Proc().Members())
	s.Procs.Owner = ctx.Self()
	if s.Actors != nil {
		spec := *s.Actors
		spec.Owner = ctx.Self()
		s.Actors = &spec
	}
	s.RestartPolicy.Spares = shuffled(s.RestartPolicy.Spares)
	st, err := newState(s)
	if err != nil {
		return nil, err
	}
	c := &controller{
		state:             st,
		recordServer:      newRecordServer(st.meshRecord, st.phase),
		orders:            orders{new(st.spec), agent.ConfigOf(ctx.Proc())},
		informed:          map[subjects.HostID]int{},
		unwatch:           func() {},
		unsubscribeProcs:  func() {},
		orphanChecks:      map[subjects.HostID]bool{},
		evacuationWaiters: map[subjects.HostID][]*actor.Deferred[agent.EvacuateResponse]{},
	}
	c.procTimeout = config.SupervisionRestartWait.Get(c.config)
	p := ctx.Proc()
	self := actor.RefOf[agent.Agent](ctx.Self()).Via(p)
	hear := func(e actor.Event) {
		// No other event changes a status.
		if !e.Terminal() && e.Status != string(actor.Running) && e.Step != agent.StepMoveAttempt {
			return
		}
		err := notify.Send(context.Background(), self, notification{e})
		if err != nil && !isEnded(err) {
			log := p.Log()
			log.Warn().Err(err).Stringer("event", e).Msg("the controller missed an event")
		}
	}
	if err := c.subscribeEvents(p, hear); err != nil {
		c.unsubscribe()
		return nil, fmt.Errorf("cannot subscribe to events of mesh %s: %w", s.Procs.ID, err)
	}
	c.assignProcs(p, 0)
	c.watchHosts(p, self)
	return c, nil
}

// isEnded reports whether a message failed because the controller has ended.
func isEnded(err error) bool {
	return errors.Is(err, actor.ErrStopped) || errors.Is(err, actor.ErrFailed)
}

// subscribeEvents passes the events of the mesh's procs and actors to hear, in their order.
func (c *controller) subscribeEvents(p *actor.Proc, hear func(actor.Event)) error {
	ranks := c.spec.Procs.Extent.NumRanks()
	deafen, err := p.Members().ListenProcs(c.spec.Procs.ID, ranks, hear)
	if err != nil {
		return err
	}
	c.unsubscribeProcs = deafen
	if c.spec.Actors == nil {
		return nil
	}
	subject := p.Space().ActorEvents(actor.KindActor, c.spec.Procs.ID, c.spec.Actors.Name)
	c.sub, err = p.Bus().Control().Subscribe(subject, func(m bus.Msg) {
		e, err := actor.DecodeEventFrom(p.Space(), m)
		if err != nil {
			log := p.Log()
			log.Warn().Err(err).Str("subject", m.Subject).Msg("the controller missed an event")
			return
		}
		hear(e)
	})
	return err
}

// assignProcs records the procs of the actors, from a rank on, whose procs are past their first
// generation.
func (c *controller) assignProcs(p *actor.Proc, first int) {
	if c.spec.Actors == nil || p.Members().ChangeCount(c.spec.Procs.ID) == 0 {
		return
	}
	for rank := first; rank < c.spec.Region.NumRanks(); rank++ {
		_, base := c.hostIndex(rank)
		if now, later := p.Members().Successor(c.spec.Procs.ProcID(base, 0)); later {
			c.rankState(rank).assignProc(now)
		}
	}
}

// watchHosts subscribes the controller to the health of the mesh's hosts and its spares, and of the
// hosts where ranks of it may still run.
func (c *controller) watchHosts(p *actor.Proc, self actor.Ref[agent.Agent]) {
	hosts := slices.Concat(c.spec.Procs.Hosts, c.spec.RestartPolicy.Spares, c.spares.hosts, c.evacuatingHosts(),
		slices.SortedFunc(maps.Keys(c.diedHosts), compareHosts))
	// A world may lack hosts.
	hosts = slices.DeleteFunc(hosts, func(h subjects.HostID) bool { return !h.IsValid() })
	c.unwatch = c.spec.watch(p, self, hosts)
}

// handle applies an event and runs its effects.
func (c *controller) handle(ctx *actor.Context, what any) {
	defer c.emitProgress(ctx)
	if h, ok := what.(hostChange); ok && h.State != presence.Alive {
		delete(c.informed, h.Host) // a next incarnation may have an earlier description
	}
	x := c.step(what, time.Now())
	for _, e := range x.procEnds {
		ctx.Proc().Members().NoteEnd(e)
		ctx.Proc().Emit(e)
	}
	for _, e := range x.events {
		logEvent(ctx, e)
		if e.Kind == actor.KindProc && e.Status == string(actor.Running) {
			ctx.Proc().Members().NoteGeneration(e) // the host's own event may be lost with a connection
		}
	}
	c.publish(ctx, x.events)
	c.escalate(ctx, x.failures)
	c.restartRanks(ctx, x.starts)
	for _, l := range x.departures {
		c.stopForMove(ctx, l)
	}
	for _, f := range x.actorWaits {
		c.awaitActors(ctx, f)
	}
	c.answerEvacuated(x.evacuated)
	c.answerRestarted(x.restarted)
	c.answerActorWaiters()
	for _, h := range x.staleHosts {
		c.stopStale(ctx, h)
	}
	for _, rank := range x.lateStarts {
		c.stopLate(ctx, rank)
	}
	for _, h := range x.orphanHosts {
		c.checkOrphans(ctx, h)
	}
	for _, h := range x.newHostds {
		c.renewAtNewHostd(ctx, h)
	}
	c.scheduleWake(ctx, x.wake)
	if c.started && c.isOver() {
		c.unsubscribe()
		if over := c.spec.OnOver; over != nil {
			c.spec.OnOver = nil
			ctx.After(2*watchGrace, func(*actor.Context) { over() }) // its failures go first (CTL-19)
		}
	}
}

// logEvent logs the failures and restarts of ranks, and the loss of the mesh to another owner.
func logEvent(ctx *actor.Context, e actor.Event) {
	restarts := e.Step == "rank.restart.attempt"
	if restarts {
		e.Status = "restarts" // it is initializing again
	}
	if log := ctx.Log(); restarts || e.Failed() || e.Step == agent.StepFenced {
		log.Warn().Msg(e.String())
	}
}

// scheduleWake schedules the next timerFired.
func (c *controller) scheduleWake(ctx *actor.Context, at time.Time) {
	if at.IsZero() || !c.nextWake.IsZero() && !at.Before(c.nextWake) {
		return
	}
	c.nextWake = at
	ctx.After(max(0, time.Until(at)), func(ctx *actor.Context) {
		if c.nextWake.Equal(at) {
			c.nextWake = time.Time{}
			c.handle(ctx, timerFired{})
		}
	})
}

// emitProgress publishes on `ev.` that the mesh started, failed to start, or stopped.
func (c *controller) emitProgress(ctx *actor.Context) {
	for _, s := range c.newMeshSteps() {
		c.everRan = c.everRan || s.name == "mesh.spawn.success"
		c.emit(ctx, s.name, s.reason)
	}
}

func (c *controller) emit(ctx *actor.Context, step, reason string) {
	ctx.Proc().Emit(actor.Event{
		Kind: actor.KindMesh, Step: step, Status: c.phase().String(), Reason: reason,
		Mesh: c.spec.Procs.ID.String(), Actor: c.spec.actors(), Name: c.spec.Name,
		Count: c.spec.Region.NumRanks(), At: time.Now(),
	})
}

// publish reports changes of ranks on `ev.`.
func (c *controller) publish(ctx *actor.Context, events []actor.Event) {
	for _, e := range agent.JoinRuns(events) {
		e.Kind = actor.KindRank
		ctx.Proc().Emit(e)
	}
}

// Create starts the mesh, or takes it over: one message per host (CTL-2). A repeated Create does
// nothing.
func (c *controller) Create(ctx *actor.Context, _ agent.CreateRequest) (agent.Overlay, error) {
	if c.shuttingDown {
		return nil, fmt.Errorf("cannot create mesh %s: its controller is stopping", c.spec.id())
	}
	if !c.started {
		c.started = true
		if c.spec.TakeOver {
			c.takeOverMesh(ctx)
		} else {
			c.emit(ctx, "mesh.spawn.attempt", "")
			c.forEachShare(ctx, c.shares(), c.create, c.onCreateError, nil)
		}
		c.askSpares(ctx, func(*actor.Context) {})
		c.renew(ctx)
	}
	return c.table.Overlay(c.spec.id()), nil
}

// shares returns the tasks of an operation on the mesh: one per host, or a single cast.
func (r *meshRecord) shares() []int {
	shares := make([]int, 1, len(r.spec.Procs.Hosts))
	if r.spec.Actors != nil {
		return shares
	}
	for host := 1; host < len(r.spec.Procs.Hosts); host++ {
		shares = append(shares, host)
	}
	return shares
}

// forEachShare runs a task per share, and per host under evacuation, concurrently. Results arrive
// on the turn; failed gets the errors. It returns the number of tasks; answered is called after the
// result of each, unless it is nil.
func (c *controller) forEachShare(ctx *actor.Context, shares []int, t task,
	failed func(ctx *actor.Context, host int, err error), answered func(*actor.Context)) (tasks int) {
	p := ctx.Proc()
	places := c.locations(shares)
	for _, at := range places {
		asked := c.newRequest(at)
		ctx.Go(func(work context.Context) func(*actor.Context) {
			o, err := t(work, p, at.mesh, at.host)
			return func(ctx *actor.Context) {
				c.handle(ctx, asked.answered(o, err))
				if err != nil && !c.checkFenced(ctx, err) {
					failed(ctx, at.host, err)
				}
				if answered != nil {
					answered(ctx)
				}
			}
		})
	}
	return len(places)
}

// onCreateError handles the error of a creation (CTL-8).
func (c *controller) onCreateError(ctx *actor.Context, host int, err error) {
	c.handle(ctx, createFailure{host: host, err: err})
}

// logStopError logs the error of a stop. The caller sees the remaining ranks.
func (c *controller) logStopError(ctx *actor.Context, host int, err error) {
	log := ctx.Log()
	log.Warn().Err(err).Str("mesh", c.spec.id()).Int("host", host).Msg("cannot confirm that all ranks stopped")
}

func (c *controller) unsubscribe() {
	if c.sub != nil {
		_ = c.sub.Unsubscribe() // an error means that the connection, and thus the subscription, is gone
	}
	c.unsubscribeProcs()
	c.unwatch()
	c.unwatch = func() {}
}

// Cleanup stops the mesh before its controller ends (CTL-4). The owner did not stop it, so the log
// reports it.
func (c *controller) Cleanup(ctx *actor.Context, why error) error {
	defer c.unsubscribe()
	if !c.started || c.isOver() || c.spec.keepsOnStop() {
		return nil
	}
	log := ctx.Log()
	log.Info().AnErr("cause", why).Str("mesh", c.spec.id()).Int("ranks", c.table.CountAlive()).
		Msg("stopping the mesh: its owner ended without a Stop")
	const reason = "its controller is stopping"
	c.announceStop(ctx, reason)
	p := ctx.Proc()
	places := c.locations(c.shares())
	type result struct {
		at  location
		o   agent.Overlay
		err error
	}
	results := make(chan result, len(places))
	for _, at := range places {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 2*closingGrace)
			defer cancel()
			s := agent.StopRequest{ID: c.spec.id(), Reason: reason, Grace: closingGrace, Claim: c.spec.claim()}
			o, err := c.stop(ctx, p, at.mesh, at.host, s)
			results <- result{at, o, err}
		}()
	}
	for range places {
		r := <-results
		c.handle(ctx, agentAnswer{agentRequest{serial: c.nextSerial(), evacuating: r.at.evacuating}, r.o})
		if r.err != nil {
			c.logStopError(ctx, r.at.host, r.err)
		}
	}
	return nil
}
