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

// Limits bound what a proc may take; see agent.Limits.
type Limits = agent.Limits

// Policy is how a mesh recovers; see controller.Policy.
type Policy = controller.Policy

// What becomes of ranks that fail.
const (
	Propagate = controller.Propagate // they have failed
	Restart   = controller.Restart   // they are started again where they were
	Replace   = controller.Replace   // and on a spare host, when theirs is dead
	Drop      = controller.Drop      // the mesh goes on without them
)

// Spawning says what procs to spawn.
type Spawning struct {
	Name    string        // the mesh's label
	PerHost shape.Extent  // the procs on each host; its labels must differ from the hosts'
	Command Command       // zero: this program itself, whose main calls proc.Main
	Lease   time.Duration // how long procs outlive a vanished owner; 0: supervision.orphan, less: for ever
	Limits  Limits        // of each proc
	Keep    bool          // procs outlive a host that dies, for the next one on that machine to adopt

	// Policy says what becomes of procs that fail; the zero value: they have failed.
	Policy Policy
	// Display is what reports call the mesh; "": by its ID.
	Display string

	// TakeName makes the name this mesh's: when another live mesh or a world has it, or another program takes it at the
	// same moment, the error is a *NameTakenError (Net.TakeName). A mesh that is spawned without it shares its name with
	// others, and Lookup finds those first that have taken theirs.
	TakeName bool

	// Idle ends the wait for the ranks when nothing has become of any for so long; 0: proc.spawn-idle, less:
	// only the deadline does.
	Idle time.Duration
	// Partial keeps what has started when some ranks have not: the mesh is returned beside the error.
	Partial bool
}

// Spawn starts procs on every host: this program itself, once for each point of perHost. The
// mesh's extent is the hosts' followed by perHost.
func (h HostMesh) Spawn(ctx context.Context, name string, perHost shape.Extent) (ProcMesh, error) {
	return h.SpawnProcs(ctx, Spawning{Name: name, PerHost: perHost})
}

// SpawnProcs is Spawn with everything that can be said (MESH-3, MESH-4).
func (h HostMesh) SpawnProcs(ctx context.Context, s Spawning) (ProcMesh, error) {
	desc, err := h.describe(s)
	if err != nil {
		return ProcMesh{}, &RefusedError{"procs", s.Name, err}
	}
	ctx, cancel := within(ctx, config.MeshSpawnDeadline.Get(h.net.config))
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
	owner, err := h.net.own(ctx, controller.Spec{
		Procs: desc, Region: p.region, Lease: s.Lease, Policy: s.Policy, Name: s.Display,
	})
	if err != nil {
		return ProcMesh{}, fmt.Errorf("spawn procs %s: %w", desc.ID, err)
	}
	p.desc.Owner = owner.ID()
	p.acquainted()
	err = start(ctx, owner, desc.ID.String(), desc, p.region, cmp.Or(s.Idle, config.ProcSpawnIdle.Get(h.net.config)))
	if some, ok := errors.AsType[*SpawnError](err); ok && s.Partial && len(some.Failed) < some.Ranks {
		return p, err
	}
	if err != nil {
		return ProcMesh{}, errors.Join(err, abandon(ctx, h.net, owner, desc.ID.String()))
	}
	if err := p.fence(ctx); err != nil {
		err = fmt.Errorf("spawn procs %s: they are ready, but casts do not reach them all: %w", desc.ID, err)
		return ProcMesh{}, errors.Join(err, abandon(ctx, h.net, owner, desc.ID.String()))
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

// fence waits until casts from here reach every rank. One server knows the subscriptions of who is ready;
// of several, the one that this program is connected to may not have heard of all of them yet.
func (p ProcMesh) fence(ctx context.Context) error {
	if !p.net.bus.Data().Clustered() {
		return nil
	}
	_, err := cast.Gather(ctx, p.agents(), agent.Ping, actor.None{})
	return err
}

// describe turns what was asked for into a mesh that nothing has been started of yet.
func (h HostMesh) describe(s Spawning) (agent.Mesh, error) {
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
		Taken: s.TakeName,
	}
	if h.local() {
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

// local reports whether every host is known to run procs in its own process: those of a mesh then share
// its connections.
func (h HostMesh) local() bool {
	return !slices.ContainsFunc(h.Infos(), func(i agent.HostInfo) bool { return !i.Local })
}

// own starts the controller of a mesh in this program (CTL-1), as a child of the actor that asks, if one does.
func (n *Net) own(ctx context.Context, s controller.Spec) (actor.Ref[agent.Agent], error) {
	var err error
	if s.Presence, err = n.watcher(); err != nil {
		return actor.Ref[agent.Agent]{}, err
	}
	left, name := new(atomic.Bool), ""
	s.Leave = left.Load
	s.Failed = func(e actor.Event) bool { return n.deals(name, e) }
	ref, err := actor.SpawnFor(ctx, n.proc, controller.Type, "controller", s, actor.Mailbox(agent.Mailbox))
	if err == nil {
		name = ref.ID().Name
		n.watches.add(name)
		n.mu.Lock()
		n.owned = append(n.owned, owned{controller: name, left: left})
		n.mu.Unlock()
	}
	return ref, err
}

// watcher knows how hosts are, from the first mesh on.
func (n *Net) watcher() (*presence.Watcher, error) {
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

// start creates a mesh through its controller and waits until every rank runs. Those of which nothing is
// known when time is up have the status Timeout in the error.
func start(ctx context.Context, owner actor.Ref[agent.Agent], id string, m agent.Mesh, r shape.Region, idle time.Duration) error {
	began := time.Now()
	if _, err := agent.Create.Call(ctx, owner, agent.Creation{}); err != nil {
		return fmt.Errorf("spawn %s: %w", id, err)
	}
	o, err := settled(ctx, owner, agent.Waiting{ID: id, Until: agent.Running}, idle, nil)
	if err != nil {
		return fmt.Errorf("spawn %s: %w", id, err)
	}
	if failed := unstarted(o, m, r, began); len(failed) > 0 {
		return &SpawnError{Mesh: id, Ranks: r.NumRanks(), Failed: failed}
	}
	return nil
}

// unstarted is the ranks that do not run. Of those that have not ended either the status is Timeout.
func unstarted(o agent.Overlay, m agent.Mesh, r shape.Region, began time.Time) []RankStatus {
	ranks := statuses(o, m, r, func(s agent.Status) bool { return s.Phase != agent.Running })
	for i, f := range ranks {
		if !f.Status.Phase.Terminal() {
			ranks[i].Status = agent.Status{Phase: agent.Timeout, Reason: fmt.Sprintf("still %s after %s", f.Status, time.Since(began).Round(time.Millisecond))}
		}
	}
	return ranks
}

// settled waits until every rank is as far as is waited for, or has ended, until the deadline, or until
// nothing has changed in a whole period of idle. last is how they were before; nil: nobody has looked.
func settled(ctx context.Context, owner actor.Ref[agent.Agent], w agent.Waiting, idle time.Duration, last agent.Overlay) (agent.Overlay, error) {
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

// abandon stops what a failed spawn has started and lets its controller go (MESH-4).
func abandon(ctx context.Context, n *Net, owner actor.Ref[agent.Agent], id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.MeshCleanupDeadline.Get(n.config))
	defer cancel()
	_, err := agent.Stop.Urge(ctx, owner, agent.Stopping{ID: id, Reason: "its spawn failed", Grace: time.Second})
	n.letGo(ctx, owner.ID().Name, "its spawn failed")
	if err != nil {
		return fmt.Errorf("stop what was started of %s: %w", id, err)
	}
	return nil
}

// within gives a context without a deadline one.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
