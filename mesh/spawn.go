package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/build"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Command is the program a proc runs; see agent.Command.
type Command = agent.Command

// Limits bound the resources of a proc; see agent.Limits.
type Limits = agent.Limits

// Policy is how a mesh recovers; see controller.Policy.
type Policy = controller.Policy

// Reactions to failed ranks.
const (
	Propagate = controller.Propagate // they have failed
	Restart   = controller.Restart   // they are started again where they were
	Replace   = controller.Replace   // and on a spare host, when theirs is dead
	Drop      = controller.Drop      // the mesh goes on without them
)

// SpawnSpec describes the procs to spawn.
type SpawnSpec struct {
	Name    string        // the mesh's label
	PerHost shape.Extent  // the procs on each host; its labels must differ from the hosts'
	Command Command       // zero: this program itself, whose main calls proc.Main
	Lease   time.Duration // how long procs outlive a vanished owner; 0: supervision.lease-ttl, less: for ever
	Limits  Limits        // of each proc
	Keep    bool          // procs outlive a host that dies, for the next one on that machine to adopt

	// Policy is the recovery policy for failed procs. The zero value leaves them failed.
	Policy Policy
	// Display is the name of the mesh in reports; "": its ID.
	Display string

	// TakeName reserves the name for this mesh. If another live mesh or a world has it, or another
	// program takes it at the same moment, the error is a *NameTakenError (Net.TakeName). Without
	// TakeName meshes may share a name; Lookup prefers the one that has taken it.
	TakeName bool

	// ProgressTimeout ends the wait for the ranks when none has made progress for this long. 0:
	// proc.spawn-idle; negative: only the deadline ends it.
	ProgressTimeout time.Duration
	// AllowPartial keeps the started ranks when others fail: the mesh is returned beside the error.
	AllowPartial bool
}

// Spawn starts procs on every host: this program itself, once for each point of perHost. The
// mesh's extent is the hosts' followed by perHost.
func (h HostMesh) Spawn(ctx context.Context, name string, perHost shape.Extent) (ProcMesh, error) {
	return h.SpawnProcs(ctx, SpawnSpec{Name: name, PerHost: perHost})
}

// SpawnProcs is Spawn with all options (MESH-3, MESH-4).
func (h HostMesh) SpawnProcs(ctx context.Context, s SpawnSpec) (ProcMesh, error) {
	desc, err := h.newMesh(s)
	if err != nil {
		return ProcMesh{}, &RefusedError{"procs", s.Name, err}
	}
	ctx, cancel := withTimeout(ctx, config.MeshSpawnDeadline.Get(h.net.config))
	defer cancel()
	if s.TakeName {
		release, err := h.net.TakeName(ctx, s.Name)
		if err != nil {
			return ProcMesh{}, &RefusedError{"procs", s.Name, err}
		}
		defer release() // the hosts know the mesh then, or there is none
	}
	if err := h.net.checkSpares(ctx, s.Policy); err != nil {
		return ProcMesh{}, &RefusedError{"procs", s.Name, err}
	}
	p := ProcMesh{net: h.net, desc: desc, region: desc.Extent.Region()}
	owner, err := h.net.startController(ctx, controller.Spec{
		Procs: desc, Region: p.region, Lease: s.Lease, Policy: s.Policy, Name: s.Display,
	})
	if err != nil {
		return ProcMesh{}, fmt.Errorf("spawn procs %s: %w", desc.ID, err)
	}
	p.desc.Owner = owner.ID()
	p.markResolved()
	err = startMesh(ctx, owner, desc.ID.String(), desc, p.region, cmp.Or(s.ProgressTimeout, config.ProcSpawnIdle.Get(h.net.config)))
	if some, ok := errors.AsType[*SpawnError](err); ok && s.AllowPartial && len(some.Failed) < some.Ranks {
		return p, err
	}
	if err != nil {
		return ProcMesh{}, errors.Join(err, abandonSpawn(ctx, h.net, owner, desc.ID.String()))
	}
	if err := p.awaitReachable(ctx); err != nil {
		err = fmt.Errorf("spawn procs %s: they are ready, but casts do not reach them all: %w", desc.ID, err)
		return ProcMesh{}, errors.Join(err, abandonSpawn(ctx, h.net, owner, desc.ID.String()))
	}
	return p, nil
}

// checkSpares asks the spare hosts of a policy whether they are there.
func (n *Net) checkSpares(ctx context.Context, p Policy) error {
	if len(p.Spares) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, config.AttachTimeout.Get(n.config))
	defer cancel()
	_, err := n.Attach(ctx, "spares", p.Spares...)
	return err
}

// awaitReachable waits until casts from here reach every rank. A single server knows the
// subscriptions of ready procs. With several, this program's server may not have all of them yet.
func (p ProcMesh) awaitReachable(ctx context.Context) error {
	if !p.net.bus.Data().Clustered() {
		return nil
	}
	_, err := cast.Gather(ctx, p.agents(), agent.Ping, actor.None{})
	return err
}

// newMesh makes the description of a mesh without starting it.
func (h HostMesh) newMesh(s SpawnSpec) (agent.Mesh, error) {
	if err := h.Err(); err != nil {
		return agent.Mesh{}, err
	}
	if err := s.PerHost.Err(); err != nil {
		return agent.Mesh{}, err
	}
	extent, err := h.Extent().Concat(s.PerHost)
	if err != nil {
		return agent.Mesh{}, fmt.Errorf("per-host dimensions overlap with those of the hosts: %w", err)
	}
	id, err := subjects.NewMeshID(s.Name)
	if err != nil {
		return agent.Mesh{}, err
	}
	m := agent.Mesh{
		ID: id, Extent: extent, Hosts: slices.Clone(h.hosts), PerHost: s.PerHost.NumRanks(), Command: s.Command, Limits: s.Limits, Keep: s.Keep,
		NameTaken: s.TakeName,
	}
	if h.isLocal() {
		m.PerProcess = m.PerHost
	}
	if err := m.Check(); err != nil { // before anything is as large as was asked for
		return agent.Mesh{}, err
	}
	if m.Command.Path == "" {
		exe, err := os.Executable()
		if err != nil {
			return agent.Mesh{}, fmt.Errorf("find this program's own executable: %w", err)
		}
		if m.Command.Path, err = filepath.EvalSymlinks(exe); err != nil {
			return agent.Mesh{}, err
		}
		if m.Build, err = build.ID(); err != nil {
			return agent.Mesh{}, err
		}
	}
	return m, nil
}

// isLocal reports whether every host is known to run procs in its own process: those of a mesh then share
// its connections.
func (h HostMesh) isLocal() bool {
	return !slices.ContainsFunc(h.Infos(), func(i agent.HostInfo) bool { return !i.Local })
}

// startController starts the controller of a mesh in this program (CTL-1), as a child of the
// calling actor, if there is one.
func (n *Net) startController(ctx context.Context, s controller.Spec) (actor.Ref[agent.Agent], error) {
	var err error
	if s.Presence, err = n.presenceWatcher(); err != nil {
		return actor.Ref[agent.Agent]{}, err
	}
	left, name := new(atomic.Bool), ""
	s.KeepOnStop = left.Load
	s.OnRankFailed = func(owner subjects.ActorID, e actor.Event) bool { return n.isHandled(name, owner, e) }
	ref, err := actor.SpawnFor(ctx, n.proc, controller.Type, "controller", s, actor.Mailbox(agent.MailboxSize))
	if err == nil {
		name = ref.ID().Name
		n.watchedMeshes.add(name)
		n.mu.Lock()
		n.owned = append(n.owned, ownedController{controller: name, released: left})
		n.mu.Unlock()
	}
	return ref, err
}

// presenceWatcher knows how hosts are, from the first mesh on.
func (n *Net) presenceWatcher() (*presence.Watcher, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.presence != nil:
		return n.presence, nil
	case n.closed:
		return nil, fmt.Errorf("watch over hosts: %w", errNetClosed)
	}
	w, err := presence.New(n.proc)
	if err != nil {
		return nil, fmt.Errorf("watch over hosts: %w", err)
	}
	n.presence = w
	return w, nil
}

// startMesh creates a mesh through its controller and waits until every rank runs. Ranks of unknown
// status at the deadline are Timeout in the error.
func startMesh(ctx context.Context, owner actor.Ref[agent.Agent], id string, m agent.Mesh, r shape.Region, idle time.Duration) error {
	began := time.Now()
	if _, err := agent.Create.Call(ctx, owner, agent.CreateRequest{}); err != nil {
		return fmt.Errorf("spawn %s: %w", id, err)
	}
	o, err := awaitSettled(ctx, owner, agent.WaitRequest{ID: id, Until: agent.Running}, idle, nil)
	if err != nil {
		return fmt.Errorf("spawn %s: %w", id, err)
	}
	if failed := unstarted(o, m, r, began); len(failed) > 0 {
		return &SpawnError{Mesh: id, Ranks: r.NumRanks(), Failed: failed}
	}
	return nil
}

// unstarted are the ranks that do not run. Those that have not ended are Timeout.
func unstarted(o agent.Overlay, m agent.Mesh, r shape.Region, began time.Time) []RankStatus {
	ranks := rankStatuses(o, m, r, func(s agent.Status) bool { return s.Phase != agent.Running })
	for i, f := range ranks {
		if !f.Status.Phase.Terminal() {
			ranks[i].Status = agent.Status{Phase: agent.Timeout, Reason: fmt.Sprintf("still %s after %s", f.Status, time.Since(began).Round(time.Millisecond))}
		}
	}
	return ranks
}

// awaitSettled waits until every rank has reached the wanted status or has ended, until the
// deadline, or until no rank has changed for idle. last is the previous overlay; nil: none.
func awaitSettled(ctx context.Context, owner actor.Ref[agent.Agent], w agent.WaitRequest, idle time.Duration, last agent.Overlay) (agent.Overlay, error) {
	pending := func(o agent.Overlay) bool {
		return slices.ContainsFunc(o, func(r agent.Run) bool { return r.Status.Phase < w.Until })
	}
	for last == nil || pending(last) {
		wait, cancel := context.WithCancel(ctx)
		if idle > 0 {
			wait, cancel = context.WithTimeout(ctx, idle)
		}
		o, err := agent.Wait.Call(wait, owner, w)
		cancel()
		if err != nil || idle <= 0 || slices.Equal(o, last) {
			return o, err
		}
		last = o
	}
	return last, nil
}

// abandonSpawn stops the started ranks of a failed spawn and ends its controller (MESH-4).
func abandonSpawn(ctx context.Context, n *Net, owner actor.Ref[agent.Agent], id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.MeshCleanupDeadline.Get(n.config))
	defer cancel()
	_, err := agent.Stop.Urge(ctx, owner, agent.StopRequest{ID: id, Reason: "its spawn failed", Grace: time.Second})
	n.stopController(ctx, owner.ID().Name, "its spawn failed")
	if err != nil {
		return fmt.Errorf("stop what was started of %s: %w", id, err)
	}
	return nil
}

// withTimeout gives a context without a deadline one.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
