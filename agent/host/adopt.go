package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/failpoint"
	"github.com/castnet-io/castnet/internal/launch"
)

// found is a proc that an earlier host wrote down.
type found struct {
	kept
	process *launch.Child
	err     error // why it is not adopted
}

// takeOver adopts what an earlier host has left, and ends what it has not written down.
func (r *execRunner) takeOver() (all []found) {
	if r.store != nil {
		known := r.store.load()
		r.store.leases(known)
		for _, k := range known {
			child, err := r.launcher.Adopt(k.Process)
			all = append(all, found{k, child, err})
			failpoint.Hit("host-adopted")
		}
	}
	left, err := r.launcher.Census()
	if err != nil {
		r.opts.Log.Error().Err(err).Msg("not all that an earlier host left could be ended")
	}
	for _, l := range left {
		r.opts.Log.Warn().Str("proc", l.Name).Int("processes", l.Processes).Msg("an earlier host left it, and nobody knows it: ended")
	}
	failpoint.Hit("host-census")
	return all
}

// adopt puts a proc of an earlier host into the table, in the generation it has.
func (a *hostAgent) adopt(ctx *actor.Context, f found) {
	id := f.Mesh.ID.String()
	log := ctx.Log().With().Stringer("of", f.id()).Int("pid", f.Process.PID).Logger()
	ranks, err := a.share(f.Mesh)
	if err == nil {
		var hash string
		if hash, err = f.Mesh.Fingerprint(a.id); err == nil {
			_, err = a.table.Create(agent.Making{
				ID: id, Hash: hash, Ranks: ranks, Only: []int{f.Rank}, Gen: f.Gen, Mesh: &f.Mesh, Claim: f.Claim, At: a.id.Label(),
			})
		}
	}
	if err != nil { // it was written down wrongly: nobody can speak to it
		log.Error().Err(err).Msg("a proc of an earlier host is of no use: ended")
		if f.process != nil {
			f.process.Terminate(verdictGrace)
		}
		a.run.forget(f.id())
		return
	}
	c := &child{id: f.id(), mesh: f.Mesh, rank: f.Rank, nonce: f.Nonce, pushed: f.Config, adopted: true, outcome: make(chan outcome, 1)}
	if c.config, _, err = a.opts.Config.With(f.Config); err != nil {
		log.Warn().Err(err).Msg("what the client of a proc of an earlier host wanted is not understood: the host's own limits are in force")
		c.config = a.opts.Config
	}
	a.shares.put(c)
	a.describe(c)
	if f.err != nil {
		log.Warn().Err(f.err).Msg("a proc of an earlier host is not there any more")
		a.finish(ctx, c, agent.Status{Phase: agent.Failed, Reason: lost(f.err)}, nil)
		return
	}
	a.leases.Keep(ctx, id, f.Lease)
	c.outcome <- outcome{f.process, nil}
	a.launched(ctx, c)
	a.challenge(ctx, c)
}

// lost is why a proc is not there any more.
func lost(err error) string {
	switch {
	case errors.Is(err, launch.ErrOtherBoot):
		return "the machine was started anew"
	case errors.Is(err, launch.ErrGone), errors.Is(err, launch.ErrNotSame):
		return "it ended while no host agent watched it"
	}
	return err.Error()
}

const (
	// challengeAgain is between two attempts to reach an adopted proc: it may have to find the bus.
	challengeAgain = 100 * time.Millisecond
	// challengeOnce bounds one.
	challengeOnce = 2 * time.Second
)

// challenge makes sure that the process that was adopted is the proc (HOST-11), as a task. One that does not
// answer in time is ended, like one that is not ready in time.
func (a *hostAgent) challenge(ctx *actor.Context, c *child) {
	self, process, within := ctx.Self(), c.process, a.opts.ready(c.config)
	proc := agent.Of(c.id).Via(ctx.Proc())
	ctx.Go(func(work context.Context) func(*actor.Context) {
		if within > 0 {
			var cancel func()
			work, cancel = context.WithTimeout(work, within)
			defer cancel()
		}
		pid, err := ask(work, process, proc, agent.Readoption{Proc: c.id, Nonce: c.nonce, Host: self})
		failpoint.Hit("host-readopted")
		return func(ctx *actor.Context) {
			switch {
			case c.life.Over():
			case err != nil:
				a.end(c, "adopted, but not known to be the proc: "+err.Error())
			case pid != process.PID():
				a.end(c, fmt.Sprintf("adopted, but the proc answers from pid %d", pid))
			default:
				log := ctx.Log()
				log.Info().Stringer("of", c.id).Int("pid", pid).Msg("adopted")
				a.reached(ctx, c)
			}
		}
	})
}

// ask asks until there is an answer of the proc itself, or none can come.
func ask(ctx context.Context, process process, proc actor.Ref[agent.Agent], r agent.Readoption) (pid int, err error) {
	for {
		once, cancel := context.WithTimeout(ctx, challengeOnce)
		answer, err := agent.Readopt.Call(once, proc, r)
		cancel()
		e, ok := errors.AsType[*actor.Error](err)
		if err == nil || ok && e.Code == actor.CodeHandler {
			return answer.PID, err
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-process.Done():
			return 0, err
		case <-time.After(challengeAgain):
		}
	}
}
