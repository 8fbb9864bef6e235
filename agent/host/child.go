package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/subjects"
)

// child is one proc that was launched here.
type child struct {
	id      subjects.ProcID
	mesh    agent.Mesh
	rank    int
	nonce   string
	share   *share // counts it
	life    agent.Life
	pushed  keys.Snapshot // what its client says
	config  *keys.Config  // the host's with that
	giveUp  func()        // ends the launch that is under way
	outcome chan outcome  // holds what became of the launch
	process process       // nil until it is known
	output  *output       // of process
	verdict string        // why the host ends it: overrides how it exits
	asked   bool          // somebody asked it to stop
	why     string        // what they said
	adopted bool          // an earlier host launched it
	slot    bool          // it is one of the stops that are under way
	early   bool          // it said that it is ready before its launch was over
	overdue bool          // its grace is over, and that was told
}

// outcome is what became of a launch.
type outcome struct {
	process process
	err     error
}

// bootstrap is what a proc is told when it is launched.
func (a *hostAgent) bootstrap(ctx *actor.Context, c *child) agent.Bootstrap {
	c.nonce = rand.Text()
	var first uint64
	if c.mesh.Keep { // one of an earlier life of this host may have spoken before it was ended
		first = a.first
	}
	return agent.Bootstrap{
		Mesh: c.mesh, Rank: c.rank, Gen: int(c.id.Gen), Host: ctx.Self(), Nonce: c.nonce, Bus: a.opts.Settings,
		Root: a.opts.Space.Root(), Namespace: a.opts.Space.Namespace(),
		Level: cmp.Or(a.opts.Level, keys.ProcLogLevel.Get(c.config)), Within: a.opts.ready(c.config), Config: c.pushed, Orphan: keys.ProcAdoption.Get(c.config), First: first,
	}
}

func (a *hostAgent) status(c *child) agent.Status { return a.table.Status(c.mesh.ID.String(), c.rank) }

// launched takes the outcome of a start.
func (a *hostAgent) launched(ctx *actor.Context, c *child) {
	o := <-c.outcome
	if o.err != nil {
		s := agent.Status{Phase: agent.Failed, Reason: o.err.Error()}
		switch {
		case c.verdict != "":
			s.Reason = c.verdict
		case c.asked: // it was stopped while it started
			s = agent.Status{Phase: agent.Stopped, Reason: c.why}
		}
		a.finish(ctx, c, s, nil)
		return
	}
	c.process = o.process
	a.move(ctx, c, agent.Started)
	if keys.LogsForward.Get(c.config) {
		c.output = a.followOutput(ctx, c.id, c.process)
	}
	if c.verdict != "" || c.asked {
		c.process.Terminate(verdictGrace)
	}
	a.await(ctx, c)
	if a.run.readyAtStart() || c.early {
		a.reached(ctx, c)
	}
}

// await waits for the end of a proc as a task, and until its output is on the bus: who is told of the end
// has what it said (HOST-8). An end that nobody asked for is told soon, output or not.
func (a *hostAgent) await(ctx *actor.Context, c *child) {
	process, out, overdue := c.process, c.output, c.process.Overdue()
	if c.overdue {
		overdue = nil
	}
	ctx.Go(func(context.Context) func(*actor.Context) {
		select {
		case <-overdue:
			return func(ctx *actor.Context) {
				a.late(ctx, c)
				a.await(ctx, c)
			}
		case <-process.Done(): // at the latest when the launcher closes
		}
		e := process.Exit()
		out.drain(e, newsWithin)
		return func(ctx *actor.Context) {
			if !c.asked {
				a.exited(ctx, c, e)
				return
			}
			ctx.Go(func(context.Context) func(*actor.Context) {
				out.drain(e, drainWithin)
				return func(ctx *actor.Context) { a.exited(ctx, c, e) }
			})
		}
	})
}

// ready takes a proc's word that it can be reached (HOST-4). An error makes it exit.
func (a *hostAgent) ready(ctx *actor.Context, r agent.Readiness) error {
	c := a.shares.find(r.Proc)
	switch {
	case c == nil || c.nonce == "" || c.nonce != r.Nonce:
		return fmt.Errorf("proc %s is not one that host %s launched", r.Proc, a.id)
	case c.mesh.Build != "" && c.mesh.Build != r.Build:
		a.end(c, fmt.Sprintf("%s on host %s is build %s, the caller is build %s: install the caller's build there", c.mesh.Command.Path, a.id.Label(), r.Build, c.mesh.Build))
	}
	if c.verdict != "" {
		return errors.New(c.verdict)
	}
	if c.early = c.process == nil; !c.early { // else nobody knows its process, nor is a kept one written down
		a.reached(ctx, c)
	}
	return nil
}

// reached notes that a proc runs, and tells when it was the last of a launch.
func (a *hostAgent) reached(ctx *actor.Context, c *child) {
	a.move(ctx, c, agent.Reached)
	id := c.mesh.ID.String()
	if !a.table.Advance(id, c.rank, agent.Status{Phase: agent.Running}) {
		return
	}
	if a.changed(ctx, c); c.id.Gen > 0 { // whoever sends to the mesh sends here from now on
		e := a.event(c)
		e.Step = "proc.restart.success"
		ctx.Proc().Emit(e)
	}
	if all := c.share.procs; c.share.running == len(all) {
		a.step(ctx, "procs.launch.success", c.mesh, slices.Min(slices.Collect(maps.Keys(all))), len(all), agent.Status{Phase: agent.Running})
	}
}

// verdictGrace is what a proc gets that the host ends, or that was stopped before it ran.
const verdictGrace = time.Second

// end kills a proc for a reason that its status will give.
func (a *hostAgent) end(c *child, verdict string) {
	if c.verdict == "" {
		c.verdict = verdict
	}
	c.terminate(verdictGrace)
}

// terminate ends a proc, or its launch if that is under way.
func (c *child) terminate(grace time.Duration) {
	switch {
	case c.process != nil:
		c.process.Terminate(grace)
	case c.giveUp != nil:
		c.giveUp()
	}
}

// late tells, once, that the grace of a proc is over and that it was sent SIGKILL. Who waits for a slot to be stopped
// has it now: one that survives SIGKILL holds up nobody (HOST-5).
func (a *hostAgent) late(ctx *actor.Context, c *child) {
	select {
	case <-c.process.Overdue():
	default:
		return
	}
	if c.overdue {
		return
	}
	c.overdue = true
	a.describe(c)
	e := a.event(c)
	e.Step, e.Status, e.Reason = "proc.stop.timeout", agent.ShuttingDown.String(), "did not stop in time: SIGKILL is sent"
	e.At = c.process.OverdueAt() // its exit, which may be known by now, was later
	ctx.Proc().Emit(e)
	a.leaveSlot(ctx, c)
}

// leaveSlot lets another proc be stopped in the place of this one.
func (a *hostAgent) leaveSlot(ctx *actor.Context, c *child) {
	if c.slot {
		c.slot = false
		a.stops.leave(ctx)
	}
}

// exited takes the end of a process (HOST-3).
func (a *hostAgent) exited(ctx *actor.Context, c *child, e launch.Exit) {
	a.late(ctx, c)
	s := c.status(e, a.status(c).Phase == agent.Running)
	if s.Phase == agent.Failed {
		s.Reason = withStderr(s.Reason, e.StderrTail)
	}
	a.finish(ctx, c, s, &e)
}

// status is what an exit means. running says that the proc was ready and nobody had asked it to
// stop.
func (c *child) status(e launch.Exit, running bool) agent.Status {
	switch {
	case c.verdict != "":
		return agent.Status{Phase: agent.Failed, Reason: c.verdict}
	case c.asked && (e.Clean() || e.Signal == int(syscall.SIGTERM)):
		return agent.Status{Phase: agent.Stopped, Reason: c.why}
	case c.asked && c.overdue:
		return agent.Status{Phase: agent.Stopped, Reason: "did not stop in time: " + e.String()}
	case c.asked:
		return agent.Status{Phase: agent.Stopped, Reason: e.String()}
	case e.Clean() && running:
		return agent.Status{Phase: agent.Stopped, Reason: "exited cleanly"}
	case e.Clean():
		return agent.Status{Phase: agent.Failed, Reason: e.String() + " before it was ready: does its main call proc.Main first?"}
	}
	return agent.Status{Phase: agent.Failed, Reason: e.String()}
}

// maxLines is how many lines of stderr a reason quotes.
const maxLines = 5

// withStderr adds a dead proc's last words to the reason.
func withStderr(reason string, tail []string) string {
	for _, l := range tail[max(0, len(tail)-maxLines):] {
		reason += "\n  stderr: " + l
	}
	return reason
}
