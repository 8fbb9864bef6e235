package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// child is one proc that was launched here.
type child struct {
	mesh    agent.Mesh
	rank    int
	nonce   string
	outcome chan outcome  // holds what became of the launch
	process *launch.Child // nil until it is known
	output  *output       // of process; nil until it is followed
	verdict string        // why the host ends it: overrides how it exits
	asked   bool          // somebody asked it to stop
	why     string        // what they said
}

// outcome is what became of a launch.
type outcome struct {
	process *launch.Child
	err     error
}

// launch starts one proc as a task: fork and exec, then the wait for its end.
func (a *hostAgent) launch(ctx *actor.Context, m agent.Mesh, rank int, path string, args []string) {
	boot := agent.Bootstrap{
		Mesh: m, Rank: rank, Host: ctx.Self(), Nonce: rand.Text(), Bus: a.opts.Settings,
		Root: a.opts.Space.Root(), Namespace: a.opts.Space.Namespace(), Level: a.opts.Level, Within: a.readyLimit(),
	}
	id := boot.ProcID()
	c := &child{mesh: m, rank: rank, nonce: boot.Nonce, outcome: make(chan outcome, 1)}
	a.children[id] = c
	payload, err := wire.Marshal(boot)
	if err != nil {
		a.finish(ctx, id, agent.Status{Phase: agent.Failed, Reason: err.Error()}, nil)
		return
	}
	spec := launch.Spec{
		Name: id.Process().String(), Path: path, Args: args, Env: append(baseEnv(os.Getenv), m.Command.Env...),
		Dir: m.Command.Dir, Payload: payload, LogDir: a.opts.Dir, LogCap: a.opts.LogCap,
	}
	ctx.Go(func(context.Context) func(*actor.Context) {
		process, err := a.launcher.Launch(spec)
		c.outcome <- outcome{process, err}
		return func(ctx *actor.Context) { a.launched(ctx, id) }
	})
	ctx.After(a.readyLimit(), func(ctx *actor.Context) {
		if a.table.Status(m.ID.String(), rank).Phase == agent.Initializing {
			a.end(c, fmt.Sprintf("not ready within %s", a.readyLimit()))
		}
	})
}

func (a *hostAgent) readyLimit() time.Duration {
	if a.opts.Ready == 0 {
		return defaultReady
	}
	return a.opts.Ready
}

// launched takes the outcome of the exec.
func (a *hostAgent) launched(ctx *actor.Context, id subjects.ProcID) {
	c := a.children[id]
	o := <-c.outcome
	if o.err != nil {
		a.finish(ctx, id, agent.Status{Phase: agent.Failed, Reason: o.err.Error()}, nil)
		return
	}
	c.process = o.process
	a.table.Describe(c.mesh.ID.String(), c.rank, func(s *agent.State) {
		s.Proc = &agent.ProcState{PID: c.process.PID(), Started: c.process.Started(), Host: a.id.String()}
	})
	if c.verdict != "" || c.asked {
		c.process.Terminate(verdictGrace)
	}
	c.output = a.followOutput(ctx, id, c.process)
	ctx.Go(func(context.Context) func(*actor.Context) {
		<-c.process.Done() // ends at the latest when the launcher closes
		e := c.process.Exit()
		c.output.drain(e)
		return func(ctx *actor.Context) { a.exited(ctx, id, e) }
	})
}

// ready takes a proc's word that it can be reached (HOST-4). An error makes it exit.
func (a *hostAgent) ready(_ *actor.Context, r agent.Readiness) error {
	c, ok := a.children[r.Proc]
	switch {
	case !ok || c.nonce != r.Nonce:
		return fmt.Errorf("proc %s is not one that host %s launched", r.Proc, a.id)
	case c.mesh.Build != "" && c.mesh.Build != r.Build:
		a.end(c, fmt.Sprintf("%s on host %s is build %s, the caller is build %s: install the caller's build there", c.mesh.Command.Path, a.id.Label(), r.Build, c.mesh.Build))
	}
	if c.verdict != "" {
		return errors.New(c.verdict)
	}
	a.table.Advance(c.mesh.ID.String(), c.rank, agent.Status{Phase: agent.Running})
	return nil
}

// verdictGrace is what a proc gets that the host ends, or that was stopped before it ran.
const verdictGrace = time.Second

// end kills a proc for a reason that its status will give.
func (a *hostAgent) end(c *child, verdict string) {
	if c.verdict == "" {
		c.verdict = verdict
	}
	if c.process != nil {
		c.process.Terminate(verdictGrace)
	}
}

// exited takes the end of a process (HOST-3).
func (a *hostAgent) exited(ctx *actor.Context, id subjects.ProcID, e launch.Exit) {
	c := a.children[id]
	running := a.table.Status(c.mesh.ID.String(), c.rank).Phase == agent.Running
	s := c.status(e, running)
	if s.Phase == agent.Failed {
		s.Reason = withStderr(s.Reason, e.StderrTail)
	}
	a.finish(ctx, id, s, &e)
}

// status is what an exit means. running says that the proc was ready and nobody had asked it to
// stop.
func (c *child) status(e launch.Exit, running bool) agent.Status {
	switch {
	case c.verdict != "":
		return agent.Status{Phase: agent.Failed, Reason: c.verdict}
	case c.asked && (e.Clean() || e.Signal == int(syscall.SIGTERM)):
		return agent.Status{Phase: agent.Stopped, Reason: c.why}
	case c.asked && e.Signal == int(syscall.SIGKILL):
		return agent.Status{Phase: agent.Stopped, Reason: "did not stop in time: " + e.String()}
	case c.asked:
		return agent.Status{Phase: agent.Stopped, Reason: e.String()}
	case e.Clean() && running:
		return agent.Status{Phase: agent.Stopped}
	case e.Clean():
		return agent.Status{Phase: agent.Failed, Reason: e.String() + " before it was ready: does its main call proc.Main first?"}
	}
	return agent.Status{Phase: agent.Failed, Reason: e.String()}
}

// finish records the end of a proc and tells everybody at once.
func (a *hostAgent) finish(ctx *actor.Context, id subjects.ProcID, s agent.Status, e *launch.Exit) {
	c, mesh := a.children[id], id.Mesh.String()
	ev := actor.Event{
		Kind: actor.KindProc, Status: s.Phase.String(), Mesh: mesh, Rank: int(id.Rank), Gen: int(id.Gen),
		Host: a.id.String(), Reason: s.Reason, At: time.Now(),
	}
	if e != nil {
		ev.Signal, ev.StderrTail, ev.At = e.Signal, e.StderrTail, e.At
		if !e.Unknown && e.Signal == 0 {
			ev.ExitCode = &e.Code
		}
	}
	ctx.Proc().Emit(ev)
	a.table.Describe(mesh, c.rank, func(st *agent.State) {
		p := agent.ProcState{Host: a.id.String()}
		if st.Proc != nil {
			p = *st.Proc
		}
		p.ExitCode, p.Signal, p.StderrTail = ev.ExitCode, ev.Signal, ev.StderrTail
		st.Proc = &p
	})
	a.table.Advance(mesh, c.rank, s)
	a.streams.Tell(ctx, mesh, ev)
	a.retire(id.Mesh)
}

// maxEnded is how many meshes whose procs have all ended stay on record, for Get, Logs and a
// repeated Create.
const maxEnded = 256

// retire notes that the last proc of a mesh has ended, and forgets the oldest such mesh when there
// are too many.
func (a *hostAgent) retire(mesh subjects.MeshID) {
	if slices.ContainsFunc(a.table.States(mesh.String()), func(s agent.State) bool { return !s.Status.Phase.Terminal() }) {
		return
	}
	a.ended = append(a.ended, mesh)
	if len(a.ended) <= maxEnded {
		return
	}
	oldest := a.ended[0]
	a.ended = slices.Delete(a.ended, 0, 1)
	a.table.Remove(oldest.String())
	maps.DeleteFunc(a.children, func(id subjects.ProcID, c *child) bool {
		if id.Mesh == oldest {
			removeLogs(c)
		}
		return id.Mesh == oldest
	})
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

// stopAll ends every proc that is left, those included whose launch is under way, and tells each
// one's end (HOST-5). It is the last thing the agent does, so it may wait: until ctx ends.
func (a *hostAgent) stopAll(ctx *actor.Context, grace time.Duration) {
	left := maps.Clone(a.children)
	maps.DeleteFunc(left, func(_ subjects.ProcID, c *child) bool {
		return a.table.Status(c.mesh.ID.String(), c.rank).Phase.Terminal()
	})
	for id, c := range left {
		if a.table.Advance(c.mesh.ID.String(), c.rank, agent.Status{Phase: agent.ShuttingDown}) {
			c.asked, c.why = true, "its host stopped"
		}
		if c.process == nil {
			select {
			case o := <-c.outcome:
				c.process = o.process
			case <-ctx.Done():
			}
		}
		if c.process == nil {
			a.finish(ctx, id, agent.Status{Phase: agent.Failed, Reason: "its host stopped before it was launched"}, nil)
			delete(left, id)
			continue
		}
		c.process.Terminate(grace)
	}
	for id, c := range left {
		select {
		case <-c.process.Done():
		case <-ctx.Done():
		}
		select {
		case <-c.process.Done(): // also when both are: every end that is known is told
			c.output.drain(c.process.Exit())
			a.exited(ctx, id, c.process.Exit())
		default: // it survives SIGKILL: closing the launcher says so
		}
	}
}
