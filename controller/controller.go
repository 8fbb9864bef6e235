package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
)

const (
	// spawnLimit bounds the wait for ranks to run, when the asker sets no deadline.
	spawnLimit = 30 * time.Second
	// stopGrace is how long a proc may take to stop before it is killed.
	stopGrace = 10 * time.Second
	// lastGrace is the same when the controller itself is going.
	lastGrace = 3 * time.Second
)

// Type is the actor type of controllers.
var Type = actor.NewType[agent.Agent, Spec]("controller")

// heard is what the bus brings about the mesh, in the controller's own mailbox.
var heard = actor.NewEndpoint[agent.Agent, actor.Event, actor.None]("heard")

// Def is the definition of controllers: the registry of whoever makes meshes holds it.
func Def() actor.Def {
	return Type.Made(start, append(agent.Methods(),
		heard.By(func(a agent.Agent, ctx *actor.Context, e actor.Event) (actor.None, error) {
			c := a.(*controller)
			c.hear(ctx, e)
			return actor.None{}, nil
		}))...)
}

// controller is the actor.
type controller struct {
	*state
	subs    []*bus.Sub
	streams []agent.Stream
	started bool
}

// start follows the mesh's events, so that nothing that is created later goes unheard (CTL-1).
func start(ctx *actor.Context, s Spec) (agent.Agent, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	s.Procs.Owner = ctx.Self()
	if s.Actors != nil {
		spec := *s.Actors
		spec.Owner = ctx.Self()
		s.Actors = &spec
	}
	st, err := newState(s)
	if err != nil {
		return nil, err
	}
	c := &controller{state: st}
	p, self := ctx.Proc(), actor.RefOf[agent.Agent](ctx.Self()).Via(ctx.Proc())
	kinds := []string{actor.KindProc}
	if s.Actors != nil {
		kinds = append(kinds, actor.KindActor)
	}
	for _, kind := range kinds {
		sub, err := p.Bus().Control().Subscribe(p.Space().Events(kind, s.Procs.ID), func(m bus.Msg) {
			e, err := actor.DecodeEvent(m.Data)
			if err == nil {
				err = heard.Post(context.Background(), self, e)
			}
			if err != nil {
				log := p.Log()
				log.Warn().Err(err).Str("subject", m.Subject).Msg("a controller missed an event")
			}
		})
		if err != nil {
			c.unsubscribe()
			return nil, fmt.Errorf("follow mesh %s: %w", s.Procs.ID, err)
		}
		c.subs = append(c.subs, sub)
	}
	return c, nil
}

// hear takes one event or overlay, and tells the streams what ended (CTL-3).
func (c *controller) hear(ctx *actor.Context, what any) {
	for _, e := range c.step(what) {
		log := ctx.Log()
		if e.Status == string(actor.Failed) {
			log.Warn().Str("reason", e.Reason).Msg(e.String())
		}
		kept := c.streams[:0]
		for _, s := range c.streams {
			if err := s.To.Send(ctx, e); err == nil {
				kept = append(kept, s)
			}
		}
		c.streams = kept
	}
}

// Create starts the mesh: one message per host (CTL-2). The second time it does nothing.
func (c *controller) Create(ctx *actor.Context, _ agent.Creation) (agent.Overlay, error) {
	if !c.started {
		c.started = true
		c.each(ctx, c.create)
		if c.spec.Actors == nil {
			c.renew(ctx)
		}
	}
	return c.table.Overlay(c.spec.id()), nil
}

// task is one operation on one host's share of the mesh, off the controller's turn.
type task func(ctx context.Context, p *actor.Proc, host int) (agent.Overlay, error)

// each runs a task per host at the same time, or once over the cast road for an actor mesh. What
// they bring is heard on the turn.
func (c *controller) each(ctx *actor.Context, t task) {
	p, hosts := ctx.Proc(), len(c.spec.Procs.Hosts)
	if c.spec.Actors != nil {
		hosts = 1
	}
	for host := range hosts {
		ctx.Go(func(work context.Context) func(*actor.Context) {
			o, err := t(work, p, host)
			return func(ctx *actor.Context) {
				c.hear(ctx, o)
				if err != nil {
					c.silent(ctx, host, err)
				}
			}
		})
	}
}

// silent is told that an operation failed for a host, or for some ranks of an actor mesh: ranks
// that were never accepted have failed with it, others keep their status (CTL-5).
func (c *controller) silent(ctx *actor.Context, host int, err error) {
	first, last := host*c.spec.Procs.PerHost, (host+1)*c.spec.Procs.PerHost
	if c.spec.Actors != nil {
		first, last = 0, c.spec.Procs.Extent.NumRanks()
	}
	failed := map[int]agent.Status{}
	for base := first; base < last; base++ {
		rank, in := c.spec.Region.ViewRank(base)
		if in && c.table.Status(c.spec.id(), rank).Phase == agent.Initializing {
			failed[rank] = agent.Status{Phase: agent.Failed, Reason: c.reason(err, rank)}
		}
	}
	log := ctx.Log()
	log.Debug().Err(err).Int("host", host).Msg("an operation on the mesh was not answered in full")
	c.hear(ctx, agent.OverlayOf(failed))
}

// reason is the part of an error that is about one rank.
func (c *controller) reason(err error, rank int) string {
	if ce, ok := asCoverage(err); ok {
		for _, f := range append(append([]cast.Failure(nil), ce.Coverage.Failed...), ce.Coverage.Missing...) {
			if f.Rank == rank && f.Err != nil {
				return f.Err.Error()
			}
		}
	}
	return err.Error()
}

func (c *controller) unsubscribe() {
	for _, s := range c.subs {
		_ = s.Unsubscribe() // the connection is closing: nothing comes any more either way
	}
	c.subs = nil
}

// Stopping stops the mesh before its controller goes (CTL-4).
func (c *controller) Stopping(ctx *actor.Context) {
	defer c.unsubscribe()
	if !c.started || c.over() {
		return
	}
	hosts := len(c.spec.Procs.Hosts)
	if c.spec.Actors != nil {
		hosts = 1
	}
	p := ctx.Proc()
	type result struct {
		o   agent.Overlay
		err error
	}
	results := make(chan result, hosts)
	for host := range hosts {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 2*lastGrace)
			defer cancel()
			o, err := c.stop(ctx, p, host, agent.Stopping{ID: c.spec.id(), Reason: "its controller stops", Grace: lastGrace})
			results <- result{o, err}
		}()
	}
	for range hosts {
		r := <-results
		c.hear(ctx, r.o)
		if r.err != nil {
			log := ctx.Log()
			log.Warn().Err(r.err).Str("mesh", c.spec.id()).Msg("stop the mesh of a stopping controller")
		}
	}
}
