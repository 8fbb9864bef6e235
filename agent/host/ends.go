package host

import (
	"cmp"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/subjects"
)

// finish records the end of a proc and tells everybody: at once, but for one that was asked to stop,
// whose end may wait a moment for those of others.
func (a *hostAgent) finish(ctx *actor.Context, c *child, s agent.Status, e *launch.Exit) {
	id := c.mesh.ID.String()
	life := agent.Broken
	if e != nil && !e.Unknown {
		life = agent.Exited
		if e.Signal != 0 {
			life = agent.Killed
		}
	}
	a.move(ctx, c, life)
	ev := a.event(c)
	ev.Status, ev.Reason, ev.Step = s.Phase.String(), s.Reason, ending(e)
	if e != nil {
		e.StderrTail = slices.Clone(e.StderrTail[max(0, len(e.StderrTail)-keys.LogsTailLines.Get(c.config)):])
		ev.Signal, ev.StderrTail, ev.At = e.Signal, e.StderrTail, e.At
		if !e.Unknown && e.Signal == 0 {
			ev.ExitCode = &e.Code
		}
	}
	a.table.Describe(id, c.rank, func(st *agent.State) {
		st.Proc.ExitCode, st.Proc.Signal, st.Proc.StderrTail = ev.ExitCode, ev.Signal, ev.StderrTail
		st.Proc.Core, st.Proc.OOM, st.Proc.Survivors = e != nil && e.Core, e != nil && e.OOM, e != nil && e.Survivors
	})
	a.leaveSlot(ctx, c)
	if c.asked && s.Phase == agent.Stopped {
		a.part(ctx, ev)
	} else {
		ctx.Proc().Emit(ev)
	}
	if a.table.Advance(id, c.rank, s) {
		a.streams.Tell(ctx, id, ev)
	}
	if c.mesh.Keep {
		a.run.forget(c.id)
	}
	a.retire(c.mesh.ID)
}

// ending is the name of how a proc ended.
func ending(e *launch.Exit) string {
	switch {
	case e == nil:
		return "proc.exit.none"
	case e.Unknown:
		return "proc.exit.unknown"
	case e.Signal != 0:
		return "proc.exit.signal"
	}
	return "proc.exit.code"
}

// partWithin is how long the end of a proc that was asked to stop waits for the ends of others: on a busy
// machine a mesh takes so long.
const partWithin = time.Second

// part tells of an end that was asked for, together with those that follow soon: so that stopping a
// mesh is an event per host, and not per proc. All are told before the stop of the mesh is answered.
func (a *hostAgent) part(ctx *actor.Context, e actor.Event) {
	e.StderrTail = nil
	a.parting = append(a.parting, e)
	switch {
	case a.shares[e.Mesh].stopping == 0:
		a.partNow(ctx)
	case len(a.parting) == 1:
		ctx.After(partWithin, a.partNow)
	}
}

// partNow tells of the ends that wait, neighbours in one event when they are alike.
func (a *hostAgent) partNow(ctx *actor.Context) {
	slices.SortStableFunc(a.parting, func(x, y actor.Event) int {
		if x.Mesh != y.Mesh {
			return cmp.Compare(x.Mesh, y.Mesh)
		}
		return cmp.Compare(x.Rank, y.Rank)
	})
	var runs []actor.Event
	for _, e := range a.parting {
		if n := len(runs); n > 0 && follows(runs[n-1], e) {
			runs[n-1].Count = max(runs[n-1].Count, 1) + 1
			continue
		}
		runs = append(runs, e)
	}
	a.parting = nil
	for _, e := range runs {
		ctx.Proc().Emit(e)
	}
}

// follows reports whether e says of the next rank what run says of those before.
func follows(run, e actor.Event) bool {
	return run.Mesh == e.Mesh && run.Gen == e.Gen && run.Rank+max(run.Count, 1) == e.Rank &&
		run.Status == e.Status && run.Reason == e.Reason && run.Signal == e.Signal && run.Step == e.Step &&
		(run.ExitCode == nil) == (e.ExitCode == nil) && (run.ExitCode == nil || *run.ExitCode == *e.ExitCode)
}

// event is what there is to say about a proc as it is now.
func (a *hostAgent) event(c *child) actor.Event {
	s := a.status(c)
	return actor.Event{
		Kind: actor.KindProc, Status: s.Phase.String(), Reason: s.Reason, Mesh: c.mesh.ID.String(), Rank: c.rank,
		Gen: int(c.id.Gen), Seat: int(c.id.Seat), PerProcess: c.mesh.PerProcess, Host: a.id.String(), At: time.Now(),
	}
}

// changed tells the subscribers how a proc is now; the bus hears of ends alone.
func (a *hostAgent) changed(ctx *actor.Context, c *child) {
	if a.streams.Len() > 0 {
		a.streams.Tell(ctx, c.mesh.ID.String(), a.event(c))
	}
}

// move advances the life of the process behind a proc.
func (a *hostAgent) move(_ *actor.Context, c *child, to agent.Life) {
	if next, ok := c.life.To(to); ok {
		c.change(func() { c.life = next })
		a.describe(c)
	}
}

// describe puts into the table what is known of the process behind a proc.
func (a *hostAgent) describe(c *child) {
	a.table.Describe(c.mesh.ID.String(), c.rank, func(s *agent.State) {
		if s.Gen != int(c.id.Gen) {
			return
		}
		p := agent.ProcState{Host: a.id.String(), Program: c.mesh.Command.Path}
		if s.Proc != nil {
			p = *s.Proc
		}
		p.Life, p.Adopted, p.Overdue = c.life, c.adopted, c.overdue
		if c.process != nil {
			p.PID, p.Started, p.Unenforced = c.process.PID(), c.process.Started(), c.process.Unenforced()
		}
		s.Proc = &p
	})
}

// retire notes that the last proc of a mesh has ended, and forgets the oldest such mesh when there
// are too many. Those on record are there for Get, Logs and a repeated Create.
func (a *hostAgent) retire(mesh subjects.MeshID) {
	of := a.shares[mesh.String()]
	if of.alive > 0 {
		return
	}
	if of.keep {
		a.run.lease(mesh.String(), 0, agent.Claim{})
	}
	if !slices.Contains(a.ended, mesh) {
		a.ended = append(a.ended, mesh)
	}
	if len(a.ended) <= keys.HostEndedKept.Get(a.opts.Config) {
		return
	}
	oldest := a.ended[0]
	a.ended = slices.Delete(a.ended, 0, 1)
	a.table.Remove(oldest.String())
	for _, c := range a.shares[oldest.String()].procs {
		removeLogs(c)
	}
	delete(a.shares, oldest.String())
}

// stopAll ends every proc that is left, those included whose launch is under way, and tells each
// one's end (HOST-5). It is the last thing the agent does, so it may wait: until ctx ends.
func (a *hostAgent) stopAll(ctx *actor.Context, grace time.Duration) {
	left := slices.SortedFunc(a.shares.alive(), func(x, y *child) int { return cmp.Compare(y.id.Seat, x.id.Seat) }) // who has a process goes last
	for i, c := range left {
		if a.table.Advance(c.mesh.ID.String(), c.rank, agent.Status{Phase: agent.ShuttingDown}) {
			c.change(func() { c.asked, c.why = true, "its host stopped" })
		}
		if c.process == nil && c.nonce != "" {
			select {
			case o := <-c.outcome:
				c.process = o.process
			case <-ctx.Done():
			}
		}
		if c.process == nil {
			a.finish(ctx, c, agent.Status{Phase: agent.Failed, Reason: "its host stopped before it was launched"}, nil)
			left[i] = nil
			continue
		}
		c.process.Terminate(grace)
	}
	for _, c := range left {
		if c == nil {
			continue
		}
		select {
		case <-c.process.Done():
		case <-ctx.Done():
		}
		select {
		case <-c.process.Done(): // also when both are: every end that is known is told
			c.output.drain(c.process.Exit(), drainWithin)
			a.exited(ctx, c, c.process.Exit())
		default: // it survives SIGKILL: closing the launcher says so
			a.late(ctx, c)
		}
	}
	a.partNow(ctx)
}
