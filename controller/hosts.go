package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// hostAllocation carries taken hosts to the controller. From another process it has no effect.
type hostAllocation struct{ hosts agent.Allocation }

// allocateHosts hands hosts to the controller, within one proc.
var allocateHosts = actor.NewEndpoint[agent.Agent, hostAllocation, actor.None]("hold-hosts")

// HoldAllocation gives the controller of a mesh of hosts its hosts, in rank order. The controller
// releases them when it stops or ends. After an error they still belong to the caller.
func HoldAllocation(ctx context.Context, ref actor.Ref[agent.Agent], hosts agent.Allocation) error {
	_, err := allocateHosts.Call(ctx, ref, hostAllocation{hosts})
	return err
}

// hostsController is the controller of a mesh of hosts.
type hostsController struct {
	*hostState
	recordServer
	config         *config.Config
	allocation     *heldAllocation
	releaseWaiters []*releaseWaiter
	shuttingDown   bool
}

// heldAllocation holds hosts until they are released.
type heldAllocation struct {
	mu         sync.Mutex // held during a release
	allocation agent.Allocation
}

// release releases the hosts once; after a failure it can be called again.
func (b *heldAllocation) release(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.allocation == nil {
		return nil
	}
	err := b.allocation.Close(ctx)
	if err == nil {
		b.allocation = nil
	}
	return err
}

func newHostsController(ctx *actor.Context, s Spec) (agent.Agent, error) {
	s.Procs.Owner = ctx.Self()
	st, err := newHostState(s)
	if err != nil {
		return nil, err
	}
	return &hostsController{
		hostState: st, recordServer: newRecordServer(st.meshRecord, st.phase), config: agent.ConfigOf(ctx.Proc()),
	}, nil
}

// holdAllocation stores the hosts of the mesh. The controller's end also ends the task, and thus
// releases the hosts.
func (c *hostsController) holdAllocation(ctx *actor.Context, h hostAllocation) (actor.None, error) {
	switch n := c.spec.Procs.Extent.NumRanks(); {
	case h.hosts == nil:
		return actor.None{}, errors.New("cannot hold hosts: want an allocation of this process")
	case c.allocated:
		return actor.None{}, fmt.Errorf("cannot hold hosts: mesh %s has its hosts", c.spec.id())
	case c.stopping:
		return actor.None{}, fmt.Errorf("cannot hold hosts: the controller of %s is stopping", c.spec.id())
	case len(h.hosts.Hosts()) != n:
		return actor.None{}, fmt.Errorf("cannot hold %d hosts: mesh %s wants %d",
			len(h.hosts.Hosts()), c.spec.id(), n)
	}
	c.allocation = &heldAllocation{allocation: h.hosts}
	c.handle(ctx, allocated{h.hosts.Hosts()})
	mine := c.allocation
	id := c.spec.id()
	log := ctx.Log()
	self := actor.RefOf[agent.Agent](ctx.Self()).Via(ctx.Proc())
	unwatch := c.spec.watch(ctx.Proc(), self, c.spec.Procs.Hosts)
	within := config.ActorCleanupTimeout.Get(c.config) * 9 / 10
	ctx.Go(func(work context.Context) func(*actor.Context) {
		<-work.Done()
		unwatch()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(work), within)
		defer cancel()
		if err := mine.release(ctx); err != nil {
			log.Warn().Err(err).Str("mesh", id).Msg("cannot release the hosts")
		}
		return nil
	})
	return actor.None{}, nil
}

// watch passes changes of hosts to a controller, until the function that it returns is called.
func (s Spec) watch(p *actor.Proc, self actor.Ref[agent.Agent], hosts []subjects.HostID) (unwatch func()) {
	if s.Presence == nil {
		return func() {}
	}
	return s.Presence.Watch(hosts, func(h presence.Change) {
		err := notify.Send(context.Background(), self, notification{hostChange(h)})
		if err != nil && !isEnded(err) {
			log := p.Log()
			log.Warn().Err(err).Stringer("host", h.Host).Msg("the controller missed a change of a host")
		}
	})
}

// handle applies an event and runs its effects. Other programs watch the hosts themselves, so no
// event goes to the bus.
func (c *hostsController) handle(ctx *actor.Context, what any) {
	x := c.step(what, time.Now())
	for _, e := range x.events {
		if log := ctx.Log(); e.Failed() {
			log.Warn().Msg(e.String())
		}
	}
	switch h := what.(type) {
	case release:
		if x.release {
			c.releaseHosts(ctx, h.within)
		} else if !c.releasing {
			c.answerWaiters(ctx, nil)
		}
	case released:
		c.answerWaiters(ctx, h.err)
	}
}

// releaseHosts releases the hosts, off the controller's turn.
func (c *hostsController) releaseHosts(ctx *actor.Context, within time.Duration) {
	mine := c.allocation
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, within)
		defer cancel()
		err := mine.release(work)
		return func(ctx *actor.Context) { c.handle(ctx, released{err}) }
	})
}

// answerWaiters replies to all waiters.
func (c *hostsController) answerWaiters(ctx *actor.Context, err error) {
	all := c.releaseWaiters
	c.releaseWaiters = nil
	for _, w := range all {
		w.answer(ctx, err)
	}
}

// Create returns the statuses of the hosts. The program that starts the controller provides them.
func (c *hostsController) Create(*actor.Context, agent.CreateRequest) (agent.Overlay, error) {
	if c.shuttingDown {
		return nil, fmt.Errorf("cannot create mesh %s: its controller is stopping", c.spec.id())
	}
	return c.table.Overlay(c.spec.id()), nil
}

// Stop releases the hosts, then replies; at the deadline it replies with the present statuses. A
// failure is an error, and the next Stop tries again.
func (c *hostsController) Stop(ctx *actor.Context, s agent.StopRequest) (agent.Overlay, error) {
	if err := checkOwner(ctx, c.spec); err != nil {
		return nil, err
	}
	if !c.isFor(s.ID) {
		return nil, nil
	}
	if r := s.Region; r != nil && !r.Equal(c.spec.Region) {
		return nil, fmt.Errorf("cannot release region %s of hosts %s: want all hosts", r, c.spec.id())
	}
	answer := actor.Defer[agent.Overlay](ctx)
	c.requestRelease(ctx, s.Reason, func(_ *actor.Context, err error) {
		answer.Reply(c.table.Overlay(c.spec.id()), err)
	})
	return nil, nil
}

// StopAll releases the hosts, and then ends the controller (AGT-8).
func (c *hostsController) StopAll(ctx *actor.Context, s agent.StopAllRequest) (agent.StopSummary, error) {
	if err := checkOwner(ctx, c.spec); err != nil {
		return agent.StopSummary{}, err
	}
	c.shuttingDown = true
	asked := agent.Alive(c.table.States(""))
	answer := actor.Defer[agent.StopSummary](ctx)
	c.requestRelease(ctx, s.Reason, func(ctx *actor.Context, err error) {
		answer.Reply(c.table.SummarizeStop(asked), err)
		ctx.Stop(s.Reason)
	})
	return agent.StopSummary{}, nil
}

// requestRelease releases the hosts. It calls then when they are released, after a failure, or
// shortly before the caller's deadline.
func (c *hostsController) requestRelease(
	ctx *actor.Context, reason string, then func(*actor.Context, error),
) {
	within := config.MeshStopTimeout.Get(c.config)
	if d, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(d)*9/10)
	}
	w := &releaseWaiter{then: then}
	w.cancel = ctx.After(max(0, within), func(ctx *actor.Context) { w.answer(ctx, nil) })
	c.releaseWaiters = append(c.releaseWaiters, w)
	c.handle(ctx, release{reason, within * 9 / 10})
}

// releaseWaiter is a caller that waits for the release of the hosts.
type releaseWaiter struct {
	then   func(*actor.Context, error)
	cancel func()
	done   bool
}

func (w *releaseWaiter) answer(ctx *actor.Context, err error) {
	if !w.done {
		w.done = true
		w.cancel()
		w.then(ctx, err)
	}
}

// report returns the controller's Report.
func (c *hostsController) report() Report { return c.recordServer.report() }

var _ meshController = (*hostsController)(nil)
