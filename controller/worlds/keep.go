package worlds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
)

const (
	// takeAgain is between two tries to take a detached mesh over.
	takeAgain = time.Second
	// hostsAtOnce is how many hosts of a detached mesh are asked at a time.
	hostsAtOnce = 64
	// followAgain is how long one question may take whether a detached mesh has ended.
	followAgain = 25 * time.Second
)

// take makes a controller in this proc the owner of a detached mesh.
func (c *Controller) take(ctx *actor.Context, r DetachedRecord) {
	leave := new(atomic.Bool)
	leave.Store(c.service.store != nil) // else nobody follows this controller
	c.keepers[r.Mesh] = leave
	c.tryTake(ctx, r, leave, time.Now())
}

// tryTake does so until it is done, or known never to be. Who had the mesh in this proc before ends first: he has the
// same name.
func (c *Controller) tryTake(ctx *actor.Context, r DetachedRecord, leave *atomic.Bool, began time.Time) {
	if c.st.current(r.Mesh, r.Now.Epoch) == nil {
		return
	}
	p := ctx.Proc()
	before := p.StopActor(r.Mesh.String(), "another follows it")
	ctx.Go(func(work context.Context) func(*actor.Context) {
		if before != nil {
			select {
			case <-before:
			case <-work.Done():
			}
		}
		owner, again, err := c.takeOnce(work, p, r, leave)
		if again && r.Lease > 0 && time.Since(began) > r.lease() {
			again, err = false, fmt.Errorf("its hosts did not answer for longer than its lease: %w", err)
		}
		return func(ctx *actor.Context) {
			c.hear(ctx, took{r.Mesh, r.Now.Epoch, err, again})
			switch {
			case again:
				ctx.After(takeAgain, func(ctx *actor.Context) { c.tryTake(ctx, r, leave, began) })
			case err == nil:
				c.follow(ctx, r, owner)
			default:
				if c.keepers[r.Mesh] == leave {
					delete(c.keepers, r.Mesh)
				}
				log := ctx.Log()
				log.Warn().Err(err).Stringer("mesh", r.Mesh).Msg("a detached mesh is not the system's any more")
			}
		}
	})
}

// takeOnce asks the hosts what they have of the mesh, and has a controller follow the owner that they know. again: not
// all hosts have answered.
func (c *Controller) takeOnce(ctx context.Context, p *actor.Proc, r DetachedRecord, leave *atomic.Bool) (owner actor.Ref[agent.Agent], again bool, err error) {
	states, silent := c.statesOf(ctx, p, r)
	spec, err := controller.TakeOver(r.Mesh, states, 0)
	if err != nil {
		return owner, silent != nil, errors.Join(err, silent)
	}
	if has := newestClaim(states); has.Epoch >= r.Given.Epoch && !r.mine(has) {
		return owner, false, &agent.FencedError{ID: r.Mesh.String(), At: atSystem, Asked: r.Given, Has: has}
	}
	spec.Epoch, spec.Lease, spec.Policy, spec.Name = r.Now.Epoch, r.lease(), r.Policy.On(spec.Procs.Hosts), r.Display
	spec.Presence, spec.Keeper, spec.Leave = c.hosts, c.keeps, leave.Load
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	id, err := p.Spawn(ctx, actor.Spawning{Type: controller.Type.Name(), Name: r.Mesh.String(), Params: spec, Mailbox: agent.Mailbox})
	if err != nil {
		return owner, false, err
	}
	owner = actor.RefOf[agent.Agent](id).Via(p)
	_, err = agent.Create.Call(ctx, owner, agent.Creation{})
	for heard := false; err == nil && !heard; {
		var o agent.Overlay // with ranks that are not known when the controller was fenced: it says so the next time
		o, err = agent.Wait.Call(ctx, owner, agent.Waiting{ID: r.Mesh.String(), Until: agent.Running})
		heard = !slices.ContainsFunc(o, func(run agent.Run) bool { return run.Status.Phase < agent.Running })
	}
	if errors.Is(err, actor.ErrDeadline) {
		err = nil // a host is silent: it hears of its owner when the lease is renewed
	}
	if err != nil {
		leave.Store(true)
		p.StopActor(id.Name, err.Error())
	}
	return owner, false, err
}

// statesOf is what the hosts say of a mesh, and the error of those that say nothing.
func (c *Controller) statesOf(ctx context.Context, p *actor.Proc, r DetachedRecord) ([]agent.State, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var states []agent.State
	var errs []error
	slots := make(chan struct{}, hostsAtOnce)
	for _, h := range r.Hosts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			said, err := agent.Get.Call(ctx, c.agentOf(p, h), agent.Query{ID: r.Mesh.String()})
			mu.Lock()
			defer mu.Unlock()
			states = append(states, said...)
			if err != nil {
				errs = append(errs, fmt.Errorf("host %s: %w", h.Label(), err))
			}
		})
	}
	wg.Wait()
	return states, errors.Join(errs...)
}

// newestClaim is that of who owns a mesh, as its hosts know it.
func newestClaim(states []agent.State) (has agent.Claim) {
	for _, s := range states {
		if s.Claim != nil && s.Claim.Compare(has) > 0 {
			has = *s.Claim
		}
	}
	return has
}

// lease is that of the procs in the care of the system; less than 0: none.
func (r DetachedRecord) lease() time.Duration {
	if r.Lease == 0 {
		return -1
	}
	return max(r.Lease, minLease)
}

// follow hears when a detached mesh has ended, or another owner has it.
func (c *Controller) follow(ctx *actor.Context, r DetachedRecord, owner actor.Ref[agent.Agent]) {
	ctx.Go(func(work context.Context) func(*actor.Context) {
		by, why, known := followOnce(work, r, owner)
		return func(ctx *actor.Context) {
			switch {
			case known:
				c.hear(ctx, over{r.Mesh, r.Now.Epoch, by, why})
			case c.st.current(r.Mesh, r.Now.Epoch) != nil:
				ctx.After(takeAgain, func(ctx *actor.Context) { c.follow(ctx, r, owner) })
			}
		}
	})
}

func followOnce(ctx context.Context, r DetachedRecord, owner actor.Ref[agent.Agent]) (by agent.Claim, why string, known bool) {
	ctx, cancel := context.WithTimeout(ctx, followAgain)
	defer cancel()
	o, err := agent.Wait.Call(ctx, owner, agent.Ended(r.Mesh.String()))
	switch fenced := agent.Fenced(err); {
	case fenced != nil:
		return fenced.Has, fenced.Error(), true
	case err != nil:
		return by, "", false
	}
	for _, run := range o {
		if !run.Status.Phase.Terminal() {
			return by, "", false
		}
	}
	return by, "it has ended", true
}

// letGo ends the controller of a detached mesh.
func (c *Controller) letGo(ctx *actor.Context, e letGo) {
	if leave := c.keepers[e.mesh]; leave != nil {
		leave.Store(!e.stop)
		delete(c.keepers, e.mesh)
	}
	ctx.Proc().StopActor(e.mesh.String(), e.why)
}
