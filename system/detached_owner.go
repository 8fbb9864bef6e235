package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// takeRetry is the time between two attempts to take over a detached mesh.
	takeRetry = time.Second
	// endPollTimeout bounds one wait for the end of a detached mesh.
	endPollTimeout = 25 * time.Second
)

// takeDetached makes a controller in this proc the owner of a detached mesh.
func (c *Controller) takeDetached(ctx *actor.Context, r DetachedRecord) {
	leave := new(atomic.Bool)
	leave.Store(c.service.store != nil) // without a store no controller follows this one
	c.released[r.Mesh] = leave
	c.retryTake(ctx, r, leave, time.Now())
}

// retryTake repeats the takeover until it succeeds or can never succeed. The former owner in this
// proc has the same name, and so ends first.
func (c *Controller) retryTake(ctx *actor.Context, r DetachedRecord, leave *atomic.Bool, began time.Time) {
	if c.st.detached.current(r.Mesh, r.CurrentClaim.Epoch) == nil {
		return
	}
	p := ctx.Proc()
	before := p.StopActor(r.Mesh.String(), "replaced by the owner of the next epoch")
	ctx.Go(func(work context.Context) func(*actor.Context) {
		if before != nil {
			select {
			case <-before:
			case <-work.Done():
			}
		}
		owner, again, err := c.takeOnce(work, p, r, leave)
		if again && r.Lease > 0 && time.Since(began) > r.lease() {
			again = false
			err = fmt.Errorf("its hosts did not answer for longer than its lease: %w", err)
		}
		return func(ctx *actor.Context) {
			c.handle(ctx, takeResult{r.Mesh, r.CurrentClaim.Epoch, err, again})
			switch {
			case again:
				ctx.After(takeRetry, func(ctx *actor.Context) { c.retryTake(ctx, r, leave, began) })
			case err == nil:
				c.watchDetached(ctx, r, owner)
			default:
				if c.released[r.Mesh] == leave {
					delete(c.released, r.Mesh)
				}
				log := ctx.Log()
				log.Warn().Err(err).Stringer("mesh", r.Mesh).Msg("cannot take over the detached mesh: dropped it")
			}
		}
	})
}

// checkPrincipal compares the principal of a mesh at its hosts with the detaching one (AGT-13). A
// process in a sender is no evidence: another principal can name it.
func (r DetachedRecord) checkPrincipal(states []agent.State) error {
	if !r.By.IsValid() || r.By.Role() == subjects.Operator {
		return nil
	}
	for _, s := range states {
		if s.Principal.IsValid() && s.Principal.Role() != subjects.System && s.Principal != r.By.Principal() {
			return &agent.NotOwnerError{
				Object: "mesh " + r.Mesh.String(), Owner: r.OriginalClaim.Owner.String(),
				Principal: s.Principal.String(), By: r.By,
			}
		}
	}
	return nil
}

// takeOnce asks the hosts for their shares of the mesh, and starts a controller that takes over
// from the owner they know. again: some hosts did not answer.
func (c *Controller) takeOnce(
	ctx context.Context, p *actor.Proc, r DetachedRecord, leave *atomic.Bool,
) (owner actor.Ref[agent.Agent], again bool, err error) {
	states, silent := c.statesOf(ctx, p, r)
	spec, err := controller.TakeOver(r.Mesh, states, 0)
	if err != nil {
		return owner, silent != nil, errors.Join(err, silent)
	}
	if has := newestClaim(states); has != (agent.Claim{}) && !r.isOwnClaim(has) {
		// A silent host may know the newer claim. Only the owner of a mesh detaches it.
		again := silent != nil && has.Epoch < r.OriginalClaim.Epoch
		return owner, again, &agent.FencedError{
			ID: r.Mesh.String(), Agent: atSystem, Requested: r.OriginalClaim, Current: has,
		}
	}
	if err := r.checkPrincipal(states); err != nil {
		return owner, false, err
	}
	spec.Epoch = r.CurrentClaim.Epoch
	spec.Lease = r.lease()
	spec.RestartPolicy = r.RestartPolicy.WithoutSpares(spec.Procs.Hosts)
	spec.Name = r.Display
	spec.Presence = c.hosts
	spec.Renewer = c.renewer
	spec.KeepOnStop = leave.Load
	spec.Detached = true
	ctx, cancel := context.WithTimeout(ctx, hostInventoryTimeout)
	defer cancel()
	id, err := p.Spawn(ctx, actor.SpawnSpec{
		Type: controller.Type.Name(), Name: r.Mesh.String(), Params: spec, Mailbox: agent.MailboxSize,
	})
	if err != nil {
		return owner, false, err
	}
	owner = actor.RefOf[agent.Agent](id).Via(p)
	_, err = agent.Create.Call(ctx, owner, agent.CreateRequest{})
	for heard := false; err == nil && !heard; {
		// A controller that is fenced meanwhile returns unknown ranks; the next Wait gets the
		// error.
		var o agent.Overlay
		o, err = agent.Wait.Call(ctx, owner, agent.WaitRequest{ID: r.Mesh.String(), Until: agent.Running})
		heard = !slices.ContainsFunc(o, func(run agent.Run) bool { return run.Status.Phase < agent.Running })
	}
	if errors.Is(err, actor.ErrDeadline) {
		err = nil // a silent host learns of its owner with a lease renewal
	}
	if err != nil {
		leave.Store(true)
		p.StopActor(id.Name, err.Error())
	}
	return owner, false, err
}

// statesOf returns the hosts' states of a mesh, and the errors of silent hosts.
func (c *Controller) statesOf(ctx context.Context, p *actor.Proc, r DetachedRecord) ([]agent.State, error) {
	ctx, cancel := context.WithTimeout(ctx, hostInventoryTimeout)
	defer cancel()
	said, errs := askHosts(r.Hosts, func(h subjects.HostID) ([]agent.State, error) {
		states, err := agent.Get.Call(ctx, c.agentOf(p, h), agent.GetRequest{ID: r.Mesh.String()})
		if err != nil {
			err = fmt.Errorf("host %s: %w", h.Label(), err)
		}
		return states, err
	})
	return slices.Concat(said...), errors.Join(errs...)
}

// newestClaim returns the newest claim on a mesh that its hosts know.
func newestClaim(states []agent.State) (has agent.Claim) {
	for _, s := range states {
		if s.Claim != nil && s.Claim.Compare(has) > 0 {
			has = *s.Claim
		}
	}
	return has
}

// lease is the lease of the procs under the system; negative: none.
func (r DetachedRecord) lease() time.Duration {
	if r.Lease == 0 {
		return -1
	}
	return max(r.Lease, minLease)
}

// watchDetached waits until a detached mesh has ended or has another owner.
func (c *Controller) watchDetached(ctx *actor.Context, r DetachedRecord, owner actor.Ref[agent.Agent]) {
	ctx.Go(func(work context.Context) func(*actor.Context) {
		by, why, known := pollEnd(work, r, owner)
		return func(ctx *actor.Context) {
			if known {
				c.handle(ctx, detachedEnd{r.Mesh, r.CurrentClaim.Epoch, by, why})
			} else if c.st.detached.current(r.Mesh, r.CurrentClaim.Epoch) != nil {
				ctx.After(takeRetry, func(ctx *actor.Context) { c.watchDetached(ctx, r, owner) })
			}
		}
	})
}

// pollEnd waits for the end of a detached mesh. known: it has ended, or by has it.
func pollEnd(
	ctx context.Context, r DetachedRecord, owner actor.Ref[agent.Agent],
) (by agent.Claim, why string, known bool) {
	ctx, cancel := context.WithTimeout(ctx, endPollTimeout)
	defer cancel()
	o, err := agent.Wait.Call(ctx, owner, agent.UntilEnded(r.Mesh.String()))
	if fenced := agent.AsFenced(err); fenced != nil {
		return fenced.Current, fenced.Error(), true
	}
	if err != nil {
		return by, "", false
	}
	for _, run := range o {
		if !run.Status.Phase.Terminal() {
			return by, "", false
		}
	}
	return by, "it has ended", true
}

// releaseDetached ends the controller of a detached mesh.
func (c *Controller) releaseDetached(ctx *actor.Context, e releaseDetached) {
	if leave := c.released[e.mesh]; leave != nil {
		leave.Store(!e.stop)
		delete(c.released, e.mesh)
	}
	ctx.Proc().StopActor(e.mesh.String(), e.why)
}
