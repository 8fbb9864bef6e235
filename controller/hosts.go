package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// holding is hosts that somebody has got. It means nothing when it comes from another process.
type holding struct{ hosts agent.Allocation }

// holdHosts makes hosts the controller's, in its own proc.
var holdHosts = actor.NewEndpoint[agent.Agent, holding, actor.None]("hold-hosts")

// Hold gives the controller of a mesh of hosts its hosts, in rank order, to give back when it stops or ends. When it fails
// they are still the caller's.
func Hold(ctx context.Context, ref actor.Ref[agent.Agent], hosts agent.Allocation) error {
	_, err := holdHosts.Call(ctx, ref, holding{hosts})
	return err
}

// hosts is the controller of a mesh of hosts.
type hosts struct {
	*hostState
	speaker
	config  *config.Config
	mine    *borrowed
	askers  []*asker
	leaving bool
}

// borrowed is hosts until they are given back.
type borrowed struct {
	mu   sync.Mutex // held while they are
	left agent.Allocation
}

// giveBack gives them back, unless they are already.
func (b *borrowed) giveBack(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == nil {
		return nil
	}
	err := b.left.Close(ctx)
	if err == nil {
		b.left = nil
	}
	return err
}

func newHosts(ctx *actor.Context, s Spec) (agent.Agent, error) {
	s.Procs.Owner = ctx.Self()
	st, err := newHostState(s)
	if err != nil {
		return nil, err
	}
	return &hosts{hostState: st, speaker: newSpeaker(st.record, st.phase), config: agent.ConfigOf(ctx.Proc())}, nil
}

// hold takes the hosts that the mesh is of. Whatever ends the controller ends the task, and so they are given back.
func (c *hosts) hold(ctx *actor.Context, h holding) (actor.None, error) {
	switch n := c.spec.Procs.Extent.NumRanks(); {
	case h.hosts == nil:
		return actor.None{}, errors.New("hold no hosts: want those that the caller has got")
	case c.held:
		return actor.None{}, fmt.Errorf("mesh %s has its hosts", c.spec.id())
	case c.stopping:
		return actor.None{}, fmt.Errorf("the controller of %s is stopping: it takes no hosts", c.spec.id())
	case len(h.hosts.Hosts()) != n:
		return actor.None{}, fmt.Errorf("mesh %s: %d hosts are not its %d", c.spec.id(), len(h.hosts.Hosts()), n)
	}
	c.mine = &borrowed{left: h.hosts}
	c.hear(ctx, hold{h.hosts.Hosts()})
	mine, id, log := c.mine, c.spec.id(), ctx.Log()
	unwatch := c.spec.watch(ctx.Proc(), actor.RefOf[agent.Agent](ctx.Self()).Via(ctx.Proc()), c.spec.Procs.Hosts)
	within := config.ActorCleanup.Get(c.config) * 9 / 10
	ctx.Go(func(work context.Context) func(*actor.Context) {
		<-work.Done()
		unwatch()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(work), within)
		defer cancel()
		if err := mine.giveBack(ctx); err != nil {
			log.Warn().Err(err).Str("mesh", id).Msg("hosts were not given back")
		}
		return nil
	})
	return actor.None{}, nil
}

// watch has a controller hear how hosts are, until the function it returns is called.
func (s Spec) watch(p *actor.Proc, self actor.Ref[agent.Agent], hosts []subjects.HostID) (unwatch func()) {
	if s.Presence == nil {
		return func() {}
	}
	return s.Presence.Watch(hosts, func(h presence.Change) {
		if err := heard.Post(context.Background(), self, word{hostIs(h)}); err != nil && !errors.Is(err, actor.ErrStopped) {
			log := p.Log()
			log.Warn().Err(err).Stringer("host", h.Host).Msg("a controller missed how a host is")
		}
	})
}

// hear takes what has happened, and does what follows from it. The owner's log has the failures, streams have everything.
func (c *hosts) hear(ctx *actor.Context, what any) {
	x := c.step(what, time.Now())
	for _, e := range x.news {
		if log := ctx.Log(); e.Failed() {
			log.Warn().Msg(e.String())
		}
		c.streams.Tell(ctx, c.spec.id(), e)
	}
	switch h := what.(type) {
	case halt:
		if x.give {
			c.close(ctx, h.within)
		} else if !c.giving {
			c.answer(ctx, nil)
		}
	case given:
		c.answer(ctx, h.err)
	}
}

// close gives the hosts back, off the turn.
func (c *hosts) close(ctx *actor.Context, within time.Duration) {
	mine := c.mine
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, within)
		defer cancel()
		err := mine.giveBack(work)
		return func(ctx *actor.Context) { c.hear(ctx, given{err}) }
	})
}

// answer answers all who wait.
func (c *hosts) answer(ctx *actor.Context, err error) {
	all := c.askers
	c.askers = nil
	for _, w := range all {
		w.answer(ctx, err)
	}
}

// Create answers how the hosts are: whoever has started the controller gets them.
func (c *hosts) Create(*actor.Context, agent.Creation) (agent.Overlay, error) {
	if c.leaving {
		return nil, fmt.Errorf("the controller of %s is stopping: it creates nothing", c.spec.id())
	}
	return c.table.Overlay(c.spec.id()), nil
}

// Stop gives the hosts back and answers once that is done, or at the deadline with the statuses as they are. Why it could
// not be done is an error, and the next Stop does it again.
func (c *hosts) Stop(ctx *actor.Context, s agent.Stopping) (agent.Overlay, error) {
	if !c.names(s.ID) {
		return nil, nil
	}
	if r := s.Region; r != nil && !r.Equal(c.spec.Region) {
		return nil, fmt.Errorf("stop %s of the hosts %s: they are given back as a whole", r, c.spec.id())
	}
	answer := actor.Defer[agent.Overlay](ctx)
	c.giveBack(ctx, s.Reason, func(_ *actor.Context, err error) { answer.Reply(c.table.Overlay(c.spec.id()), err) })
	return nil, nil
}

// StopAll gives the hosts back, and then the controller ends (AGT-8).
func (c *hosts) StopAll(ctx *actor.Context, s agent.StoppingAll) (agent.Summary, error) {
	c.leaving = true
	var asked []agent.State
	for _, st := range c.table.States("") {
		if !st.Status.Phase.Terminal() {
			asked = append(asked, st)
		}
	}
	answer := actor.Defer[agent.Summary](ctx)
	c.giveBack(ctx, s.Reason, func(ctx *actor.Context, err error) {
		now := c.table.States("")
		for i, st := range asked {
			asked[i] = now[st.Rank]
			asked[i].Mesh = nil
		}
		answer.Reply(agent.Summarize(asked), err)
		ctx.Stop(s.Reason)
	})
	return agent.Summary{}, nil
}

// giveBack calls then once the hosts are given back, or that has failed, and at the latest shortly before the asker's deadline.
func (c *hosts) giveBack(ctx *actor.Context, reason string, then func(*actor.Context, error)) {
	within := config.MeshStopDeadline.Get(c.config)
	if d, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(d)*9/10)
	}
	w := &asker{then: then}
	w.cancel = ctx.After(max(0, within), func(ctx *actor.Context) { w.answer(ctx, nil) })
	c.askers = append(c.askers, w)
	c.hear(ctx, halt{reason, within * 9 / 10})
}

// asker is somebody who waits for the hosts to be given back.
type asker struct {
	then   func(*actor.Context, error)
	cancel func()
	over   bool
}

func (w *asker) answer(ctx *actor.Context, err error) {
	if !w.over {
		w.over = true
		w.cancel()
		w.then(ctx, err)
	}
}

// report is what the controller knows.
func (c *hosts) report() Report { return c.speaker.report() }

var (
	_ owner             = (*hosts)(nil)
	_ actor.Undeliverer = (*hosts)(nil)
)
