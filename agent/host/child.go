package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/subjects"
)

// child is one launched proc.
type child struct {
	id            subjects.ProcID
	mesh          agent.Mesh
	rank          int
	nonce         string
	ticket        string     // serial of its ticket; "": none
	meshProcs     *meshProcs // the counts that include it
	state         agent.ProcessState
	program       string            // path of its executable
	build         string            // the required build; "" = any
	clientConfig  keys.Snapshot     // the client's configuration
	config        *keys.Config      // the host's configuration with the client's
	cancelLaunch  func()            // cancels a launch under way
	launchResult  chan launchResult // receives the result of the launch
	process       process           // nil until known
	output        *outputPublisher  // of process
	killReason    string            // why the host kills it; overrides the exit status
	stopRequested bool              // a stop was requested
	stopReason    string            // reason of the request
	adopted       bool              // launched by an earlier host
	holdsStopSlot bool              // counted as a stop under way
	readyEarly    bool              // reported ready before the end of its launch
	graceExpired  bool              // its grace is over and reported
}

// launchResult is the result of a launch.
type launchResult struct {
	process process
	err     error
}

// bootstrap returns the Bootstrap of a proc to launch.
func (p *params) bootstrap(ctx *actor.Context, c *child) agent.Bootstrap {
	c.nonce = rand.Text()
	var first uint64
	if c.mesh.Keep { // a killed proc of an earlier incarnation may have used the address
		first = p.firstPacket
	}
	return agent.Bootstrap{
		Mesh: c.mesh, Rank: c.rank, Gen: int(c.id.Gen), Host: ctx.Self(), Nonce: c.nonce,
		Bus:  p.credentials.apply(p.procSettings(c), c.id),
		Root: p.opts.Space.Root(), Namespace: p.opts.Space.Namespace(),
		LogLevel:     cmp.Or(p.opts.ProcLogLevel, keys.ProcLogLevel.Get(c.config)),
		ReadyTimeout: p.opts.readyTimeout(c.config), Config: c.clientConfig,
		AdoptionTimeout: keys.ProcAdoptionTimeout.Get(c.config), FirstPacket: first,
	}
}

// onLaunched handles the result of a launch.
func (a *hostAgent) onLaunched(ctx *actor.Context, c *child) {
	o := <-c.launchResult
	if o.err != nil {
		s := agent.Status{Phase: agent.Failed, Reason: o.err.Error()}
		if c.killReason != "" {
			s.Reason = c.killReason
		} else if c.stopRequested { // stopped during its start
			s = agent.Status{Phase: agent.Stopped, Reason: c.stopReason}
		}
		a.recordEnd(ctx, c, s, nil)
		return
	}
	c.process = o.process
	a.setProcessState(c, agent.ProcessStarted)
	c.output = a.followOutput(ctx, c)
	if c.killReason != "" || c.stopRequested {
		c.process.Terminate(killGrace)
	}
	a.awaitExit(ctx, c)
	if a.runner.readyAtStart() || c.readyEarly {
		a.markReady(ctx, c)
	}
}

// awaitExit waits, as a task, for the end of a proc and for the publication of its output. Watchers
// see the output before the end (HOST-3). For an unexpected end the wait for output is short.
func (a *hostAgent) awaitExit(ctx *actor.Context, c *child) {
	process := c.process
	out := c.output
	overdue := process.GraceExpired()
	if c.graceExpired {
		overdue = nil
	}
	ctx.Go(func(context.Context) func(*actor.Context) {
		select {
		case <-overdue:
			return func(ctx *actor.Context) {
				a.onGraceExpired(ctx, c)
				a.awaitExit(ctx, c)
			}
		case <-process.Done(): // at the latest when the launcher closes
		}
		e := process.Exit()
		out.drain(e, crashDrainTimeout)
		return func(ctx *actor.Context) {
			if !c.stopRequested {
				a.onExit(ctx, c, e)
				return
			}
			ctx.Go(func(context.Context) func(*actor.Context) {
				out.drain(e, outputDrainTimeout)
				return func(ctx *actor.Context) { a.onExit(ctx, c, e) }
			})
		}
	})
}

// onReady handles the ready report of a proc (HOST-4). An error makes the proc exit.
func (a *hostAgent) onReady(ctx *actor.Context, r agent.ReadyReport) error {
	c := a.procs.find(r.Proc)
	if c == nil || c.nonce == "" {
		return fmt.Errorf("proc %s was not launched by host %s", r.Proc, a.id)
	}
	if !agent.CheckProof(r.Proof, c.nonce, agent.ProofReady, c.id, ctx.Self(), "") {
		return fmt.Errorf("proc %s has not the secret that host %s gave it", r.Proc, a.id)
	}
	if c.build != "" && c.build != r.Build {
		c.kill(
			fmt.Sprintf("%s on host %s is build %s, the caller is build %s: install the caller's build there",
				c.program, a.id.Label(), r.Build, c.build))
	}
	if len(c.mesh.Ranks) == 0 {
		c.meshProcs.types = r.Types
	}
	if c.killReason != "" {
		return errors.New(c.killReason)
	}
	c.readyEarly = c.process == nil
	if !c.readyEarly { // otherwise its process is unknown, and a kept proc is not recorded yet
		a.markReady(ctx, c)
	}
	return nil
}

// markReady marks a proc as running. It publishes an event for the last one of a launch.
func (a *hostAgent) markReady(ctx *actor.Context, c *child) {
	a.setProcessState(c, agent.ProcessReady)
	id := c.mesh.ID.String()
	if !a.table.Advance(id, c.rank, agent.Status{Phase: agent.Running}) {
		return
	}
	if c.id.Gen > 0 { // senders to the mesh use the new generation from now on
		e := a.event(c)
		e.Step = "proc.restart.success"
		ctx.Proc().Emit(e)
	}
	if all := c.meshProcs.procs; c.meshProcs.running == len(all) {
		first := slices.Min(slices.Collect(maps.Keys(all)))
		a.emitMeshEvent(ctx, ctx.SentBy(), "procs.launch.success", c.mesh, first, len(all),
			agent.Status{Phase: agent.Running})
	}
}

// killGrace is the grace of procs that the host ends, or that were stopped before they ran.
const killGrace = time.Second

// kill kills a proc. The verdict becomes the reason in its status.
func (c *child) kill(verdict string) {
	if c.killReason == "" {
		c.killReason = verdict
	}
	c.terminate(killGrace)
}

// terminate ends a proc, or cancels its launch.
func (c *child) terminate(grace time.Duration) {
	if c.process != nil {
		c.process.Terminate(grace)
	} else if c.cancelLaunch != nil {
		c.cancelLaunch()
	}
}

// onGraceExpired reports, once, that the grace of a proc is over and SIGKILL was sent. The proc
// gives up its stop slot, so a survivor of SIGKILL delays no other stop (HOST-5).
func (a *hostAgent) onGraceExpired(ctx *actor.Context, c *child) {
	select {
	case <-c.process.GraceExpired():
	default:
		return
	}
	if c.graceExpired {
		return
	}
	c.graceExpired = true
	a.updateTable(c)
	e := a.event(c)
	e.Step = "proc.stop.timeout"
	e.Status = agent.ShuttingDown.String()
	e.Reason = "did not stop in time: sending SIGKILL"
	e.At = c.process.GraceExpiredAt() // before its exit, which may be known by now
	ctx.Proc().Emit(e)
	a.releaseStopSlot(ctx, c)
}

// releaseStopSlot gives the stop slot of a proc to the next one.
func (a *hostAgent) releaseStopSlot(ctx *actor.Context, c *child) {
	if c.holdsStopSlot {
		c.holdsStopSlot = false
		a.stops.release(ctx)
	}
}

// onExit handles the end of a process (HOST-3).
func (a *hostAgent) onExit(ctx *actor.Context, c *child, e launch.Exit) {
	e.StderrTail = condensePanic(e.StderrTail)
	a.onGraceExpired(ctx, c)
	s := c.status(e, a.status(c).Phase == agent.Running)
	if s.Phase == agent.Failed {
		s.Reason = withStderr(s.Reason, e.StderrTail)
	}
	a.recordEnd(ctx, c, s, &e)
}

// status translates an exit into a status. Argument running is true for a ready proc without a stop
// request.
func (c *child) status(e launch.Exit, running bool) agent.Status {
	switch {
	case c.killReason != "":
		return agent.Status{Phase: agent.Failed, Reason: c.killReason}
	case c.stopRequested && (e.Clean() || e.Signal == int(syscall.SIGTERM)):
		return agent.Status{Phase: agent.Stopped, Reason: c.stopReason}
	case c.stopRequested && c.graceExpired:
		return agent.Status{Phase: agent.Stopped, Reason: "did not stop in time: " + e.String()}
	case c.stopRequested:
		return agent.Status{Phase: agent.Stopped, Reason: e.String()}
	case e.Clean() && running:
		return agent.Status{Phase: agent.Stopped, Reason: "exited cleanly"}
	case e.Clean():
		return agent.Status{
			Phase: agent.Failed, Reason: e.String() + " before it was ready: does its main call proc.Main first?",
		}
	}
	return agent.Status{Phase: agent.Failed, Reason: e.String()}
}

// condensePanic replaces the last Go panic in stderr, with its stacks, by its text and its top
// frames.
func condensePanic(lines []string) []string {
	at := -1
	for i, line := range lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			at = i
		}
	}
	if at < 0 {
		return lines
	}
	out := append(slices.Clone(lines[:at]), lines[at])
	inStack := false
	for i := at + 1; i+1 < len(lines) && len(out) <= at+maxPanicFrames; i++ {
		if inStack && lines[i] == "" {
			break // the end of the stack of the goroutine
		}
		place, isFrame := strings.CutPrefix(lines[i+1], "\t")
		inStack = inStack || isFrame
		if !isFrame || strings.HasPrefix(lines[i], "runtime.") || strings.HasPrefix(lines[i], "panic(") {
			continue
		}
		function := lines[i]
		if end := strings.LastIndexByte(function, '('); end > 0 {
			function = function[:end]
		}
		place, _, _ = strings.Cut(place, " +0x")
		out = append(out, "at "+function+" ("+place+")")
	}
	return out
}

// maxPanicFrames bounds the frames of a condensed panic, which fits into a reason.
const maxPanicFrames = maxReasonLines - 1

// maxReasonLines bounds the stderr lines quoted in a reason.
const maxReasonLines = 5

// withStderr adds the last stderr lines to a reason.
func withStderr(reason string, tail []string) string {
	for _, l := range tail[max(0, len(tail)-maxReasonLines):] {
		reason += "\n  stderr: " + l
	}
	return reason
}
