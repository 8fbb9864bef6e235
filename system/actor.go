package system

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// actorName is the name of the actor in its proc.
const actorName = "system"

// Type is the actor type of system controllers. Only a Service starts them.
var Type = actor.NewType[*Controller, term]("system-controller")

// Endpoints of a system controller. A self-joined proc sends a Heartbeat. A program may send
// SuspectProc for a proc after a dead letter from it (ReportDeadLetter).
var (
	Upsert      = actor.NewEndpoint[*Controller, UpsertRequest, UpsertResponse]("upsert")
	Join        = actor.NewEndpoint[*Controller, JoinRequest, JoinResponse]("join")
	Leave       = actor.NewEndpoint[*Controller, LeaveRequest, actor.None]("leave")
	Heartbeat   = actor.NewEndpoint[*Controller, HeartbeatRequest, actor.None]("heartbeat")
	SuspectProc = actor.NewEndpoint[*Controller, subjects.ProcID, actor.None]("suspect")
	GetSnapshot = actor.NewEndpoint[*Controller, Filter, Snapshot]("snapshot")
	GetHealth   = actor.NewEndpoint[*Controller, string, *WorldHealth]("health")
	Stop        = actor.NewEndpoint[*Controller, StopRequest, StopResponse]("stop")
	Locate      = actor.NewEndpoint[*Controller, string, Location]("locate")
	Detach      = actor.NewEndpoint[*Controller, DetachRequest, DetachResponse]("detach")
	Adopt       = actor.NewEndpoint[*Controller, AdoptRequest, AdoptResponse]("adopt")
	Confirm     = actor.NewEndpoint[*Controller, AdoptRequest, actor.None]("confirm")
	Reserve     = actor.NewEndpoint[*Controller, NameReservation, actor.None]("reserve")
	Release     = actor.NewEndpoint[*Controller, NameReservation, actor.None]("release")
	Failures    = actor.NewEndpoint[*Controller, actor.None, []actor.Event]("failures")

	// procEvents and hostChanges put events of procs and hosts from the bus into the controller's
	// own mailbox.
	procEvents  = actor.NewEndpoint[*Controller, actor.Event, actor.None]("heard")
	hostChanges = actor.NewEndpoint[*Controller, presence.Change, actor.None]("known")
)

// WorldHealth is the unhealthy procs of a world. An unknown world has none.
type WorldHealth struct {
	Unhealthy []ProcState `cbor:"1,keyasint" json:"unhealthy"`
}

func def() actor.Def {
	return Type.Define(newController,
		Upsert.Handle(func(c *Controller, ctx *actor.Context, d UpsertRequest) (r UpsertResponse, err error) {
			mesh, err := subjects.NewMeshID(d.Spec.Name)
			if err == nil {
				c.handle(ctx, upsert{newCaller[UpsertResponse](ctx), d, mesh})
			}
			return r, err
		}).Audited(),
		Leave.Handle(func(c *Controller, ctx *actor.Context, l LeaveRequest) (r actor.None, err error) {
			if err := checkMember(ctx, l); err != nil {
				return r, err
			}
			if l.Host != nil {
				c.names.dropJoins(*l.Host)
			}
			c.handle(ctx, leave{newCaller[actor.None](ctx), l})
			return r, nil
		}).Audited(),
		eventHandler(Join, func(from caller, j JoinRequest) any { return join{from, j} }),
		eventHandler(Heartbeat, func(from caller, h HeartbeatRequest) any { return heartbeat{from, h} }),
		Detach.Handle(func(c *Controller, ctx *actor.Context, d DetachRequest) (r DetachResponse, err error) {
			if err = checkClaimant(ctx, d.Mesh, d.Claim); err == nil {
				c.handle(ctx, detach{newCaller[DetachResponse](ctx), ctx.RemoteSender(), d})
			}
			return r, err
		}).Audited(),
		Adopt.Handle(func(c *Controller, ctx *actor.Context, a AdoptRequest) (r AdoptResponse, err error) {
			if err = checkClaimant(ctx, a.Mesh, a.Claim); err == nil {
				c.handle(ctx, adopt{newCaller[AdoptResponse](ctx), ctx.RemoteSender(), a})
			}
			return r, err
		}).Audited(),
		Confirm.Handle(func(c *Controller, ctx *actor.Context, a AdoptRequest) (r actor.None, err error) {
			if err = checkClaimant(ctx, a.Mesh, a.Claim); err == nil {
				c.handle(ctx, confirm{newCaller[actor.None](ctx), a})
			}
			return r, err
		}).Audited(),
		eventHandler(Reserve, func(from caller, r NameReservation) any { return reserve{from, r} }),
		eventHandler(Release, func(from caller, r NameReservation) any { return release{from, r} }),
		eventHandler(Stop, func(from caller, s StopRequest) any { return stop{from, s} }).Audited(),
		eventHandler(GetSnapshot, func(from caller, f Filter) any { return getSnapshot{from, f} }).Urgent(),
		eventHandler(GetHealth, func(from caller, world string) any { return getHealth{from, world} }),
		eventHandler(Locate, func(from caller, what string) any { return locate{from, what} }),
		Failures.Handle(func(c *Controller, _ *actor.Context, _ actor.None) ([]actor.Event, error) {
			return c.service.past.list(), nil
		}),
		SuspectProc.Handle((*Controller).suspect),
		procEvents.Handle((*Controller).handleEvent),
		hostChanges.Handle((*Controller).handleHostChange),
	).ResumeOnError().Permit(rolesOf)
}

// eventHandler handles an endpoint by an event of the core. The core replies, once all that it has
// decided is saved.
func eventHandler[M, R any](
	e actor.Endpoint[*Controller, M, R], event func(from caller, m M) any,
) actor.Method[*Controller] {
	return e.Handle(func(c *Controller, ctx *actor.Context, m M) (r R, err error) {
		c.handle(ctx, event(newCaller[R](ctx), m))
		return r, nil
	})
}

// deferredReply is the caller of an endpoint.
type deferredReply[R any] struct{ to *actor.Deferred[R] }

// newCaller defers the reply to the present message.
func newCaller[R any](ctx *actor.Context) caller { return deferredReply[R]{actor.Defer[R](ctx)} }

func (d deferredReply[R]) reply(v any, err error) {
	r, _ := v.(R)
	d.to.Reply(r, err)
}

// term is the parameter of a controller. The controller acts until it loses the lease or ends its
// term itself.
type term struct {
	service         *Service
	epoch           uint64
	records         records
	inventories     []inventory // of hosts, if the bucket is new
	directSuccessor bool
	ready           *termEnd
	hosts           *presence.Watcher
	renewer         *controller.LeaseRenewer
}

// termEnd is the controller's report that its term is over.
type termEnd struct {
	once  sync.Once
	done  chan struct{}
	err   error
	floor uint64 // an epoch known to hosts; the next term has a later one
	quit  bool   // the whole system was stopped
}

func (r *termEnd) set(why error, floor uint64, quit bool) {
	r.once.Do(func() {
		r.err = why
		r.floor = floor
		r.quit = quit
		close(r.done)
	})
}

// meshSet is a set of mesh IDs, safe for concurrent use.
type meshSet struct {
	mu  sync.Mutex
	all map[string]bool
}

func (s *meshSet) has(mesh string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[mesh]
}

func (s *meshSet) add(mesh string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]bool{}
	}
	s.all[mesh] = true
}

func (s *meshSet) remove(mesh string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, mesh)
}

// Controller is the actor of a system controller. Its state belongs to its turn.
type Controller struct {
	term
	st *state

	creating map[subjects.HostID][]chan struct{} // orders without a reply; closed at the reply

	pendingEffects []any // effects that wait for an earlier save
	saving         bool  // a save is under way
	alarm          func()
	hostWatches    map[subjects.HostID]func() // of hosts with an assignment
	inventories    map[subjects.HostID]hostInventory

	suspects map[subjects.ProcID]bool // probed procs; true: a message was returned after the probe was sent
	meshes   meshSet                  // of the worlds, whose events are handled

	names     nameQueue
	startedAt time.Time

	released map[subjects.MeshID]*atomic.Bool // true: the detached mesh continues when its controller ends
}

// newController takes over the worlds of an earlier controller.
func newController(ctx *actor.Context, t term) (*Controller, error) {
	c := &Controller{
		term:        t,
		startedAt:   time.Now(),
		st:          newState(t.service.limits()),
		creating:    map[subjects.HostID][]chan struct{}{},
		hostWatches: map[subjects.HostID]func(){},
		inventories: map[subjects.HostID]hostInventory{},
		suspects:    map[subjects.ProcID]bool{},
		released:    map[subjects.MeshID]*atomic.Bool{},
	}
	p := ctx.Proc()
	self := actor.RefOf[*Controller](ctx.Self()).Via(p)
	c.st.self = p.ID()
	c.st.epoch = t.epoch
	c.st.durable = t.service.Durable()
	hear := func(m bus.Msg) {
		s, err := p.Space().Parse(m.Subject)
		if err != nil || s.Sender.Role() != subjects.Host || !c.meshes.has(s.Mesh.String()) {
			return // no owner knows more than the hosts of a world
		}
		e, err := actor.DecodeEventFrom(p.Space(), m)
		if err == nil && e.Terminal() { // no other event changes a world
			err = procEvents.Send(context.Background(), self, e)
		}
		if err != nil && !errors.Is(err, actor.ErrStopped) {
			log := p.Log()
			log.Warn().Err(err).Str("subject", m.Subject).
				Msg("the system controller missed an event: its next poll of the hosts replaces it")
		}
	}
	for _, subject := range actor.ProcEvents(p.Space(), subjects.MeshID{}) {
		if err := p.Subscribe(subject, hear); err != nil {
			return nil, err
		}
	}
	for _, r := range t.records.worlds {
		c.watchWorld(ctx, r)
	}
	c.handle(ctx, restored{
		records: t.records.worlds, directSuccessor: t.directSuccessor, ended: t.records.ended,
		adopting: t.records.adoptTimeLeft(),
	})
	for _, e := range t.inventories {
		c.handle(ctx, e)
	}
	c.pollHosts(ctx)
	return c, nil
}

// watchWorld accepts the events of a world's procs, and watches its hosts.
func (c *Controller) watchWorld(ctx *actor.Context, r Record) {
	if r.Mesh != "" {
		c.meshes.add(r.Mesh)
	}
	self := actor.RefOf[*Controller](ctx.Self()).Via(ctx.Proc())
	for _, h := range r.Hosts {
		if c.hostWatches[h.Host] == nil {
			c.hostWatches[h.Host] = c.hosts.Watch([]subjects.HostID{h.Host}, func(x presence.Change) {
				_ = hostChanges.Send(context.Background(), self, x) // an error means that the controller has ended
			})
		}
	}
}

// handleHostChange applies a change of a host.
func (c *Controller) handleHostChange(ctx *actor.Context, x presence.Change) (actor.None, error) {
	switch x.State {
	case presence.Alive:
		c.handle(ctx, hostSeen{x.Host})
	case presence.Dead:
		c.handle(ctx, hostLost{x.Host, x.Reason})
	}
	return actor.None{}, nil
}

// handle applies events, runs the effects, and sets the next timer.
func (c *Controller) handle(ctx *actor.Context, events ...any) {
	if c.hosts.BusSilence() > 0 {
		events = slices.Insert(events, 0, any(deaf{}))
	}
	for _, event := range events {
		c.pendingEffects = append(c.pendingEffects, c.st.step(event, time.Now())...)
	}
	c.runEffects(ctx)
	if c.alarm != nil {
		c.alarm()
		c.alarm = nil
	}
	if at, ok := c.st.nextTick(); ok {
		c.alarm = ctx.After(max(0, time.Until(at)), func(ctx *actor.Context) { c.handle(ctx, tick{}) })
	}
}

// runEffects runs the pending effects. It first saves all changed worlds at once, each in its last
// state, then runs the rest in order (WORLD-2).
func (c *Controller) runEffects(ctx *actor.Context) {
	if c.saving || len(c.pendingEffects) == 0 {
		return
	}
	batch := c.pendingEffects
	changed := map[string]*Record{}
	c.pendingEffects = nil
	for _, e := range batch {
		switch e := e.(type) {
		case saveRecord:
			changed[e.record.Name] = &e.record
			c.watchWorld(ctx, e.record)
		case deleteRecord:
			changed[e.world] = nil
			c.meshes.remove(e.mesh.String())
		}
	}
	if len(changed) == 0 || c.service.store == nil {
		c.applyEffects(ctx, batch)
		return
	}
	c.saving = true
	ctx.Go(func(work context.Context) func(*actor.Context) {
		err := c.write(work, changed)
		return func(ctx *actor.Context) {
			c.saving = false
			if err != nil {
				c.ready.set(err, 0, false)
				return
			}
			c.applyEffects(ctx, batch)
			c.runEffects(ctx)
		}
	})
}

// writeRetry is the time between two attempts to save.
const writeRetry = 100 * time.Millisecond

// write saves until it succeeds, another controller has written, or the term is over.
func (c *Controller) write(ctx context.Context, changed map[string]*Record) error {
	for {
		err := c.service.store.write(ctx, changed)
		if err == nil || errors.Is(err, bus.ErrRevisionConflict) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(writeRetry):
		}
	}
}

// handleEvent applies a host's event of a proc.
func (c *Controller) handleEvent(ctx *actor.Context, e actor.Event) (actor.None, error) {
	if r, ok := parseShareReport(e); ok {
		c.handle(ctx, r)
	}
	return actor.None{}, nil
}
