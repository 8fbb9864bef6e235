package mesh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/build"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// HostMesh is some hosts: a mesh of one dimension, `host`, in the order of their labels.
type HostMesh struct {
	net    *Net
	infos  []agent.HostInfo
	region shape.Region
	err    error
}

// Err is the error a bad handle carries.
func (h HostMesh) Err() error {
	if h.err == nil && h.net == nil {
		return errNoHosts
	}
	return h.err
}

// Extent is the mesh's shape: `host=N`.
func (h HostMesh) Extent() shape.Extent { return h.region.Extent() }

// Infos introduces the hosts of the mesh, in order.
func (h HostMesh) Infos() []agent.HostInfo {
	var out []agent.HostInfo
	for _, base := range h.region.Ranks() {
		out = append(out, h.infos[base])
	}
	return out
}

// Slice keeps the hosts begin to end-1.
func (h HostMesh) Slice(label string, begin, end int) HostMesh {
	if h.err = h.Err(); h.err == nil {
		h.region, h.err = h.region.Slice(label, begin, end)
	}
	return h
}

// Command is the program a proc runs; see agent.Command.
type Command = agent.Command

// Spawning says what procs to spawn.
type Spawning struct {
	Name    string        // the mesh's label
	PerHost shape.Extent  // the procs on each host; its labels must differ from the hosts'
	Command Command       // zero: this program itself, whose main calls proc.Main
	Lease   time.Duration // how long procs outlive a vanished owner; 0: supervision.orphan, less: for ever
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
		return ProcMesh{}, fmt.Errorf("spawn procs %q: %w", s.Name, err)
	}
	ctx, cancel := within(ctx, config.MeshSpawnDeadline.Get(h.net.config))
	defer cancel()
	p := ProcMesh{net: h.net, desc: desc, region: desc.Extent.Region()}
	owner, err := h.net.own(ctx, controller.Spec{Procs: desc, Region: p.region, Lease: s.Lease})
	if err != nil {
		return ProcMesh{}, fmt.Errorf("spawn procs %s: %w", desc.ID, err)
	}
	p.desc.Owner = owner.ID()
	if err := start(ctx, owner, desc.ID.String(), desc, p.region); err != nil {
		return ProcMesh{}, errors.Join(err, abandon(ctx, h.net, owner, desc.ID.String()))
	}
	if _, err := cast.Gather(ctx, p.agents(), agent.Ping, actor.None{}); err != nil { // the second fence
		err = fmt.Errorf("spawn procs %s: they are ready, but casts do not reach them all: %w", desc.ID, err)
		return ProcMesh{}, errors.Join(err, abandon(ctx, h.net, owner, desc.ID.String()))
	}
	return p, nil
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
	m := agent.Mesh{ID: id, Extent: extent, PerHost: s.PerHost.NumRanks(), Command: s.Command}
	for _, info := range h.Infos() {
		m.Hosts = append(m.Hosts, info.ID)
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

// own starts the controller of a mesh in this program (CTL-1).
func (n *Net) own(ctx context.Context, s controller.Spec) (actor.Ref[agent.Agent], error) {
	ref, err := actor.Spawn(ctx, n.proc, controller.Type, "controller", s)
	if err == nil {
		n.mu.Lock()
		n.owned = append(n.owned, ref.ID().Name)
		n.mu.Unlock()
	}
	return ref, err
}

// start creates a mesh through its controller and waits until every rank runs.
func start(ctx context.Context, owner actor.Ref[agent.Agent], id string, m agent.Mesh, r shape.Region) error {
	if _, err := agent.Create.Call(ctx, owner, agent.Creation{}); err != nil {
		return fmt.Errorf("spawn %s: %w", id, err)
	}
	o, err := agent.Wait.Call(ctx, owner, agent.Waiting{ID: id, Until: agent.Running})
	if err != nil {
		return fmt.Errorf("spawn %s: %w", id, err)
	}
	failed := statuses(o, m, r, func(s agent.Status) bool { return s.Phase != agent.Running })
	if len(failed) > 0 {
		return &SpawnError{Mesh: id, Ranks: r.NumRanks(), Failed: failed}
	}
	return nil
}

// abandon stops what a failed spawn has started and lets its controller go (MESH-4).
func abandon(ctx context.Context, n *Net, owner actor.Ref[agent.Agent], id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.MeshCleanupDeadline.Get(n.config))
	defer cancel()
	_, err := agent.Stop.Call(ctx, owner, agent.Stopping{ID: id, Reason: "its spawn failed", Grace: time.Second})
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
