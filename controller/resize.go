package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// A mesh of procs grows and shrinks by hosts at the end of its first dimension. No rank changes its
// number. Owners of actors on the whole mesh follow it. Others learn of added ranks once these run
// with their actors, and of a removal before the first rank stops (CTL-20).

// growth is the event of added hosts: the mesh with them.
type growth struct{ mesh agent.Mesh }

// shrinkage is the event of hosts to be removed: the mesh without them.
type shrinkage struct {
	mesh   agent.Mesh
	reason string
}

// resized reports that the added ranks run, or that the removed ranks have been stopped.
type resized struct{}

// grow adds the ranks of added hosts. They are unknown to others until resized.
func (st *state) grow(h growth) {
	first := st.spec.Region.NumRanks()
	before := st.spec.Procs
	st.announced = &before
	st.unannounced = first
	st.spec.Procs = h.mesh
	st.spec.Region = h.mesh.Extent.Region()
	gen := h.mesh.FirstGen
	if st.spec.Actors != nil {
		gen = 0
	}
	added := st.ranks()[first:]
	_, err := st.table.Create(agent.ResourceSpec{
		ID: st.spec.id(), Ranks: st.ranks(), OnlyRanks: added, Gen: gen, Mesh: &st.spec.Procs,
	})
	if err != nil { // it cannot fail: the ranks are new
		return
	}
	serial := st.nextSerial()
	for _, rank := range added {
		seat := st.rankState(rank)
		seat.firstGen = gen
		seat.validFrom = serial // answers about removed ranks of these numbers are stale
		if st.supervisor != nil {
			st.supervisor.Started(rank, st.spec.RestartPolicy.intensity())
		}
	}
}

// shrink marks the ranks of hosts to be removed as stopping. Others know the mesh without them.
func (st *state) shrink(x *effects, h shrinkage, now time.Time) {
	m := h.mesh
	st.announced = &m
	st.stopRegion(x, lastHosts(st.spec.Procs, len(m.Hosts)), h.reason, now)
}

// endResize reports the ranks of added hosts, or drops those of removed ones.
func (st *state) endResize(x *effects, now time.Time) {
	m := st.description()
	first := st.unannounced
	st.announced = nil
	st.unannounced = 0
	if m.Revision <= st.spec.Procs.Revision {
		for rank := first; rank < st.spec.Region.NumRanks(); rank++ {
			if st.phaseOf(rank) == agent.Running {
				st.report(x, rank, string(actor.Running), actor.Event{Step: "rank.add", At: now})
			}
		}
		return
	}
	st.spec.Procs = m
	st.spec.Region = m.Extent.Region()
	ranks := st.spec.Region.NumRanks()
	st.table.Truncate(st.spec.id(), ranks)
	maps.DeleteFunc(st.rankStates, func(rank int, _ *rankState) bool { return rank >= ranks })
	maps.DeleteFunc(st.reportedFailures, func(rank int, _ reportedFailure) bool { return rank >= ranks })
	maps.DeleteFunc(st.changes.latest, func(rank int, _ actor.Event) bool { return rank >= ranks })
	for _, host := range st.evacuatingHosts() {
		if v := st.evacuations[host]; v.index >= len(m.Hosts) {
			delete(st.evacuations, host)
			x.evacuated = append(x.evacuated, evacuated{host, v.moved})
		}
	}
}

// firstGenOfAdded returns the generation for ranks that are added after the ranks from first on are
// removed: later than each of theirs.
func (st *state) firstGenOfAdded(first int) int {
	gen := st.spec.Procs.FirstGen
	for rank := first; rank < st.spec.Region.NumRanks(); rank++ {
		gen = max(gen, st.table.Gen(st.spec.id(), rank)+1)
	}
	return gen
}

// overlayFrom returns the statuses of the ranks from first on.
func (st *state) overlayFrom(first int) agent.Overlay {
	by := map[int]agent.Status{}
	for rank := first; rank < st.spec.Region.NumRanks(); rank++ {
		by[rank] = st.table.Status(st.spec.id(), rank)
	}
	return agent.OverlayOf(by)
}

// lastHosts is the region of the hosts of a mesh from an index on.
func lastHosts(m agent.Mesh, from int) shape.Region {
	r, err := m.Extent.Region().Slice(m.Extent.Dims()[0].Label, from, len(m.Hosts))
	if err != nil {
		return shape.Region{} // it cannot fail: the index is in the mesh
	}
	return r
}

// Resize adds hosts to the mesh, or removes its last ones. It replies once the added ranks run with
// their actors, or the removed ranks have ended. If an added rank fails, the added hosts leave
// again.
func (c *controller) Resize(ctx *actor.Context, r agent.ResizeRequest) (agent.ResizeResponse, error) {
	if err := c.checkResizer(ctx); err != nil {
		return agent.ResizeResponse{}, err
	}
	if !c.isFor(r.ID) {
		return agent.ResizeResponse{}, nil
	}
	if c.fenced != nil {
		return agent.ResizeResponse{}, c.fenced
	}
	m, err := c.resizedMesh(r)
	if err != nil {
		return agent.ResizeResponse{}, err
	}
	reply := actor.Defer[agent.ResizeResponse](ctx)
	done := func(o agent.Overlay) {
		if c.fenced != nil {
			reply.Reply(agent.ResizeResponse{}, c.fenced)
			return
		}
		m := c.description()
		reply.Reply(agent.ResizeResponse{Mesh: *m.Public(), Statuses: o}, nil)
	}
	if r.Remove == 0 {
		c.prepareGrowth(ctx, func(ctx *actor.Context, err error) {
			c.grow(ctx, r, cmp.Or(r.Timeout, c.spawnLimit()), err, func(o agent.Overlay, err error) {
				if err != nil {
					reply.Reply(agent.ResizeResponse{}, err)
					return
				}
				done(o)
			})
		})
		return agent.ResizeResponse{}, nil
	}
	limit := c.stopLimit(c.stopGrace())
	if d, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(d)*9/10)
	}
	c.removeHosts(ctx, m, r.Reason, c.stopGrace(), limit, done)
	return agent.ResizeResponse{}, nil
}

// grow adds the hosts of a request. It calls done with the statuses of their ranks, or with the
// reason why the mesh cannot grow. unconfirmed is the error of confirmOwner. The mesh may have
// changed meanwhile.
func (c *controller) grow(ctx *actor.Context, r agent.ResizeRequest, limit time.Duration, unconfirmed error,
	done func(agent.Overlay, error)) {
	m, err := c.resizedMesh(r)
	if err := cmp.Or(c.fencedError(), unconfirmed, err); err != nil {
		done(nil, err)
		return
	}
	c.addHosts(ctx, m, limit, func(o agent.Overlay) { done(o, nil) })
}

// Revision returns the mesh if its hosts have changed, and whether they change.
func (c *controller) Revision(_ *actor.Context, r agent.RevisionRequest) (agent.RevisionResponse, error) {
	said := agent.RevisionResponse{Growing: c.unannounced > 0}
	if m := c.description(); c.isFor(r.ID) && m.Revision > r.After {
		said.Mesh = m.Public()
	}
	return said, c.fencedError()
}

// prepareGrowth confirms the owner, and repeats a Shrink before it to the owners of actors. After
// the Grow, an equal number of ranks would hide a missed one.
func (c *controller) prepareGrowth(ctx *actor.Context, then func(*actor.Context, error)) {
	c.confirmOwner(ctx, func(ctx *actor.Context, err error) {
		m := c.description()
		if err != nil || !c.shrunk || c.changesHosts() {
			then(ctx, err)
			return
		}
		c.shrunk = false
		followed := func(ctx *actor.Context, _ agent.Overlay) { then(ctx, nil) }
		c.askFollowers(ctx, m, m.Extent.NumRanks(), confirmTimeout, followed)
	})
}

// confirmTimeout bounds the wait for hosts that confirm the owner. A host that hangs counts as dead
// before.
const confirmTimeout = 10 * time.Second

// confirmOwner asks the hosts whether the mesh has another owner, which added hosts do not know. It
// calls then, also after a fence. The error is that no host confirms the owner: silent ones may
// have another.
func (c *controller) confirmOwner(ctx *actor.Context, then func(*actor.Context, error)) {
	p := ctx.Proc()
	hosts := slices.Clone(c.spec.Procs.Hosts)
	lease := agent.Lease{ID: c.spec.id(), Claim: c.spec.claim()}
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, confirmTimeout)
		defer cancel()
		errs := make([]error, len(hosts))
		fanout.Each(maxUrgentCalls, hosts, func(i int, h subjects.HostID) {
			said, err := agent.CallWithFallback(work, agent.Keepalive, hostAgent(p, h), lease)
			if err == nil && len(said) == 0 {
				err = fmt.Errorf("host %s has no rank of it", h.Label()) // its next hostd knows no owner
			}
			errs[i] = err
		})
		return func(ctx *actor.Context) {
			for _, err := range errs {
				c.checkFenced(ctx, err)
			}
			if slices.Contains(errs, nil) {
				then(ctx, nil)
				return
			}
			then(ctx, fmt.Errorf("no host of %s confirms its owner: %w", c.spec.id(), errors.Join(errs...)))
		}
	})
}

// resizedMesh returns the mesh after a request, or the reason why it cannot be.
func (c *controller) resizedMesh(r agent.ResizeRequest) (m agent.Mesh, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot resize %s: %w", c.spec.id(), err)
		}
	}()
	m = c.spec.Procs
	hosts := m.Hosts
	if err := c.checkGrowable(); err != nil {
		return m, err
	}
	switch {
	case c.announced != nil:
		return m, errors.New("its hosts change already: try again later")
	case len(c.evacuations) > 0:
		return m, errors.New("one of its hosts is drained: try again later")
	case (len(r.Add) == 0) == (r.Remove == 0):
		return m, fmt.Errorf("add %d hosts and remove %d: want either", len(r.Add), r.Remove)
	case r.Remove < 0 || r.Remove >= len(hosts):
		return m, fmt.Errorf("remove %d of %d hosts: want 1 to %d", r.Remove, len(hosts), len(hosts)-1)
	}
	for i, h := range r.Add {
		if !h.IsValid() || slices.Contains(hosts, h) || slices.Contains(r.Add[:i], h) ||
			slices.Contains(c.spares.hosts, h) {
			return m, fmt.Errorf("host %s: want hosts that the mesh does not have, also not as spares", h)
		}
		if _, died := c.diedHosts[h]; died {
			return m, fmt.Errorf("host %s died, and has not yet stopped its former ranks: try again later", h)
		}
	}
	m.FirstGen = c.firstGenOfAdded((len(hosts) - r.Remove) * m.PerHost)
	return m.Resize(slices.Concat(hosts[:len(hosts)-r.Remove], r.Add))
}

// checkGrowable returns the reason why the mesh can never change its hosts under this controller.
func (c *controller) checkGrowable() error {
	if !c.started || c.stopping || c.isOver() {
		return errors.New("it does not run")
	}
	return c.checkAttached()
}

// checkAttached refuses a change of a detached mesh: its actors have no owner that could follow.
func (c *controller) checkAttached() error {
	if c.spec.Detached {
		return fmt.Errorf("it is detached: adopt it first: castnet adopt %s", c.spec.Procs.ID.Label())
	}
	return nil
}

// checkResizer refuses to change the hosts of the mesh for the sender. That a mesh is detached
// comes first: no other sender could change it.
func (c *controller) checkResizer(ctx *actor.Context) error {
	if err := c.checkAttached(); err != nil {
		return fmt.Errorf("cannot change the hosts of %s: %w", c.spec.id(), err)
	}
	return checkOwner(ctx, c.spec)
}

// changesHosts reports whether the mesh has to finish a change of its hosts before the next one.
func (c *controller) changesHosts() bool { return c.announced != nil || len(c.evacuations) > 0 }

// addHosts starts the ranks of added hosts, then their actors, and announces them.
func (c *controller) addHosts(
	ctx *actor.Context, m agent.Mesh, limit time.Duration, done func(agent.Overlay),
) {
	first := c.spec.Region.NumRanks()
	by := time.Now().Add(limit)
	c.emit(ctx, "mesh.grow.attempt", fmt.Sprintf("to %d hosts", len(m.Hosts)))
	settle := func(ctx *actor.Context, o agent.Overlay) {
		if c.stopping || c.fenced != nil {
			done(o)
			return
		}
		if allRun(o) {
			c.handle(ctx, resized{})
			c.announce(ctx)
			c.emit(ctx, "mesh.grow.success", fmt.Sprintf("it has %d hosts", len(c.spec.Procs.Hosts)))
			done(o)
			return
		}
		c.emit(ctx, "mesh.grow.failed", "some added ranks did not start")
		back := c.spec.Procs
		back.FirstGen = c.firstGenOfAdded(first)
		back, err := back.Resize(back.Hosts[:first/back.PerHost])
		if err != nil { // it cannot fail: the mesh had this shape
			done(o)
			return
		}
		limit := config.MeshCleanupTimeout.Get(c.config)
		c.removeHosts(ctx, back, "the mesh did not grow", killGrace, limit, func(agent.Overlay) { done(o) })
	}
	c.addRanks(ctx, m, limit, func(ctx *actor.Context) {
		o := c.overlayFrom(first)
		if !allRun(o) || c.stopping || c.fenced != nil {
			settle(ctx, o)
			return
		}
		c.askFollowers(ctx, c.spec.Procs, first, time.Until(by), func(ctx *actor.Context, also agent.Overlay) {
			settle(ctx, c.overlayFrom(first).Merge(also))
		})
	})
}

// killGrace is the grace of ranks that did not start together.
const killGrace = time.Second

// allRun reports whether all ranks of an overlay run.
func allRun(o agent.Overlay) bool {
	return !slices.ContainsFunc(o, func(r agent.Run) bool { return r.Status.Phase != agent.Running })
}

// removeHosts announces the mesh without its last hosts, and stops the ranks there after their
// actors.
func (c *controller) removeHosts(
	ctx *actor.Context, m agent.Mesh, reason string, grace, limit time.Duration, done func(agent.Overlay),
) {
	by := time.Now().Add(limit)
	c.emit(ctx, "mesh.shrink.attempt", fmt.Sprintf("to %d hosts", len(m.Hosts)))
	c.handle(ctx, shrinkage{m, reason})
	c.shrunk = true
	c.announce(ctx)
	forFollowers := max(limit-grace, limit/2) // the rest is for the ranks, so the reply is in time
	c.askFollowers(ctx, m, m.Extent.NumRanks(), forFollowers, func(ctx *actor.Context, _ agent.Overlay) {
		c.stopRemoved(ctx, m, reason, grace, time.Until(by), func(ctx *actor.Context, o agent.Overlay) {
			step, left := "mesh.shrink.success", 0
			o.Each(m.Extent.NumRanks()+len(o), func(_ int, s agent.Status) {
				if !s.Phase.Terminal() {
					left++
				}
			})
			if left > 0 {
				step = "mesh.shrink.failed"
			}
			c.emit(ctx, step, fmt.Sprintf("it has %d hosts", len(m.Hosts)))
			done(o)
		})
	})
}

// announce reports the mesh with its present hosts: to processes that follow it, and to its hosts.
func (c *controller) announce(ctx *actor.Context) {
	m := c.description()
	ctx.Proc().Emit(actor.Event{
		Kind: actor.KindProc, Step: actor.StepResize, Status: "resized", Mesh: m.ID.String(),
		Revision: m.Revision, Reason: fmt.Sprintf("revision %d has %d hosts", m.Revision, len(m.Hosts)),
		At: time.Now(),
	})
	c.renewLeases(ctx, c.shares())
}

// addRanks starts the ranks of a grown mesh. It calls then once they run or have ended, or after
// limit.
func (c *controller) addRanks(
	ctx *actor.Context, m agent.Mesh, limit time.Duration, then func(*actor.Context),
) {
	before := len(c.spec.Procs.Hosts)
	first := c.spec.Region.NumRanks()
	c.handle(ctx, growth{m})
	c.useMesh(ctx)
	noteFirstGeneration(ctx.Proc(), m, first)
	c.assignProcs(ctx.Proc(), first)
	if o := c.orders; c.spec.Actors != nil {
		added := fmt.Sprintf("%s=%d:%d", m.Extent.Dims()[0].Label, before, len(m.Hosts))
		create := func(ctx context.Context, p *actor.Proc, m agent.Mesh, _ int) (agent.Overlay, error) {
			some, err := shape.ParseSelection(m.Extent, added)
			if err != nil {
				return nil, err
			}
			return o.createActors(ctx, cast.Select(o.procAgents(p, m), some)) // with points of the whole mesh
		}
		failed := func(ctx *actor.Context, _ int, err error) {
			c.handle(ctx, createFailure{first: first, err: err})
		}
		c.forEachShare(ctx, []int{0}, create, failed, nil)
	} else {
		c.forEachShare(ctx, c.shares()[before:], c.create, c.onCreateError, nil)
	}
	c.whenSettled(ctx, first, agent.Running, limit, then)
}

// stopRemoved stops the ranks that a smaller mesh does not have, and drops them. It calls then with
// their statuses, once the hosts have answered: a later stop would reach the ranks of the next
// growth.
func (c *controller) stopRemoved(
	ctx *actor.Context, m agent.Mesh, reason string, grace, limit time.Duration,
	then func(*actor.Context, agent.Overlay),
) {
	first := m.Extent.NumRanks()
	s := agent.StopRequest{ID: c.spec.id(), Reason: reason, Grace: grace, Claim: c.spec.claim()}
	shares := []int{0}
	if removed := lastHosts(c.spec.Procs, len(m.Hosts)); c.spec.Actors != nil {
		s.Region = &removed
	} else {
		shares = slices.DeleteFunc(c.shares()[len(m.Hosts):], func(host int) bool {
			return c.hosts[c.spec.Procs.Hosts[host]].State == presence.Dead
		})
	}
	o := c.orders
	stop := func(ctx context.Context, p *actor.Proc, at agent.Mesh, host int) (agent.Overlay, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		said, err := o.stop(ctx, p, at, host, s)
		if o.mesh.Actors != nil {
			said = said.Shift(first)
		}
		return said, err
	}
	open := 1 // the ranks, and stops without an answer
	ended := func(ctx *actor.Context) {
		open--
		if open > 0 {
			return
		}
		o := c.overlayFrom(first)
		c.handle(ctx, resized{})
		c.useMesh(ctx)
		then(ctx, o)
	}
	open += c.forEachShare(ctx, shares, stop, c.logStopError, ended)
	c.whenSettled(ctx, first, agent.Stopped, limit, ended)
}

// whenSettled calls then, once, when the ranks from first on have reached a phase or have ended. At
// the latest it calls after limit.
func (c *controller) whenSettled(
	ctx *actor.Context, first int, until agent.Phase, limit time.Duration, then func(*actor.Context),
) {
	over := false
	cancel := func() {}
	finish := func(ctx *actor.Context) {
		if !over {
			over = true
			cancel()
			then(ctx)
		}
	}
	last := lastHosts(c.spec.Procs, first/c.spec.Procs.PerHost)
	wait := agent.WaitRequest{ID: c.spec.id(), Until: until, Region: &last}
	giveUp := c.table.Wait(wait, func(agent.Overlay) { ctx.After(0, finish) }) // amid a change
	// A late caller has no time left.
	cancel = ctx.After(max(0, limit), func(ctx *actor.Context) {
		finish(ctx)
		giveUp()
	})
}

// useMesh makes orders and watches follow the hosts of the mesh.
func (c *controller) useMesh(ctx *actor.Context) {
	p := ctx.Proc()
	c.orders.mesh = new(c.spec)
	p.Members().NoteRanks(c.spec.Procs.ID, c.spec.Procs.Extent.NumRanks())
	if !c.isOver() {
		c.unwatch()
		c.watchHosts(p, actor.RefOf[agent.Agent](ctx.Self()).Via(p))
	}
}

// noteFirstGeneration records in the process the first procs of added ranks whose numbers belonged
// to removed ones.
func noteFirstGeneration(p *actor.Proc, m agent.Mesh, first int) {
	for rank := first; rank < m.Extent.NumRanks(); rank++ {
		id := m.ProcID(rank, m.FirstGen)
		p.Members().NoteGeneration(actor.Event{
			Kind: actor.KindProc, Status: string(actor.Running), Mesh: m.ID.String(), Rank: rank, Gen: m.FirstGen,
			ProcIndex: int(id.Index), PerProcess: m.PerProcess, Host: m.Hosts[rank/m.PerHost].String(), At: time.Now(),
		})
	}
}

// askFollowers asks the owners of actors on the mesh to follow it to other hosts. It calls then
// with the statuses of the actors on the ranks from first on. An owner that is gone has no actors
// there.
func (c *controller) askFollowers(
	ctx *actor.Context, m agent.Mesh, first int, limit time.Duration, then func(*actor.Context, agent.Overlay),
) {
	p := ctx.Proc()
	self := ctx.Self()
	stay := min(first, m.Extent.NumRanks())
	agents := c.procAgents(p, m)
	agents.target.Region, _ = m.Extent.Region().Slice(m.Extent.Dims()[0].Label, 0, stay/m.PerHost)
	m = *m.Public()
	refused := func(err error) agent.Overlay {
		s := agent.Status{Phase: agent.Failed, Reason: err.Error()}
		return agent.Overlay{{First: first, Count: m.Extent.NumRanks() - first, Status: s}}
	}
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, limit)
		defer cancel()
		var all agent.Overlay
		var mu sync.Mutex // guards all
		var wg sync.WaitGroup
		for _, owner := range ownersOn(work, agents, self) {
			wg.Go(func() {
				ref := actor.RefOf[agent.Agent](owner).Via(p)
				said, err := agent.Follow.Call(work, ref, agent.FollowRequest{Mesh: m})
				mu.Lock()
				defer mu.Unlock()
				if e, ok := errors.AsType[*actor.Error](err); err != nil && !(ok && e.Undeliverable()) {
					said = refused(err)
				}
				all = all.Merge(said)
			})
		}
		wg.Wait()
		return func(ctx *actor.Context) { then(ctx, all) }
	})
}

// ownersTimeout bounds the wait for procs to list their actors' owners.
const ownersTimeout = 2 * time.Second

// ownersOn returns the owners of the actors in the procs of a region, except one. Silent procs are
// left out.
func ownersOn(ctx context.Context, agents procAgents, but subjects.ActorID) (owners []subjects.ActorID) {
	ctx, cancel := context.WithTimeout(ctx, ownersTimeout)
	defer cancel()
	for _, r := range cast.Stream(ctx, agents, agent.Get, agent.GetRequest{}) {
		owners = appendOwners(owners, r.Value, but)
	}
	return owners
}

// Follow spawns the actors on added ranks of their procs' mesh, or stops them on removed ones.
// Actors on a part of the mesh stay there.
func (c *controller) Follow(ctx *actor.Context, f agent.FollowRequest) (agent.Overlay, error) {
	limit := c.spawnLimit()
	if d, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(d)*9/10)
	}
	c.follow(ctx, f.Mesh, time.Now().Add(limit), actor.Defer[agent.Overlay](ctx).Reply)
	return nil, nil
}

// followRetry is the pause before a change of the mesh that waits for an earlier one.
const followRetry = 50 * time.Millisecond

// follow is Follow. It calls done once.
func (c *controller) follow(
	ctx *actor.Context, m agent.Mesh, by time.Time, done func(agent.Overlay, error),
) {
	have := c.spec.Procs
	m.Owner = have.Owner // this controller, which owns the actors
	first := c.spec.Region.NumRanks()
	switch err := m.Check(); {
	case c.fenced != nil:
		done(nil, c.fenced)
	case err != nil:
		done(nil, err)
	case m.ID != have.ID || m.PerHost != have.PerHost:
		done(nil, fmt.Errorf("cannot follow mesh %s: %s is on %s", m.ID, c.spec.id(), have.ID))
	case m.Revision <= have.Revision || !c.started || c.stopping || c.isOver():
		done(nil, nil)
	case !c.spec.Region.Equal(have.Extent.Region()):
		done(nil, nil)
	case c.announced != nil && time.Now().After(by):
		done(nil, fmt.Errorf("cannot follow mesh %s: %s changes already", m.ID, c.spec.id()))
	case c.announced != nil:
		ctx.After(followRetry, func(ctx *actor.Context) { c.follow(ctx, m, by, done) })
	case len(m.Hosts) == len(have.Hosts): // it grew and shrank
		c.handle(ctx, growth{m})
		c.handle(ctx, resized{})
		done(nil, nil)
	case m.Extent.NumRanks() > first:
		c.addRanks(ctx, m, time.Until(by), func(ctx *actor.Context) {
			o := c.overlayFrom(first)
			c.handle(ctx, resized{})
			done(o, nil)
		})
	default:
		const reason = "its mesh shrinks"
		c.handle(ctx, shrinkage{m, reason})
		c.stopRemoved(ctx, m, reason, 0, time.Until(by), func(_ *actor.Context, o agent.Overlay) { done(o, nil) })
	}
}
