package worlds

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/subjects"
)

// name is that of the actor in its proc.
const name = "system"

// Type is the actor type of system controllers. A Service starts them; nobody else does.
var Type = actor.NewType[*Controller, term]("system-controller")

// What a system controller can be asked. A proc that joined of itself says Beat; whoever had a message back from
// a proc may say so by Returned (Report).
var (
	Upsert   = actor.NewEndpoint[*Controller, Declaration, Upserted]("upsert")
	Join     = actor.NewEndpoint[*Controller, Joining, Joined]("join")
	Leave    = actor.NewEndpoint[*Controller, Leaving, actor.None]("leave")
	Beat     = actor.NewEndpoint[*Controller, Heartbeat, actor.None]("beat")
	Returned = actor.NewEndpoint[*Controller, subjects.ProcID, actor.None]("returned")
	Snap     = actor.NewEndpoint[*Controller, Filter, Snapshot]("snapshot")
	Ailing   = actor.NewEndpoint[*Controller, string, *WorldHealth]("health")
	Stop     = actor.NewEndpoint[*Controller, Stopping, Accepted]("stop")
	Where    = actor.NewEndpoint[*Controller, string, Whereabouts]("where")
	Detach   = actor.NewEndpoint[*Controller, Detaching, Owned]("detach")
	Adopt    = actor.NewEndpoint[*Controller, Adopting, Adopted]("adopt")
	Confirm  = actor.NewEndpoint[*Controller, Adopting, actor.None]("confirm")
	Reserve  = actor.NewEndpoint[*Controller, Reserving, actor.None]("reserve")
	Release  = actor.NewEndpoint[*Controller, Reserving, actor.None]("release")

	// heard and known are what the bus brings of procs and of hosts, in the controller's own mailbox.
	heard = actor.NewEndpoint[*Controller, actor.Event, actor.None]("heard")
	known = actor.NewEndpoint[*Controller, presence.Change, actor.None]("known")
)

// WorldHealth is the procs of a world that are not healthy. Of a world that is not there, there is none.
type WorldHealth struct {
	Unhealthy []ProcState `cbor:"1,keyasint" json:"unhealthy"`
}

func def() actor.Def {
	return Type.Made(begin,
		Upsert.By(func(c *Controller, ctx *actor.Context, d Declaration) (Upserted, error) {
			mesh, err := subjects.NewMeshID(d.Spec.Name)
			if err != nil {
				return Upserted{}, err
			}
			c.hear(ctx, upsert{ask[Upserted](c, ctx), d, mesh})
			return Upserted{}, nil
		}),
		Join.By(func(c *Controller, ctx *actor.Context, j Joining) (Joined, error) {
			c.hear(ctx, join{ask[Joined](c, ctx), j})
			return Joined{}, nil
		}),
		Leave.By(func(c *Controller, ctx *actor.Context, l Leaving) (actor.None, error) {
			c.hear(ctx, leave{ask[actor.None](c, ctx), l})
			return actor.None{}, nil
		}),
		Beat.By(func(c *Controller, ctx *actor.Context, h Heartbeat) (actor.None, error) {
			c.hear(ctx, beat{ask[actor.None](c, ctx), h})
			return actor.None{}, nil
		}),
		Returned.By(func(c *Controller, ctx *actor.Context, p subjects.ProcID) (actor.None, error) {
			c.suspect(ctx, p)
			return actor.None{}, nil
		}),
		Detach.By(func(c *Controller, ctx *actor.Context, d Detaching) (Owned, error) {
			c.hear(ctx, detach{ask[Owned](c, ctx), d})
			return Owned{}, nil
		}),
		Adopt.By(func(c *Controller, ctx *actor.Context, a Adopting) (Adopted, error) {
			c.hear(ctx, adopt{ask[Adopted](c, ctx), a})
			return Adopted{}, nil
		}),
		Confirm.By(func(c *Controller, ctx *actor.Context, a Adopting) (actor.None, error) {
			c.hear(ctx, confirm{ask[actor.None](c, ctx), a})
			return actor.None{}, nil
		}),
		Reserve.By(func(c *Controller, ctx *actor.Context, r Reserving) (actor.None, error) {
			c.hear(ctx, reserve{ask[actor.None](c, ctx), r})
			return actor.None{}, nil
		}),
		Release.By(func(c *Controller, ctx *actor.Context, r Reserving) (actor.None, error) {
			c.hear(ctx, release{ask[actor.None](c, ctx), r})
			return actor.None{}, nil
		}),
		Stop.By((*Controller).stop),
		Snap.By((*Controller).snapshot).Urgent(), Ailing.By((*Controller).health), Where.By((*Controller).where),
		heard.By((*Controller).event), known.By((*Controller).change),
	).Enduring()
}

// term is what a controller is made from: it acts until it is told that its term is over, or says so itself.
type term struct {
	service *Service
	epoch   uint64
	records records
	found   []inventory // of hosts, when the bucket is new
	follows bool
	ready   *readiness
	hosts   *presence.Watcher
	keeps   *controller.Keeper
}

// readiness is where a controller says that its term is over.
type readiness struct {
	once sync.Once
	over chan struct{}
	why  error
	// floor is an epoch that hosts have heard of.
	floor uint64
	quit  bool // the whole system was stopped
}

func (r *readiness) end(why error, floor uint64, quit bool) {
	r.once.Do(func() {
		r.why, r.floor, r.quit = why, floor, quit
		close(r.over)
	})
}

// Controller is the actor. Its state belongs to its turn.
type Controller struct {
	term
	st      *state
	tickets map[ticket]func(any, error)
	reports map[ticket]actor.PortRef[StopReport]
	last    ticket

	creating map[subjects.HostID][]chan struct{} // orders to hosts that have not answered so far

	queue   []any // effects that wait for a save before them
	busy    bool  // something is being saved
	alarm   func()
	watches map[subjects.HostID]func() // over hosts that have a seat
	sights  map[subjects.HostID]sight

	suspects map[subjects.ProcID]bool // procs that are probed; true: another message to it came back since the probe left
	meshes   sync.Map                 // of worlds, by text: what events are listened to

	asked  []string // names to be asked for, next
	asking bool     // some are
	began  time.Time

	keepers map[subjects.MeshID]*atomic.Bool // of detached meshes: they go on when their controllers end
}

// begin takes over the worlds of an earlier controller.
func begin(ctx *actor.Context, t term) (*Controller, error) {
	c := &Controller{
		term: t, began: time.Now(), st: newState(t.service.limits()), tickets: map[ticket]func(any, error){}, reports: map[ticket]actor.PortRef[StopReport]{},
		creating: map[subjects.HostID][]chan struct{}{}, watches: map[subjects.HostID]func(){}, sights: map[subjects.HostID]sight{}, suspects: map[subjects.ProcID]bool{}, keepers: map[subjects.MeshID]*atomic.Bool{},
	}
	p, self := ctx.Proc(), actor.RefOf[*Controller](ctx.Self()).Via(ctx.Proc())
	c.st.self = p.ID()
	err := p.Subscribe(p.Space().Events(actor.KindProc, subjects.MeshID{}), func(m bus.Msg) {
		s, err := p.Space().Parse(m.Subject)
		if _, ours := c.meshes.Load(s.Mesh.String()); err != nil || !ours {
			return
		}
		e, err := actor.OpenEvent(p.Space(), m)
		if err == nil && e.Terminal() { // nothing else changes a world, and the mailbox is bounded
			err = heard.Post(context.Background(), self, e)
		}
		if err != nil && !errors.Is(err, actor.ErrStopped) {
			log := p.Log()
			log.Warn().Err(err).Str("subject", m.Subject).Msg("a system controller missed an event: it will see for itself")
		}
	})
	if err != nil {
		return nil, err
	}
	for _, r := range t.records.worlds {
		c.listen(ctx, r)
	}
	c.hear(ctx, restored{records: t.records.worlds, follows: t.follows, ended: t.records.ended, adopting: t.records.adopting()})
	for _, e := range t.found {
		c.hear(ctx, e)
	}
	c.poll(ctx)
	return c, nil
}

// listen lets in the events of a world's procs, and watches over its hosts.
func (c *Controller) listen(ctx *actor.Context, r Record) {
	if r.Mesh != "" {
		c.meshes.Store(r.Mesh, true)
	}
	self := actor.RefOf[*Controller](ctx.Self()).Via(ctx.Proc())
	for _, h := range r.Hosts {
		if c.watches[h.Host] == nil {
			c.watches[h.Host] = c.hosts.Watch([]subjects.HostID{h.Host}, func(x presence.Change) {
				_ = known.Post(context.Background(), self, x) // it fails when the controller has ended, and wants none
			})
		}
	}
}

// change takes what is known of a host.
func (c *Controller) change(ctx *actor.Context, x presence.Change) (actor.None, error) {
	switch x.State {
	case presence.Alive:
		c.hear(ctx, hostSeen{x.Host})
	case presence.Dead:
		c.hear(ctx, hostLost{x.Host, x.Reason})
	}
	return actor.None{}, nil
}

// ask takes over the answer of the message that is being handled.
func ask[R any](c *Controller, ctx *actor.Context) ticket {
	d := actor.Defer[R](ctx)
	c.last++
	c.tickets[c.last] = func(v any, err error) {
		r, _ := v.(R)
		d.Reply(r, err)
	}
	return c.last
}

// hear takes one thing, does what is to be done, and arranges for the next time that something is due.
func (c *Controller) hear(ctx *actor.Context, events ...any) {
	for _, event := range events {
		c.queue = append(c.queue, c.st.step(event, time.Now())...)
	}
	c.pump(ctx)
	if c.alarm != nil {
		c.alarm()
		c.alarm = nil
	}
	if at, ok := c.st.next(); ok {
		c.alarm = ctx.After(max(0, time.Until(at)), func(ctx *actor.Context) { c.hear(ctx, tick{}) })
	}
}

// pump does what waits. What is to be saved is saved first, all of it at once and each world as it is at the end,
// and then the rest is done, in order (WORLD-2).
func (c *Controller) pump(ctx *actor.Context) {
	if c.busy || len(c.queue) == 0 {
		return
	}
	batch, changed := c.queue, map[string]*Record{}
	c.queue = nil
	for _, e := range batch {
		switch e := e.(type) {
		case save:
			changed[e.record.Name] = &e.record
			c.listen(ctx, e.record)
		case forget:
			changed[e.world] = nil
			c.meshes.Delete(e.mesh.String())
		}
	}
	if len(changed) == 0 || c.service.store == nil {
		c.doAll(ctx, batch)
		return
	}
	c.busy = true
	ctx.Go(func(work context.Context) func(*actor.Context) {
		err := c.write(work, changed)
		return func(ctx *actor.Context) {
			c.busy = false
			if err != nil {
				c.ready.end(err, 0, false)
				return
			}
			c.doAll(ctx, batch)
			c.pump(ctx)
		}
	})
}

// writeAgain is between two tries to save.
const writeAgain = 100 * time.Millisecond

// write saves until that has succeeded, somebody else has written, or the term is over.
func (c *Controller) write(ctx context.Context, changed map[string]*Record) error {
	for {
		err := c.service.store.write(ctx, changed)
		if err == nil || errors.Is(err, bus.ErrRevision) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(writeAgain):
		}
	}
}

// event takes what a host tells of a proc.
func (c *Controller) event(ctx *actor.Context, e actor.Event) (actor.None, error) {
	e.Each(func(e actor.Event) {
		if r, ok := reportOf(e); ok {
			c.hear(ctx, r)
		}
	})
	return actor.None{}, nil
}

func (c *Controller) stop(ctx *actor.Context, s Stopping) (Accepted, error) {
	from := ask[Accepted](c, ctx)
	if s.Report != nil {
		c.reports[from] = *s.Report
	}
	c.hear(ctx, stop{from, s})
	return Accepted{}, nil
}

// What only reads waits for what is being saved, too: nobody sees what may still come to nothing.

func (c *Controller) snapshot(ctx *actor.Context, f Filter) (Snapshot, error) {
	from := ask[Snapshot](c, ctx)
	c.hear(ctx, tick{})
	c.later(ctx, answer{to: from, value: Snapshot{
		Execution: c.execution(ctx), Epoch: c.epoch, Durable: c.service.Durable(), Worlds: c.st.snapshot(f), Detached: c.st.showDetached(),
	}})
	return Snapshot{}, nil
}

func (c *Controller) health(ctx *actor.Context, world string) (*WorldHealth, error) {
	from := ask[*WorldHealth](c, ctx)
	c.hear(ctx, tick{})
	var out *WorldHealth
	if sick, ok := c.st.unhealthy(world); ok {
		out = &WorldHealth{sick}
	}
	c.later(ctx, answer{to: from, value: out})
	return nil, nil
}

func (c *Controller) where(ctx *actor.Context, what string) (Whereabouts, error) {
	from := ask[Whereabouts](c, ctx)
	c.hear(ctx, tick{})
	found, err := c.st.where(what)
	c.later(ctx, answer{from, found, err})
	return Whereabouts{}, nil
}

func (c *Controller) later(ctx *actor.Context, effect any) {
	c.queue = append(c.queue, effect)
	c.pump(ctx)
}

// execution tells one system controller from those before it.
func (c *Controller) execution(ctx *actor.Context) string { return ctx.Proc().ID().Mesh.UID() }
