package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/ticket"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// params are the arguments of a host agent. They never leave the process.
type params struct {
	id          subjects.HostID
	opts        Options
	runner      runner
	store       *store       // nil: no state directory
	tickets     *ticket.Key  // nil: procs have no tickets
	credentials *credentials // nil: procs have none of their own
	build       string
	started     time.Time
	adopted     []adoptedProc // records of an earlier host
	// lower packet numbers belong to earlier incarnations and to procs that they kept
	firstPacket  uint64
	onClosing    func(why string)             // called when a StopAll arrives
	onModeChange func(agent.HostMode, string) // called when it starts or stops to take procs
	onLeft       func()                       // called after a StopAll has stopped everything
	closeBy      *atomic.Pointer[time.Time]   // deadline of Host.Close; nil: none so far
	maker        *atomic.Pointer[subjects.Sender]
}

var agentType = actor.NewType[agent.Agent, params](agent.HostType)

// definition is the actor definition of host agents.
func definition() actor.Def {
	return agent.PermitRoles(agent.OnHost, agentType.Define(newAgent, methods()...).ResumeOnError())
}

func methods() []actor.Method[agent.Agent] {
	return append(agent.Methods(),
		agent.Info.Handle(func(a agent.Agent, _ *actor.Context, _ actor.None) (agent.HostInfo, error) {
			return a.(*hostAgent).info(), nil
		}),
		agent.Renew.Handle(func(a agent.Agent, ctx *actor.Context, leases []agent.Lease) (
			[]agent.RenewResult, error) {
			return agent.HandleRenew(ctx, a, leases)
		}).Urgent(),
		agent.Attach.Handle(func(a agent.Agent, ctx *actor.Context, s keys.Snapshot) (agent.HostInfo, error) {
			return a.(*hostAgent).attach(ctx, s)
		}),
		agent.Types.Handle(func(a agent.Agent, _ *actor.Context, mesh string) ([]string, error) {
			return a.(*hostAgent).types(mesh), nil
		}),
		agent.Cordon.Handle(func(a agent.Agent, ctx *actor.Context, c agent.CordonRequest) (agent.HostInfo, error) {
			return a.(*hostAgent).cordon(ctx, c)
		}).Audited(),
		agent.Drain.Handle(func(a agent.Agent, ctx *actor.Context, d agent.DrainRequest) (
			agent.StopSummary, error) {
			return agent.StopSummary{}, a.(*hostAgent).drain(ctx, d)
		}).Audited(),
		agent.TakeHost.Handle(func(a agent.Agent, ctx *actor.Context, t agent.TakeHostRequest) (
			agent.HostInfo, error) {
			h := a.(*hostAgent)
			err := h.checkRights(ctx)
			if err == nil {
				err = h.take(sender(ctx), t)
			}
			return h.info(), err
		}).Audited(),
		agent.GetConfig.Handle(func(a agent.Agent, _ *actor.Context, _ actor.None) ([]keys.Entry, error) {
			return a.(*hostAgent).opts.Config.Entries(), nil
		}),
		agent.Exec.Handle(func(a agent.Agent, ctx *actor.Context, e agent.ExecRequest) (agent.ExecResult, error) {
			return agent.ExecResult{}, a.(*hostAgent).exec(ctx, e)
		}).Audited(),
		agent.GetMetrics.Handle(func(a agent.Agent, ctx *actor.Context, _ actor.None) (agent.Metrics, error) {
			a.(*hostAgent).metrics(ctx)
			return agent.Metrics{}, nil
		}),
		agent.Ready.Handle(func(a agent.Agent, ctx *actor.Context, r agent.ReadyReport) (actor.None, error) {
			return actor.None{}, a.(*hostAgent).onReady(ctx, r)
		}))
}

// hostAgent is the actor. Its fields belong to its turn.
type hostAgent struct {
	params
	executable string // path of the host's own binary
	procRecords
	ownership
	endedMeshes     []subjects.MeshID // meshes with no live proc here, oldest first
	gate            gate
	launches        semaphore
	stops           semaphore
	execs           semaphore
	metricsRequests metricsRequests
	logs            logRequests
	printed         *printedMeshes
	mirror          *mirror
	logTrouble      string // why output may be lost, as logged; "": it is kept
	leases          agent.Leases
	ends            endBatch
	outputQuota     *quota // bound on the published output of all procs
}

func newAgent(ctx *actor.Context, c params) (agent.Agent, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find its own binary: %w", err)
	}
	a := &hostAgent{
		params: c, executable: self, procRecords: procRecords{c.id, agent.NewTable(), procIndex{}},
		ownership: ownership{host: c.id, maker: c.maker},
		launches:  semaphore{limit: c.opts.MaxLaunches}, stops: semaphore{limit: c.opts.maxStops()},
		execs: semaphore{limit: maxExecs}, outputQuota: &quota{rate: hostRate},
		logs: newLogRequests(), printed: newPrintedMeshes(), mirror: newMirror(c.opts.Stdout, c.opts.Stderr),
	}
	a.leases = agent.Leases{Table: a.table, Stop: func(ctx *actor.Context, id, reason string) {
		a.stopMesh(ctx, agent.StopRequest{ID: id, Reason: reason}, subjects.Sender{})
	}}
	for _, f := range c.adopted {
		a.adopt(ctx, f)
	}
	a.awaitPrinted(ctx)
	if c.opts.Local == nil {
		a.watchLogDir(ctx)
	}
	return a, nil
}

// Create launches the host's share of a proc mesh, or the next generation of some of its ranks. It
// replies at once, or with Wait when the procs are ready. It refuses before it starts anything.
func (a *hostAgent) Create(ctx *actor.Context, c agent.CreateRequest) (agent.Overlay, error) {
	switch {
	case c.Procs == nil || c.Actors != nil:
		return nil, errors.New("a host agent creates procs: want the field procs only")
	case c.Lease < 0:
		return nil, fmt.Errorf("lease of %s: want more than 0, or 0 for none", c.Lease)
	case len(c.Ranks) > 0 && c.Procs.PerProcess > 1:
		return nil, fmt.Errorf("mesh %s: ranks %v: procs that share a process start together: want no ranks",
			c.Procs.ID, c.Ranks)
	}
	m := *c.Procs
	id := m.ID.String()
	ranks, err := ranksOf(m, a.id)
	if err != nil {
		return nil, err
	}
	if err := a.acceptEpoch(c.Epoch); err != nil {
		return nil, err
	}
	if life := a.info().Incarnation(); c.HostIncarnation != "" && c.HostIncarnation != life {
		return nil, fmt.Errorf("host %s: the request is for the incarnation since %s, this one is since %s",
			a.id.Label(), c.HostIncarnation, life)
	}
	config, _, err := a.opts.Config.WithClient(c.Config)
	if err != nil {
		return nil, fmt.Errorf("mesh %s: %w", m.ID, err)
	}
	hows := map[int]launchSpec{}
	for _, rank := range ranks {
		how, err := a.runner.resolve(m, rank, a.executable)
		if err != nil {
			return nil, err
		}
		how.lease, how.claim = c.Lease, c.Claim
		how.principal = ctx.RemoteSender().Principal()
		how.clientConfig, how.config = c.Config, config
		hows[rank] = how
	}
	hash, err := m.Fingerprint(a.id)
	if err != nil {
		return nil, err
	}
	// the ranks of an unstopped mesh may restart in place
	if err := a.gate.admit(a.id.Label(), id); err != nil && !a.table.HasSpec(id, hash) {
		return nil, err
	}
	starts, err := a.table.Create(agent.ResourceSpec{
		ID: id, Hash: hash, Ranks: ranks, OnlyRanks: c.Ranks, Gen: c.Gen, ExactGen: m.World != nil, Mesh: &m,
		Claim: c.Claim, By: ctx.RemoteSender(), Agent: a.id.Label(),
	})
	if err != nil {
		return a.table.Overlay(id), err
	}
	if len(starts) > 0 {
		a.endedMeshes = slices.DeleteFunc(a.endedMeshes, func(x subjects.MeshID) bool { return x == m.ID })
		a.renewLease(ctx, id, c.Lease, m.Keep)
		a.emitMeshEvent(ctx, ctx.SentBy(), "procs.launch.attempt", m, starts[0].Rank, len(starts),
			agent.Status{Phase: agent.Initializing})
		for _, s := range starts {
			a.createChild(ctx, m, s, hows[s.Rank])
		}
	}
	if c.Wait {
		return nil, a.table.ReplyWhen(ctx, agent.WaitRequest{ID: id, Until: agent.Running}, 0)
	}
	return a.table.Overlay(id), nil
}

// renewLease renews the lease of a mesh; 0 changes nothing. For a kept mesh it also saves lease and
// owner for the next host (HOST-10).
func (a *hostAgent) renewLease(ctx *actor.Context, id string, term time.Duration, keep bool) {
	a.leases.Renew(ctx, id, term)
	if keep && term > 0 {
		a.store.saveLease(id, term, a.table.Claim(id), a.table.Principal(id))
	}
}

// ranksOf returns a host's ranks of a mesh, or an error if it has none.
func ranksOf(m agent.Mesh, host subjects.HostID) ([]int, error) {
	at := slices.Index(m.Hosts, host)
	switch err := m.Check(); {
	case at < 0:
		return nil, fmt.Errorf("mesh %s has no share on host %s", m.ID, host)
	case m.World != nil && len(m.Hosts) > 1:
		return nil, fmt.Errorf("mesh %s: %d hosts of world %s: want this host only", m.ID, len(m.Hosts),
			m.World.World)
	case slices.Contains(m.Hosts[at+1:], host):
		return nil, fmt.Errorf("mesh %s lists host %s twice", m.ID, host)
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

// createChild adds the next proc of a rank. It is launched when a slot is free.
func (a *hostAgent) createChild(ctx *actor.Context, m agent.Mesh, s agent.RankStart, how launchSpec) {
	id := m.ProcID(s.Rank, s.Gen)
	c := &child{
		id: id, mesh: m, rank: s.Rank, program: how.command.Path, build: how.build,
		clientConfig: how.clientConfig, config: how.config,
		launchResult: make(chan launchResult, 1),
	}
	a.procs.put(c)
	a.updateTable(c)
	a.launches.acquire(ctx, func(ctx *actor.Context) { a.launch(ctx, c, how) })
}

// launch starts a proc as a task, and awaits its end as another task.
func (a *hostAgent) launch(ctx *actor.Context, c *child, how launchSpec) {
	if c.stopRequested { // stopped while it waited for its turn
		a.launches.release(ctx)
		a.recordEnd(ctx, c, agent.Status{Phase: agent.Stopped, Reason: c.stopReason}, nil)
		return
	}
	boot := a.bootstrap(ctx, c)
	how.ticket = c.ticket
	begun, giveUp := context.WithCancel(context.Background())
	c.cancelLaunch = giveUp
	ctx.Go(func(work context.Context) func(*actor.Context) {
		defer context.AfterFunc(work, giveUp)()
		var p process
		err := a.credentials.write(c.id)
		if err == nil {
			p, err = a.runner.start(begun, boot, how)
		}
		c.launchResult <- launchResult{p, err}
		return func(ctx *actor.Context) {
			a.launches.release(ctx)
			a.onLaunched(ctx, c)
		}
	})
	if a.credentials != nil {
		a.keepCredentials(ctx, c, a.credentials.renewalDelay())
	}
	if within := a.opts.readyTimeout(c.config); within > 0 {
		ctx.After(within, func(ctx *actor.Context) {
			if a.status(c).Phase == agent.Initializing {
				c.kill(fmt.Sprintf("not ready within %s: its program has to call proc.Main by then", within))
			}
		})
	}
}

// attach takes the configuration of a program, in place of that of an earlier one.
func (a *hostAgent) attach(ctx *actor.Context, s keys.Snapshot) (agent.HostInfo, error) {
	_, err := a.opts.Config.Push(s)
	a.limitStops(ctx)
	return a.info(), err
}

// types returns the actor types of the procs of a mesh, as the latest of them reported; none:
// unknown.
func (a *hostAgent) types(mesh string) []string {
	switch of := a.procs[mesh]; {
	case of == nil:
		return nil
	case a.opts.Local != nil:
		return a.opts.Local.Registry.Types()
	default:
		return of.types
	}
}

// info returns the host's description of itself.
func (a *hostAgent) info() agent.HostInfo {
	mode, why := a.gate.mode()
	return agent.HostInfo{
		ID: a.id, Label: a.opts.Label, Version: a.opts.Version, Build: a.build, PID: os.Getpid(),
		Procs: a.table.CountAlive(), Started: a.started, CPUs: runtime.NumCPU(), Labels: a.opts.Labels,
		Mode: mode, ModeReason: why, Local: a.opts.Local != nil, Owner: a.owner,
		TreeControl: a.runner.treeControl(), Epoch: a.epoch, Now: time.Now(),
		Revision: a.table.Revision(), LogTrouble: a.logTrouble,
	}
}

// emitMeshEvent publishes an event about the host's share of a mesh on `ev.`, with the sender of
// the order.
func (a *hostAgent) emitMeshEvent(ctx *actor.Context, by subjects.Sender, name string, m agent.Mesh,
	first, count int, s agent.Status) {
	ctx.Proc().Emit(actor.Event{
		Kind: actor.KindMesh, Step: name, Status: s.Phase.String(), Reason: s.Reason, Mesh: m.ID.String(),
		Rank: first, Count: count, Host: a.id.String(), At: time.Now(), By: by.String(),
	})
}
