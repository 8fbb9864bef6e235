package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// hostInventoryTimeout bounds a query of a host.
	hostInventoryTimeout = 5 * time.Second
	// orderTimeout bounds an order; a host replies at once.
	orderTimeout = 3 * time.Second
)

// applyEffects runs the core's effects, in order.
func (c *Controller) applyEffects(ctx *actor.Context, effects []any) {
	for _, e := range effects {
		switch e := e.(type) {
		case answer:
			e.to.reply(e.value, e.err)
		case create:
			c.create(ctx, e)
		case stopShare:
			c.stopShare(ctx, e)
		case fetchInventory:
			c.fetchInventory(ctx, e.host)
		case worldEvent:
			c.emit(ctx, e)
		case sendReport:
			if err := e.to.Send(ctx, e.StopReport); err != nil {
				log := ctx.Log()
				log.Warn().Err(err).Stringer("port", e.to).Msg("cannot send the report of a stop")
			}
		case takeOwnership:
			c.takeDetached(ctx, e.record)
		case releaseDetached:
			c.releaseDetached(ctx, e)
		case queryName:
			c.queueName(ctx, e)
		case quit:
			log := ctx.Log()
			log.Info().Str("reason", e.why).Msg("the system controller stops")
			c.ready.set(errors.New(e.why), 0, true)
		}
	}
}

// emit publishes a change of a world or of a detached mesh on `ev.` and in the log.
func (c *Controller) emit(ctx *actor.Context, e worldEvent) {
	log := ctx.Log()
	line := log.Info().Str("reason", e.why)
	if e.world != "" {
		line = line.Str("world", e.world).Str("status", string(e.now))
	} else {
		line = line.Stringer("mesh", e.mesh)
	}
	line.Msg(e.step)
	if e.mesh.IsValid() {
		ctx.Proc().Emit(actor.Event{
			Kind: actor.KindMesh, Step: e.step, Status: string(e.now), Reason: e.why, Mesh: e.mesh.String(),
			At: time.Now(),
		})
	}
}

func (c *Controller) agentOf(p *actor.Proc, id subjects.HostID) actor.Ref[agent.Agent] {
	return agent.Of(id.Proc()).Via(p)
}

// meshForHost returns the mesh of a world as its host gets it. Every controller sends the same, so
// that the host recognises a repeated order (AGT-1).
func (e create) meshForHost() agent.Mesh {
	return agent.Mesh{
		ID: e.mesh, Extent: e.spec.Shape, Hosts: []subjects.HostID{e.host}, PerHost: e.spec.PerHost,
		Owner: e.host.Proc().Actor(agent.Name), Command: e.spec.Command, Limits: e.spec.Limits, Keep: e.spec.Keep,
		World: &agent.WorldShare{World: e.world, First: e.first, Count: e.count},
	}
}

// create orders a host's share with one message, and then waits until its procs run or have failed.
func (c *Controller) create(ctx *actor.Context, e create) {
	m := e.meshForHost()
	order := agent.CreateRequest{
		Procs: &m, Gen: e.gen, Epoch: c.epoch, HostIncarnation: e.incarnation, Lease: c.service.lease(),
	}
	p := ctx.Proc()
	answered := make(chan struct{})
	c.creating[e.host] = append(c.creating[e.host], answered)
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, orderTimeout)
		defer cancel()
		_, err := agent.Create.Call(work, c.agentOf(p, e.host), order)
		close(answered)
		var then func(*actor.Context)
		if err != nil {
			log := p.Log()
			log.Warn().Err(err).Str("world", e.world).Stringer("host", e.host).
				Msg("cannot create the share of a host")
			then = c.onCreateError(work, p, e, err)
		}
		return func(ctx *actor.Context) {
			done := func(x chan struct{}) bool { return x == answered }
			c.creating[e.host] = slices.DeleteFunc(c.creating[e.host], done)
			if len(c.creating[e.host]) == 0 {
				delete(c.creating, e.host)
			}
			if err == nil {
				c.awaitShare(ctx, e)
			} else if then != nil {
				then(ctx)
			}
		}
	})
}

// onCreateError turns an error into a report of the share. A share refused by its host has failed,
// unless the order was for another incarnation of the host. If the host knows a later controller,
// the term ends.
func (c *Controller) onCreateError(
	ctx context.Context, p *actor.Proc, e create, err error,
) func(*actor.Context) {
	if refused, ok := errors.AsType[*actor.Error](err); !ok || !refused.Refused() {
		return nil // the result is unknown: the next poll shows it
	}
	info, silent := agent.Info.Call(ctx, c.agentOf(p, e.host), actor.None{})
	if silent != nil || info.Incarnation() != e.incarnation {
		return nil
	}
	if info.Epoch > c.epoch {
		return func(*actor.Context) { c.ready.set(err, info.Epoch, false) }
	}
	s := agent.Status{Phase: agent.Failed, Reason: err.Error()}
	failed := agent.Overlay{{First: e.first, Count: e.count, Status: s}}
	return func(ctx *actor.Context) { c.handle(ctx, shareReport{e.host, e.mesh, e.gen, failed}) }
}

// awaitShare waits until the procs of a share run or have failed.
func (c *Controller) awaitShare(ctx *actor.Context, e create) {
	p := ctx.Proc()
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, config.MeshSpawnTimeout.Get(c.service.opts.Config))
		defer cancel()
		request := agent.WaitRequest{ID: e.mesh.String(), Until: agent.Running}
		o, err := agent.Wait.Call(work, c.agentOf(p, e.host), request)
		if err != nil {
			return nil // the next poll shows the result
		}
		return func(ctx *actor.Context) { c.handle(ctx, shareReport{e.host, e.mesh, e.gen, o}) }
	})
}

// stopRetry is the time between two attempts to stop a silent member.
const stopRetry = 500 * time.Millisecond

// stopShare stops a host's share, or a proc, and reports the result. It repeats the order to a
// silent member. It first waits for earlier orders, so that none arrives after the stop.
func (c *Controller) stopShare(ctx *actor.Context, e stopShare) {
	p := ctx.Proc()
	before := slices.Clone(c.creating[e.who.host])
	self := actor.RefOf[*Controller](ctx.Self()).Via(p)
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, e.grace+killReserve)
		defer cancel()
		for _, answered := range before {
			<-answered // within orderTimeout
		}
		for {
			done, err := c.stopOnce(work, p, e)
			if err == nil {
				return func(ctx *actor.Context) { c.handle(ctx, done) }
			}
			if e.who.proc.IsValid() && (isUnreached(err) || isInconclusive(err)) {
				_ = SuspectProc.Send(work, self, e.who.proc) // an error means that the controller has ended
			}
			select {
			case <-work.Done():
				log := p.Log()
				log.Warn().Err(err).Str("world", e.world).Stringer("member", e.who).
					Msg("cannot confirm that the member stopped")
				return nil
			case <-time.After(stopRetry):
			}
		}
	})
}

func (c *Controller) stopOnce(ctx context.Context, p *actor.Proc, e stopShare) (memberStopped, error) {
	out := memberStopped{world: e.world, who: e.who}
	if e.who.proc.IsValid() {
		request := agent.StopAllRequest{Reason: e.why, Grace: e.grace}
		sum, err := agent.StopAll.CallUrgent(ctx, agent.Of(e.who.proc).Via(p), request)
		if len(sum.Remaining) > 0 {
			out.aborted = 1
			out.killed = []string{fmt.Sprintf("%s: %v", e.who, sum.Err())}
		} else {
			out.stopped = 1
		}
		return out, err
	}
	request := agent.StopRequest{ID: e.mesh.String(), Reason: e.why, Grace: e.grace, Epoch: c.epoch}
	o, err := agent.Stop.CallUrgent(ctx, c.agentOf(p, e.who.host), request)
	for _, run := range o {
		if run.Status.Phase == agent.Stopped && run.Status.Reason == e.why {
			out.stopped += run.Count
		} else {
			out.aborted += run.Count
			for rank := run.First; rank < run.First+run.Count && len(out.killed) < maxKilled; rank++ {
				out.killed = append(out.killed, fmt.Sprintf("rank %d: %s", rank, run.Status))
			}
		}
	}
	return out, err
}

// maxHostsAsked bounds the concurrent requests to hosts.
const maxHostsAsked = 64

// askHosts asks hosts concurrently, and returns the answer or the error of each.
func askHosts[H, R any](hosts []H, ask func(H) (R, error)) ([]R, []error) {
	said := make([]R, len(hosts))
	errs := make([]error, len(hosts))
	fanout.Each(maxHostsAsked, hosts, func(i int, h H) { said[i], errs[i] = ask(h) })
	return said, errs
}

// hostInventory is a host's last known shares of worlds.
type hostInventory struct {
	incarnation string
	revision    uint64
	shares      []heldShare
}

// fetchInventory asks a host for its shares of worlds, unless they are unchanged since the last
// query. The reply is also a sign of life.
func (c *Controller) fetchInventory(ctx *actor.Context, id subjects.HostID) {
	p := ctx.Proc()
	last := c.inventories[id]
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, hostInventoryTimeout)
		defer cancel()
		now, info, err := queryInventory(work, agent.Of(id.Proc()).Via(p), last)
		if err != nil {
			return nil // presence detects a silent host
		}
		return func(ctx *actor.Context) {
			if info.Epoch > c.epoch {
				err := &agent.EpochError{Host: info.Label, Requested: c.epoch, Current: info.Epoch}
				c.ready.set(err, info.Epoch, false)
				return
			}
			c.inventories[id] = now
			c.handle(ctx, hostSeen{id})
			c.handle(ctx, inventory{host: id, incarnation: now.incarnation, shares: now.shares})
		}
	})
}

// queryInventory asks a host for its shares of worlds, if they have changed since the last query.
func queryInventory(
	ctx context.Context, host actor.Ref[agent.Agent], last hostInventory,
) (hostInventory, agent.HostInfo, error) {
	info, err := agent.Info.Call(ctx, host, actor.None{})
	if err != nil {
		return last, info, err
	}
	now := hostInventory{info.Incarnation(), info.Revision, last.shares}
	if now.incarnation != last.incarnation || now.revision != last.revision || now.revision == 0 {
		states, err := agent.Get.Call(ctx, host, agent.GetRequest{})
		if err != nil {
			return last, info, err
		}
		now.shares = heldShares(states)
	}
	return now, info, nil
}

// heldShares returns the shares of worlds among the states of a host's procs.
func heldShares(states []agent.State) (out []heldShare) {
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
			out = append(out, heldShare{mesh, k.gen, agent.OverlayOf(by[k]), worlds[k.mesh]})
		}
	}
	return out
}

// parseShareReport returns the report in an event of a proc.
func parseShareReport(e actor.Event) (shareReport, bool) {
	mesh, err := subjects.ParseMeshID(e.Mesh)
	host, herr := subjects.ParseHostID(e.Host)
	s := agent.Status{Phase: agent.Stopped, Reason: e.Reason}
	if e.Failed() {
		s.Phase = agent.Failed
	}
	now := agent.Overlay{{First: e.Rank, Count: max(e.Count, 1), Status: s}}
	return shareReport{host, mesh, e.Gen, now}, err == nil && herr == nil
}

// pollHosts queries every host periodically: an event may have been lost, or an order may not have
// arrived. Without a store it also renews the procs' leases.
func (c *Controller) pollHosts(ctx *actor.Context) {
	ctx.After(config.SupervisionPollInterval.Get(c.service.opts.Config), func(ctx *actor.Context) {
		for id, h := range c.st.hosts {
			c.fetchInventory(ctx, id)
			c.renewLeases(ctx, h)
		}
		for id, cancel := range c.hostWatches {
			if c.st.hosts[id] == nil {
				cancel()
				delete(c.hostWatches, id)
			}
		}
		for id := range c.inventories {
			if c.st.hosts[id] == nil {
				delete(c.inventories, id)
			}
		}
		c.pollHosts(ctx)
	})
}

// renewLeases renews the leases of a host's shares of worlds, if they have any.
func (c *Controller) renewLeases(ctx *actor.Context, h *host) {
	lease := c.service.lease()
	var all []agent.Lease
	for _, s := range h.sortedAssignments() {
		if lease > 0 && s.world.mesh.IsValid() {
			all = append(all, agent.Lease{ID: s.world.mesh.String(), TTL: lease})
		}
	}
	if len(all) == 0 {
		return
	}
	p := ctx.Proc()
	id := h.id
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, hostInventoryTimeout)
		defer cancel()
		said, err := agent.RenewAll(work, c.agentOf(p, id), all)
		for _, r := range said {
			err = errors.Join(err, r.Err())
		}
		if err != nil {
			agent.CountersOf(p).CountRenewalFailure()
			log := p.Log()
			log.Warn().Err(err).Stringer("host", id).Msg("cannot renew leases of worlds")
		}
		return nil
	})
}
