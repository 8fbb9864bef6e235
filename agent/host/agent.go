package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// config is what a host agent is made from; it never leaves the process.
type config struct {
	id      subjects.HostID
	opts    Options
	run     runner
	build   string
	started time.Time
	found   []found                      // what an earlier host wrote down
	first   uint64                       // packets of its earlier lives, and of procs that they kept, had numbers below this
	closes  func(why string)             // called when it is asked to leave
	takes   func(agent.HostMode, string) // called when it begins to take procs, or takes none any more
	left    func()                       // called when it has been asked to leave, and has stopped everything
}

var agentType = actor.NewType[agent.Agent, config](agent.HostType)

func methods() []actor.Method[agent.Agent] {
	return append(agent.Methods(),
		agent.Info.By(func(a agent.Agent, _ *actor.Context, _ actor.None) (agent.HostInfo, error) {
			return a.(*hostAgent).info(), nil
		}),
		agent.Renew.By(func(a agent.Agent, ctx *actor.Context, leases []agent.Lease) ([]agent.Renewed, error) {
			return agent.RenewHere(ctx, a, leases)
		}).Urgent(),
		agent.Cordon.By(func(a agent.Agent, ctx *actor.Context, c agent.Cordoning) (agent.HostInfo, error) {
			return a.(*hostAgent).cordon(ctx, c)
		}),
		agent.Drain.By(func(a agent.Agent, ctx *actor.Context, d agent.Draining) (agent.Summary, error) {
			return agent.Summary{}, a.(*hostAgent).drain(ctx, d)
		}),
		agent.Take.By(func(a agent.Agent, ctx *actor.Context, t agent.Taking) (agent.HostInfo, error) {
			return a.(*hostAgent).take(ctx, t)
		}),
		agent.Settings.By(func(a agent.Agent, _ *actor.Context, _ actor.None) ([]keys.Entry, error) {
			return a.(*hostAgent).opts.Config.Entries(), nil
		}),
		agent.Exec.By(func(a agent.Agent, ctx *actor.Context, e agent.Execution) (agent.Executed, error) {
			return agent.Executed{}, a.(*hostAgent).exec(ctx, e)
		}),
		agent.Ready.By(func(a agent.Agent, ctx *actor.Context, r agent.Readiness) (actor.None, error) {
			return actor.None{}, a.(*hostAgent).ready(ctx, r)
		}))
}

// hostAgent is the actor. Its fields belong to its turn.
type hostAgent struct {
	config
	self     string // path of the host's own binary
	table    *agent.Table
	shares   shares
	ended    []subjects.MeshID // meshes with no live proc here, oldest first
	streams  agent.Streams
	gate     gate
	owner    string // the process that has taken the host; "" = none
	epoch    uint64 // of the latest system controller that gave orders
	launches slots
	stops    slots
	execs    slots
	leases   agent.Leases
	parting  []actor.Event // ends that were asked for and are told together
	output   *allowance    // what all procs may have published
}

func newAgent(ctx *actor.Context, c config) (agent.Agent, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	a := &hostAgent{
		config: c, self: self, table: agent.NewTable(), shares: shares{},
		launches: slots{limit: c.opts.Launches}, stops: slots{limit: c.opts.Stops},
		execs: slots{limit: execsAtOnce}, output: &allowance{rate: hostRate},
	}
	a.leases = agent.Leases{Table: a.table, Stop: func(ctx *actor.Context, id, reason string) {
		a.stop(ctx, agent.Stopping{ID: id, Reason: reason})
	}}
	for _, f := range c.found {
		a.adopt(ctx, f)
	}
	return a, nil
}

// Create launches this host's share of a proc mesh, or starts the next generation of ranks of it. It
// answers at once, unless Wait is set; Wait tells when the procs are ready. Everything that can be
// refused is refused before anything starts.
func (a *hostAgent) Create(ctx *actor.Context, c agent.Creation) (agent.Overlay, error) {
	switch {
	case c.Procs == nil || c.Actors != nil:
		return nil, errors.New("a host agent creates procs: want the field procs, and no other")
	case c.Lease < 0:
		return nil, fmt.Errorf("lease of %s: want more than 0, or 0 for none", c.Lease)
	case len(c.Ranks) > 0 && c.Procs.PerProcess > 1:
		return nil, fmt.Errorf("mesh %s: ranks %v: procs that share a process are made together: want no ranks", c.Procs.ID, c.Ranks)
	}
	m := *c.Procs
	id := m.ID.String()
	ranks, err := a.share(m)
	if err != nil {
		return nil, err
	}
	if err := a.obey(c.Epoch); err != nil {
		return nil, err
	}
	if life := a.info().Life(); c.HostLife != "" && c.HostLife != life {
		return nil, fmt.Errorf("host %s: the order is for its life since %s, and this one is since %s", a.id.Label(), c.HostLife, life)
	}
	how, err := a.run.prepare(m, a.self)
	if err != nil {
		return nil, err
	}
	how.pushed = c.Config
	if how.config, _, err = a.opts.Config.With(c.Config); err != nil {
		return nil, fmt.Errorf("mesh %s: %w", m.ID, err)
	}
	how.lease, how.claim = c.Lease, c.Claim
	hash, err := m.Fingerprint(a.id)
	if err != nil {
		return nil, err
	}
	if err := a.gate.admit(a.id.Label()); err != nil && !a.table.Same(id, hash) {
		return nil, err
	}
	starts, err := a.table.Create(agent.Making{
		ID: id, Hash: hash, Ranks: ranks, Only: c.Ranks, Gen: c.Gen, Exact: m.World != nil, Mesh: &m,
		Claim: c.Claim, At: a.id.Label(),
	})
	if err != nil {
		return a.table.Overlay(id), err
	}
	if len(starts) > 0 {
		a.ended = slices.DeleteFunc(a.ended, func(x subjects.MeshID) bool { return x == m.ID })
		a.lease(ctx, id, c.Lease, m.Keep)
		a.step(ctx, "procs.launch.attempt", m, starts[0].Rank, len(starts), agent.Status{Phase: agent.Initializing})
		for _, s := range starts {
			a.begin(ctx, m, s, how)
		}
	}
	if c.Wait {
		return nil, a.table.AnswerWhen(ctx, agent.Waiting{ID: id, Until: agent.Running}, 0)
	}
	return a.table.Overlay(id), nil
}

// lease renews the lease of a mesh; 0 changes nothing. That of a kept one is for the next host, too, and who owns it
// (HOST-11).
func (a *hostAgent) lease(ctx *actor.Context, id string, term time.Duration, keep bool) {
	a.leases.Keep(ctx, id, term)
	if keep && term > 0 {
		a.run.lease(id, term, a.table.Claim(id))
	}
}

// share is this host's ranks of a mesh, or why it has none.
func (a *hostAgent) share(m agent.Mesh) ([]int, error) {
	at := slices.Index(m.Hosts, a.id)
	switch err := m.Check(); {
	case at < 0:
		return nil, fmt.Errorf("mesh %s has no share on host %s", m.ID, a.id)
	case m.World != nil && len(m.Hosts) > 1:
		return nil, fmt.Errorf("mesh %s: %d hosts of world %s: a host is told of its own share alone", m.ID, len(m.Hosts), m.World.World)
	case slices.Contains(m.Hosts[at+1:], a.id):
		return nil, fmt.Errorf("mesh %s lists host %s twice", m.ID, a.id)
	case err != nil:
		return nil, err
	}
	first, count := at*m.PerHost, m.PerHost
	if m.World != nil {
		first, count = m.World.First, m.World.Count
	}
	ranks := make([]int, count)
	for k := range ranks {
		ranks[k] = first + k
	}
	return ranks, nil
}

// obey takes note of a system controller that gives an order, or refuses it because a later one has (HOST-13).
func (a *hostAgent) obey(epoch uint64) error {
	if epoch != 0 && epoch < a.epoch {
		return &agent.EpochError{Host: a.id.Label(), Asked: epoch, Has: a.epoch}
	}
	a.epoch = max(a.epoch, epoch)
	return nil
}

// begin makes the next proc of a rank, which is launched when its turn comes.
func (a *hostAgent) begin(ctx *actor.Context, m agent.Mesh, s agent.Start, how program) {
	id := m.Proc(s.Rank, s.Gen)
	c := &child{id: id, mesh: m, rank: s.Rank, pushed: how.pushed, config: how.config, outcome: make(chan outcome, 1)}
	a.shares.put(c)
	a.describe(c)
	a.changed(ctx, c)
	a.launches.enter(ctx, func(ctx *actor.Context) { a.launch(ctx, c, how) })
}

// launch starts one proc as a task, and then waits for its end as another.
func (a *hostAgent) launch(ctx *actor.Context, c *child, how program) {
	if c.asked { // stopped while it waited for its turn
		a.launches.leave(ctx)
		a.finish(ctx, c, agent.Status{Phase: agent.Stopped, Reason: c.why}, nil)
		return
	}
	boot := a.bootstrap(ctx, c)
	begun, giveUp := context.WithCancel(context.Background())
	c.giveUp = giveUp
	ctx.Go(func(work context.Context) func(*actor.Context) {
		defer context.AfterFunc(work, giveUp)()
		p, err := a.run.start(begun, boot, how)
		c.outcome <- outcome{p, err}
		return func(ctx *actor.Context) {
			a.launches.leave(ctx)
			a.launched(ctx, c)
		}
	})
	if within := a.opts.ready(c.config); within > 0 {
		ctx.After(within, func(ctx *actor.Context) {
			if a.status(c).Phase == agent.Initializing {
				a.end(c, fmt.Sprintf("not ready within %s", within))
			}
		})
	}
}

// info introduces the host.
func (a *hostAgent) info() agent.HostInfo {
	mode, why := a.gate.mode()
	return agent.HostInfo{
		ID: a.id, Label: a.opts.Label, Version: a.opts.Version, Build: a.build, PID: os.Getpid(),
		Procs: a.table.Alive(), Started: a.started, CPUs: runtime.NumCPU(), Labels: a.opts.Labels,
		Mode: mode, Why: why, Local: a.opts.Local != nil, Owner: a.owner, Trees: a.run.trees(), Epoch: a.epoch, Now: time.Now(),
		Changes: a.table.Changes(),
	}
}

// step tells what the host does with its share of a mesh, or part of it, on `ev.`.
func (a *hostAgent) step(ctx *actor.Context, name string, m agent.Mesh, first, count int, s agent.Status) {
	ctx.Proc().Emit(actor.Event{
		Kind: actor.KindMesh, Step: name, Status: s.Phase.String(), Reason: s.Reason, Mesh: m.ID.String(),
		Rank: first, Count: count, Host: a.id.String(), At: time.Now(),
	})
}
