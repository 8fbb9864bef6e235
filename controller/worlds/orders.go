package worlds

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// lookWithin bounds a question to a host.
	lookWithin = 5 * time.Second
	// orderWithin bounds an order, which a host answers at once.
	orderWithin = 3 * time.Second
)

// doAll does what the core wants done, in order.
func (c *Controller) doAll(ctx *actor.Context, effects []any) {
	for _, e := range effects {
		switch e := e.(type) {
		case answer:
			c.reply(ctx, e)
		case create:
			c.create(ctx, e)
		case halt:
			c.halt(ctx, e)
		case look:
			c.look(ctx, e.host)
		case told:
			c.tell(ctx, e)
		case report:
			if to, ok := c.reports[e.to]; ok {
				delete(c.reports, e.to)
				if err := to.Send(ctx, e.StopReport); err != nil {
					log := ctx.Log()
					log.Warn().Err(err).Stringer("port", to).Msg("a report of a stop was not sent")
				}
			}
		case take:
			c.take(ctx, e.record)
		case letGo:
			c.letGo(ctx, e)
		case askName:
			c.asked = append(c.asked, e.name)
			c.askNames(ctx)
		case quit:
			log := ctx.Log()
			log.Info().Str("why", e.why).Msg("the system stops")
			c.ready.end(errors.New(e.why), 0, true)
		}
	}
}

func (c *Controller) reply(ctx *actor.Context, a answer) {
	give, ok := c.tickets[a.to]
	if !ok {
		return
	}
	delete(c.tickets, a.to)
	if a.err != nil {
		delete(c.reports, a.to)
	}
	if j, ok := a.value.(Joined); ok {
		j.Execution = c.execution(ctx)
		a.value = j
	}
	if o, ok := a.value.(Owned); ok {
		o.Durable = c.service.Durable()
		a.value = o
	}
	give(a.value, a.err)
}

// tell says on `ev.` and in the log what became of a world.
func (c *Controller) tell(ctx *actor.Context, e told) {
	log := ctx.Log()
	log.Info().Str("world", e.world).Str("status", string(e.now)).Str("why", e.why).Msg(e.step)
	if e.mesh.IsValid() {
		ctx.Proc().Emit(actor.Event{
			Kind: actor.KindMesh, Step: e.step, Status: string(e.now), Reason: e.why, Mesh: e.mesh.String(), At: time.Now(),
		})
	}
}

func (c *Controller) agentOf(p *actor.Proc, id subjects.HostID) actor.Ref[agent.Agent] {
	return agent.Of(id.Proc()).Via(p)
}

// described is what a host is told of a world. Everything in it is the same whoever tells it: it is how the host knows
// that it was told before (AGT-1).
func (e create) described() agent.Mesh {
	return agent.Mesh{
		ID: e.mesh, Extent: e.spec.Shape, Hosts: []subjects.HostID{e.host}, PerHost: e.spec.PerHost, Owner: e.host.Proc().Actor(agent.Name),
		Command: e.spec.Command, Limits: e.spec.Limits, Keep: e.spec.Keep,
		World: &agent.Share{World: e.world, First: e.first, Count: e.count},
	}
}

// create orders a share of a host, one message, and then hears when its procs run or have failed.
func (c *Controller) create(ctx *actor.Context, e create) {
	m := e.described()
	order := agent.Creation{Procs: &m, Gen: e.gen, Epoch: c.epoch, HostLife: e.life, Lease: c.service.lease()}
	p, answered := ctx.Proc(), make(chan struct{})
	c.creating[e.host] = append(c.creating[e.host], answered)
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, orderWithin)
		defer cancel()
		_, err := agent.Create.Call(work, c.agentOf(p, e.host), order)
		close(answered)
		var then func(*actor.Context)
		if err != nil {
			log := p.Log()
			log.Warn().Err(err).Str("world", e.world).Stringer("host", e.host).Msg("a host has not created its share")
			then = c.notCreated(work, p, e, err)
		}
		return func(ctx *actor.Context) {
			c.creating[e.host] = slices.DeleteFunc(c.creating[e.host], func(x chan struct{}) bool { return x == answered })
			if len(c.creating[e.host]) == 0 {
				delete(c.creating, e.host)
			}
			switch {
			case err == nil:
				c.await(ctx, e)
			case then != nil:
				then(ctx)
			}
		}
	})
}

// notCreated makes of an error what is known of the share: what a host refuses has failed, unless the order was not
// for it, or it has heard of a later controller.
func (c *Controller) notCreated(ctx context.Context, p *actor.Proc, e create, err error) func(*actor.Context) {
	if refused, ok := errors.AsType[*actor.Error](err); !ok || !refused.Refused() {
		return nil // nobody knows: it will be looked at
	}
	info, silent := agent.Info.Call(ctx, c.agentOf(p, e.host), actor.None{})
	switch {
	case silent != nil || info.Life() != e.life:
		return nil
	case info.Epoch > c.epoch:
		return func(*actor.Context) { c.ready.end(err, info.Epoch, false) }
	}
	failed := agent.Overlay{{First: e.first, Count: e.count, Status: agent.Status{Phase: agent.Failed, Reason: err.Error()}}}
	return func(ctx *actor.Context) { c.hear(ctx, reported{e.host, e.mesh, e.gen, failed}) }
}

// await hears when the procs of a share run or have failed.
func (c *Controller) await(ctx *actor.Context, e create) {
	p := ctx.Proc()
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, config.MeshSpawnDeadline.Get(c.service.opts.Config))
		defer cancel()
		o, err := agent.Wait.Call(work, c.agentOf(p, e.host), agent.Waiting{ID: e.mesh.String(), Until: agent.Running})
		if err != nil {
			return nil // it will be looked at
		}
		return func(ctx *actor.Context) { c.hear(ctx, reported{e.host, e.mesh, e.gen, o}) }
	})
}

// haltAgain is between two tries to stop what nobody answers for.
const haltAgain = 500 * time.Millisecond

// halt stops a host's share, or a proc, and says what came of it. Who does not answer is asked again. No order that
// was given before comes behind it.
func (c *Controller) halt(ctx *actor.Context, e halt) {
	p, before, self := ctx.Proc(), slices.Clone(c.creating[e.who.host]), actor.RefOf[*Controller](ctx.Self()).Via(ctx.Proc())
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, e.grace+killReserve)
		defer cancel()
		for _, answered := range before {
			<-answered // within orderWithin
		}
		for {
			done, err := c.haltOnce(work, p, e)
			if err == nil {
				return func(ctx *actor.Context) { c.hear(ctx, done) }
			}
			if e.who.proc.IsValid() && (unreached(err) || unsure(err)) {
				_ = Returned.Post(work, self, e.who.proc) // it fails when the controller has ended, and wants none
			}
			select {
			case <-work.Done():
				log := p.Log()
				log.Warn().Err(err).Str("world", e.world).Stringer("who", e.who).Msg("it did not say that it has stopped")
				return nil
			case <-time.After(haltAgain):
			}
		}
	})
}

func (c *Controller) haltOnce(ctx context.Context, p *actor.Proc, e halt) (stopped, error) {
	out := stopped{world: e.world, who: e.who}
	if e.who.proc.IsValid() {
		sum, err := agent.StopAll.Urge(ctx, agent.Of(e.who.proc).Via(p), agent.StoppingAll{Reason: e.why, Grace: e.grace})
		if out.stopped = 1; len(sum.Left) > 0 {
			out.stopped, out.aborted = 0, 1
		}
		return out, err
	}
	o, err := agent.Stop.Urge(ctx, c.agentOf(p, e.who.host), agent.Stopping{ID: e.mesh.String(), Reason: e.why, Grace: e.grace, Epoch: c.epoch})
	for _, run := range o {
		switch {
		case run.Status.Phase == agent.Stopped && run.Status.Reason == e.why:
			out.stopped += run.Count
		default:
			out.aborted += run.Count
		}
	}
	return out, err
}

// sight is what a host had of worlds when it was last looked at.
type sight struct {
	life    string
	changes uint64
	has     []held
}

// look asks a host what it has of worlds, unless it says that nothing has changed since the last look. That it answers
// is a word of it, too.
func (c *Controller) look(ctx *actor.Context, id subjects.HostID) {
	p, last := ctx.Proc(), c.sights[id]
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, lookWithin)
		defer cancel()
		now, info, err := lookAtHost(work, agent.Of(id.Proc()).Via(p), last)
		if err != nil {
			return nil // its silence will tell
		}
		return func(ctx *actor.Context) {
			if info.Epoch > c.epoch {
				c.ready.end(&agent.EpochError{Host: info.Label, Asked: c.epoch, Has: info.Epoch}, info.Epoch, false)
				return
			}
			c.sights[id] = now
			c.hear(ctx, hostSeen{id})
			c.hear(ctx, inventory{host: id, life: now.life, has: now.has})
		}
	})
}

// lookAtHost asks a host what it has of worlds, when that is not as it was at the last look.
func lookAtHost(ctx context.Context, host actor.Ref[agent.Agent], last sight) (sight, agent.HostInfo, error) {
	info, err := agent.Info.Call(ctx, host, actor.None{})
	if err != nil {
		return last, info, err
	}
	now := sight{info.Life(), info.Changes, last.has}
	if now.life != last.life || now.changes != last.changes || now.changes == 0 {
		states, err := agent.Get.Call(ctx, host, agent.Query{})
		if err != nil {
			return last, info, err
		}
		now.has = holdings(states)
	}
	return now, info, nil
}

// holdings are the shares of worlds among the states of a host's procs.
func holdings(states []agent.State) (out []held) {
	worlds := map[string]*agent.Mesh{}
	type key struct {
		mesh string
		gen  int
	}
	by := map[key]map[int]agent.Status{}
	var order []key
	for _, s := range states {
		if s.Mesh != nil {
			worlds[s.ID] = s.Mesh
		}
		if m := worlds[s.ID]; m == nil || m.World == nil {
			continue
		}
		k := key{s.ID, s.Gen}
		if by[k] == nil {
			by[k] = map[int]agent.Status{}
			order = append(order, k)
		}
		by[k][s.Rank] = s.Status
	}
	for _, k := range order {
		if mesh, err := subjects.ParseMeshID(k.mesh); err == nil {
			out = append(out, held{mesh, k.gen, agent.OverlayOf(by[k]), worlds[k.mesh]})
		}
	}
	return out
}

// reportOf is what an event says of a share.
func reportOf(e actor.Event) (reported, bool) {
	mesh, err := subjects.ParseMeshID(e.Mesh)
	host, herr := subjects.ParseHostID(e.Host)
	s := agent.Status{Phase: agent.Stopped, Reason: e.Reason}
	if e.Failed() {
		s.Phase = agent.Failed
	}
	return reported{host, mesh, e.Gen, agent.Overlay{{First: e.Rank, Count: 1, Status: s}}}, err == nil && herr == nil
}

// poll looks at every host now and then: an event may have been lost, and a share may be one that was ordered
// of a host that did not hear. Where nothing is saved it also keeps the leases of the procs.
func (c *Controller) poll(ctx *actor.Context) {
	ctx.After(config.SupervisionPoll.Get(c.service.opts.Config), func(ctx *actor.Context) {
		for id, h := range c.st.hosts {
			c.look(ctx, id)
			c.keep(ctx, h)
		}
		for id, cancel := range c.watches {
			if c.st.hosts[id] == nil {
				cancel()
				delete(c.watches, id)
			}
		}
		maps.DeleteFunc(c.sights, func(id subjects.HostID, _ sight) bool { return c.st.hosts[id] == nil })
		c.poll(ctx)
	})
}

// keep renews the leases of what a host has of worlds, where they have any.
func (c *Controller) keep(ctx *actor.Context, h *host) {
	lease := c.service.lease()
	var all []agent.Lease
	for _, s := range h.inOrder() {
		if lease > 0 && s.world.mesh.IsValid() {
			all = append(all, agent.Lease{ID: s.world.mesh.String(), For: lease})
		}
	}
	if len(all) == 0 {
		return
	}
	p, id := ctx.Proc(), h.id
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, lookWithin)
		defer cancel()
		said, err := agent.RenewAll(work, c.agentOf(p, id), all)
		for _, r := range said {
			err = errors.Join(err, r.Err())
		}
		if err != nil {
			log := p.Log()
			log.Warn().Err(err).Stringer("host", id).Msg("leases of worlds were not renewed")
		}
		return nil
	})
}
