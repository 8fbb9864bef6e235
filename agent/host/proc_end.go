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

// recordEnd records and reports the end of a proc. A requested end may wait briefly for others,
// other ends are reported at once.
func (a *hostAgent) recordEnd(ctx *actor.Context, c *child, s agent.Status, e *launch.Exit) {
	id := c.mesh.ID.String()
	life := agent.ProcessFailed
	if e != nil && !e.Unknown {
		life = agent.ProcessExited
		if e.Signal != 0 {
			life = agent.ProcessKilled
		}
	}
	a.setProcessState(c, life)
	ev := a.event(c)
	ev.Status = s.Phase.String()
	ev.Reason = s.Reason
	ev.Step = exitStep(e)
	if e != nil {
		e.StderrTail = slices.Clone(e.StderrTail[max(0, len(e.StderrTail)-keys.LogsTailLines.Get(c.config)):])
		ev.Signal = e.Signal
		ev.StderrTail = e.StderrTail
		ev.At = e.At
		if !e.Unknown && e.Signal == 0 {
			ev.ExitCode = &e.Code
		}
	}
	a.table.UpdateState(id, c.rank, func(st *agent.State) {
		st.Proc.ExitCode = ev.ExitCode
		st.Proc.Signal = ev.Signal
		st.Proc.StderrTail = ev.StderrTail
		st.Proc.Core = e != nil && e.Core
		st.Proc.OOM = e != nil && e.OOM
		st.Proc.Survivors = e != nil && e.Survivors
	})
	a.releaseStopSlot(ctx, c)
	a.endTicket(ctx, c)
	a.endCredentials(ctx, c)
	if c.stopRequested && s.Phase == agent.Stopped {
		a.ends.add(ctx, ev, a.procs[ev.Mesh].stopping == 0)
	} else {
		ctx.Proc().Emit(ev)
	}
	a.table.Advance(id, c.rank, s)
	if c.mesh.Keep {
		a.store.removeProc(c.id)
	}
	a.retireMesh(c.mesh.ID)
}

// exitStep returns the event step of an exit.
func exitStep(e *launch.Exit) string {
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

// retireMesh records that the last proc of a mesh has ended. It forgets the oldest ended mesh
// beyond the limit. Get, Logs and a repeated Create use the records.
func (a *hostAgent) retireMesh(mesh subjects.MeshID) {
	of := a.procs[mesh.String()]
	if of.alive > 0 {
		return
	}
	if of.kept {
		a.store.saveLease(mesh.String(), 0, agent.Claim{}, subjects.Principal{})
	}
	if !slices.Contains(a.endedMeshes, mesh) {
		a.endedMeshes = append(a.endedMeshes, mesh)
	}
	if len(a.endedMeshes) <= keys.HostEndedHistory.Get(a.opts.Config) {
		return
	}
	oldest := a.endedMeshes[0]
	a.endedMeshes = slices.Delete(a.endedMeshes, 0, 1)
	a.table.Remove(oldest.String())
	for c := range a.procs[oldest.String()].withOutput() {
		c.process.Output().Remove()
	}
	delete(a.procs, oldest.String())
}

// stopAll ends all remaining procs, including those in launch, and reports each end (HOST-5). It is
// the last action of the agent, so it may block until ctx ends.
func (a *hostAgent) stopAll(ctx *actor.Context, grace time.Duration) {
	// procs with a process of their own come last
	left := slices.SortedFunc(a.procs.alive(),
		func(x, y *child) int { return cmp.Compare(y.id.Index, x.id.Index) })
	for i, c := range left {
		if a.table.Advance(c.mesh.ID.String(), c.rank, agent.Status{Phase: agent.ShuttingDown}) {
			c.update(func() { c.stopRequested, c.stopReason = true, "its host stopped" })
		}
		if c.process == nil && c.nonce != "" {
			select {
			case o := <-c.launchResult:
				c.process = o.process
			case <-ctx.Done():
			}
		}
		if c.process == nil {
			a.recordEnd(ctx, c,
				agent.Status{Phase: agent.Failed, Reason: "its host stopped before it was launched"}, nil)
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
		case <-c.process.Done(): // also when both are ready: every known end is reported
			c.output.drain(c.process.Exit(), outputDrainTimeout)
			a.onExit(ctx, c, c.process.Exit())
		default: // survives SIGKILL; the launcher's Close reports it
			a.onGraceExpired(ctx, c)
		}
	}
	a.ends.flush(ctx)
	a.answerLogs()
}
