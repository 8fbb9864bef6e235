package host

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// config is what a host agent is made from; it never leaves the process.
type config struct {
	id       subjects.HostID
	opts     Options
	launcher *launch.Launcher
	build    string
	started  time.Time
}

var agentType = actor.NewType[agent.Agent, config]("host-agent")

func methods() []actor.Method[agent.Agent] {
	return append(agent.Methods(),
		agent.Info.By(func(a agent.Agent, ctx *actor.Context, n actor.None) (agent.HostInfo, error) {
			return a.(*hostAgent).info(ctx, n)
		}),
		agent.Ready.By(func(a agent.Agent, ctx *actor.Context, r agent.Readiness) (actor.None, error) {
			return actor.None{}, a.(*hostAgent).ready(ctx, r)
		}))
}

// child is one proc that was launched here.
type child struct {
	mesh    agent.Mesh
	rank    int
	nonce   string
	process *launch.Child // nil until it is launched
	verdict string        // why the host ends it: overrides how it exits
	asked   bool          // somebody asked it to stop
}

// hostAgent is the actor. Its fields belong to its turn.
type hostAgent struct {
	config
	self     string // path of the host's own binary
	table    *agent.Table
	children map[subjects.ProcID]*child
	streams  []agent.Stream
}

func newAgent(ctx *actor.Context, c config) (agent.Agent, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	a := &hostAgent{config: c, self: self, table: agent.NewTable(), children: map[subjects.ProcID]*child{}}
	a.sweep(ctx)
	return a, nil
}

// Create launches this host's share of a proc mesh. It answers at once; Wait tells when the procs
// are ready. Everything that can be refused is refused before anything starts.
func (a *hostAgent) Create(ctx *actor.Context, c agent.Creation) (agent.Overlay, error) {
	if c.Procs == nil {
		return nil, errors.New("a host agent creates procs: want the field procs")
	}
	m := *c.Procs
	id := m.ID.String()
	at := slices.Index(m.Hosts, a.id)
	switch {
	case !m.ID.IsValid():
		return nil, errors.New("a proc mesh without an ID")
	case at < 0:
		return nil, fmt.Errorf("mesh %s has no share on host %s", id, a.id)
	case m.PerHost < 1 || m.PerHost*len(m.Hosts) != m.Extent.NumRanks():
		return nil, fmt.Errorf("mesh %s: %d hosts × %d procs are not the %d ranks of %q", id, len(m.Hosts), m.PerHost, m.Extent.NumRanks(), m.Extent)
	}
	path, args, err := a.opts.resolve(m.Command, a.self)
	if err == nil {
		err = checkEnv(m.Command.Env)
	}
	if err != nil {
		return nil, err
	}
	ranks := make([]int, m.PerHost)
	for k := range ranks {
		ranks[k] = at*m.PerHost + k
	}
	created, err := a.table.Create(id, hashOf(m), ranks, &m)
	if err != nil || !created {
		return a.table.Overlay(id), err
	}
	if c.Lease > 0 {
		a.table.Keep(id, time.Now().Add(c.Lease))
	}
	for _, rank := range ranks {
		a.launch(ctx, m, rank, path, args)
	}
	return a.table.Overlay(id), nil
}

// hashOf identifies a mesh's spec (AGT-1).
func hashOf(m agent.Mesh) string {
	b, err := wire.Marshal(m)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// launch starts one proc as a task: fork and exec, then the wait for its end.
func (a *hostAgent) launch(ctx *actor.Context, m agent.Mesh, rank int, path string, args []string) {
	boot := agent.Bootstrap{
		Mesh: m, Rank: rank, Host: ctx.Self(), Nonce: rand.Text(), Bus: a.opts.Settings,
		Root: a.opts.Space.Root(), Namespace: a.opts.Space.Namespace(), Level: a.opts.Level, Within: a.readyLimit(),
	}
	id := boot.ProcID()
	c := &child{mesh: m, rank: rank, nonce: boot.Nonce}
	a.children[id] = c
	payload, err := wire.Marshal(boot)
	if err != nil {
		a.finish(ctx, id, agent.Status{Phase: agent.Failed, Reason: err.Error()}, nil)
		return
	}
	spec := launch.Spec{
		Name: id.Process().String(), Path: path, Args: args, Env: append(baseEnv(os.Getenv), m.Command.Env...),
		Dir: m.Command.Dir, Payload: payload, LogDir: a.opts.Dir,
	}
	ctx.Go(func(context.Context) func(*actor.Context) {
		process, err := a.launcher.Launch(spec)
		return func(ctx *actor.Context) { a.launched(ctx, id, process, err) }
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
func (a *hostAgent) launched(ctx *actor.Context, id subjects.ProcID, process *launch.Child, err error) {
	c := a.children[id]
	if err != nil {
		a.finish(ctx, id, agent.Status{Phase: agent.Failed, Reason: err.Error()}, nil)
		return
	}
	c.process = process
	a.table.Describe(c.mesh.ID.String(), c.rank, func(s *agent.State) {
		s.Proc = &agent.ProcState{PID: process.PID(), Started: process.Started(), Host: a.id.String()}
	})
	if c.verdict != "" || c.asked {
		process.Terminate(0)
	}
	a.followOutput(ctx, id, process)
	ctx.Go(func(context.Context) func(*actor.Context) {
		<-process.Done() // ends at the latest when the launcher closes
		e := process.Exit()
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
		return errors.New(c.verdict)
	}
	a.table.Advance(c.mesh.ID.String(), c.rank, agent.Status{Phase: agent.Running})
	return nil
}

// end kills a proc for a reason that its status will give.
func (a *hostAgent) end(c *child, verdict string) {
	if c.verdict == "" {
		c.verdict = verdict
	}
	if c.process != nil {
		c.process.Terminate(time.Second)
	}
}

// exited takes the end of a process (HOST-3).
func (a *hostAgent) exited(ctx *actor.Context, id subjects.ProcID, e launch.Exit) {
	c := a.children[id]
	s := agent.Status{Phase: agent.Failed, Reason: e.String()}
	switch {
	case c.verdict != "":
		s.Reason = c.verdict
	case c.asked && e.Signal == 0:
		s.Phase = agent.Stopped
	case c.asked:
		s = agent.Status{Phase: agent.Stopped, Reason: "did not stop in time: " + e.String()}
	case e.Clean() && a.table.Status(c.mesh.ID.String(), c.rank).Phase == agent.Running:
		s.Phase = agent.Stopped
	case e.Clean():
		s.Reason = e.String() + " before it was ready: does its main call proc.Main first?"
	}
	a.finish(ctx, id, s, &e)
}

// finish records the end of a proc and tells everybody at once.
func (a *hostAgent) finish(ctx *actor.Context, id subjects.ProcID, s agent.Status, e *launch.Exit) {
	c := a.children[id]
	ev := actor.Event{
		Kind: actor.KindProc, Status: s.Phase.String(), Mesh: id.Mesh.String(), Rank: int(id.Rank), Gen: int(id.Gen),
		Host: a.id.String(), Reason: s.Reason, At: time.Now(),
	}
	if e != nil {
		ev.Signal, ev.StderrTail, ev.At = e.Signal, e.StderrTail, e.At
		if !e.Unknown && e.Signal == 0 {
			ev.ExitCode = &e.Code
		}
		if s.Phase == agent.Failed {
			s.Reason = withStderr(s.Reason, e.StderrTail)
			ev.Reason = s.Reason
		}
	}
	ctx.Proc().Emit(ev)
	a.table.Describe(id.Mesh.String(), c.rank, func(st *agent.State) {
		if st.Proc == nil {
			st.Proc = &agent.ProcState{Host: a.id.String()}
		}
		p := *st.Proc
		p.ExitCode, p.Signal, p.StderrTail = ev.ExitCode, ev.Signal, ev.StderrTail
		st.Proc = &p
	})
	a.table.Advance(id.Mesh.String(), c.rank, s)
	for _, st := range a.streams {
		if st.ID == "" || st.ID == id.Mesh.String() {
			_ = st.To.Send(ctx, ev) // a subscriber that is gone has unsubscribed that way
		}
	}
}

// maxLines is how many lines of stderr a reason quotes.
const maxLines = 5

// withStderr adds a dead proc's last words to the reason.
func withStderr(reason string, tail []string) string {
	if len(tail) == 0 {
		return reason
	}
	for _, l := range tail[max(0, len(tail)-maxLines):] {
		reason += "\n  stderr: " + l
	}
	return reason
}

// stopAll ends every proc that is left, and tells each one's end (HOST-5).
func (a *hostAgent) stopAll(ctx *actor.Context, grace time.Duration) {
	for _, c := range a.children {
		c.asked = true
		if c.process != nil {
			c.process.Terminate(grace)
		}
	}
	for id, c := range a.children {
		if c.process != nil && !a.table.Status(c.mesh.ID.String(), c.rank).Phase.Terminal() {
			a.exited(ctx, id, c.process.Exit())
		}
	}
}
