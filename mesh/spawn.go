package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/build"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Command is the program a proc runs; see agent.Command.
type Command = agent.Command

// RankSpec is what one rank has of its own; see agent.RankSpec.
type RankSpec = agent.RankSpec

// Limits bound the resources of a proc; see agent.Limits.
type Limits = agent.Limits

// RestartPolicy is the restart policy of a mesh; see controller.RestartPolicy.
type RestartPolicy = controller.RestartPolicy

// Values of RestartPolicy.Restart; see actor.Restart.
const (
	Propagate = actor.Propagate // failed ranks fail the mesh
	Temporary = actor.Temporary // the mesh continues without failed ranks
	Transient = actor.Transient // failed ranks restart in their places
)

// SpawnSpec describes the procs to spawn.
type SpawnSpec struct {
	Name    string        // the mesh's label
	PerHost shape.Extent  // the procs on each host; its labels must differ from the hosts'
	Command Command       // zero: this program itself, whose main calls proc.Main
	Lease   time.Duration // how long procs outlive a lost owner; 0: supervision.lease-ttl, less: for ever
	Limits  Limits        // of each proc
	Ranks   []RankSpec    // one for each rank of the mesh, or one for each point of PerHost; none: all are alike
	Keep    bool          // procs outlive their hostd; the next hostd of the machine adopts them

	// RestartPolicy is for failed procs. The zero value leaves them failed.
	RestartPolicy RestartPolicy
	// Display is the name of the mesh in events and reports; "": reports show its label.
	Display string

	// TakeName reserves the name for this mesh. If another live mesh or a world has it, or another
	// program takes it at the same moment, the error is a *NameTakenError (Net.TakeName). Without
	// TakeName meshes may share a name; Lookup prefers the one that has taken it.
	TakeName bool

	// ProgressTimeout ends the wait for the ranks when none has made progress for this long. 0:
	// proc.spawn-progress-timeout; negative: only the deadline ends it.
	ProgressTimeout time.Duration
	// AllowPartial keeps the started ranks when others fail: the mesh is returned beside the error.
	// If no rank started, there is no mesh.
	AllowPartial bool
}

// Spawn starts procs on every host: this program itself, once for each point of perHost. The
// mesh's extent is the hosts' followed by perHost.
func (h HostMesh) Spawn(ctx context.Context, name string, perHost shape.Extent) (ProcMesh, error) {
	return h.SpawnProcs(ctx, SpawnSpec{Name: name, PerHost: perHost})
}

// SpawnProcs is Spawn with all options (MESH-3).
func (h HostMesh) SpawnProcs(ctx context.Context, s SpawnSpec) (ProcMesh, error) {
	ctx, span := startSpan(ctx, h.net, "procs", s.Name)
	p, err := h.spawnProcs(ctx, s)
	endSpan(span, err)
	return p, err
}

// spawnProcs is SpawnProcs without a span.
func (h HostMesh) spawnProcs(ctx context.Context, s SpawnSpec) (ProcMesh, error) {
	desc, err := describeMesh(h, s)
	if err != nil {
		return ProcMesh{}, &RefusedError{"procs", s.Name, err}
	}
	ctx, cancel := withTimeout(ctx, config.MeshSpawnTimeout.Get(h.net.config))
	defer cancel()
	if s.TakeName {
		release, err := h.net.TakeName(ctx, s.Name)
		if err != nil {
			return ProcMesh{}, &RefusedError{"procs", s.Name, err}
		}
		defer release() // by then the hosts know the mesh, or the spawn failed
	}
	if err := checkSpares(ctx, h.net, s.RestartPolicy); err != nil {
		return ProcMesh{}, &RefusedError{"procs", s.Name, err}
	}
	p := ProcMesh{net: h.net, desc: desc, region: desc.Extent.Region()}
	owner, err := h.net.controllers.start(ctx, controller.Spec{
		Procs: desc, Region: p.region, Lease: s.Lease, RestartPolicy: s.RestartPolicy, Name: s.Display,
	})
	if err != nil {
		return ProcMesh{}, fmt.Errorf("spawn procs %s: %w", desc.ID, err)
	}
	p.desc.Owner = owner.ID()
	p.net.placements.markResolved(p.desc)
	progressTimeout := cmp.Or(s.ProgressTimeout, config.ProcSpawnProgressTimeout.Get(h.net.config))
	err = startMesh(ctx, owner, desc.ID.String(), desc, p.region, progressTimeout, s.AllowPartial)
	if failed, ok := errors.AsType[*SpawnError](err); ok {
		addProcesses(ctx, p, failed.Failed)
	}
	if s.AllowPartial && isPartial(err) {
		return p, err
	}
	if err != nil {
		return ProcMesh{}, abandonSpawn(ctx, h.net, owner, desc.ID.String(), err)
	}
	if err := awaitReachable(ctx, p); err != nil {
		err = fmt.Errorf("spawn procs %s: cannot reach all ready procs by a cast: %w", desc.ID, err)
		return ProcMesh{}, abandonSpawn(ctx, h.net, owner, desc.ID.String(), err)
	}
	return p, nil
}

// checkSpares returns an error if a spare host of a policy does not answer.
func checkSpares(ctx context.Context, n *Net, p RestartPolicy) error {
	if len(p.Spares) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, config.AttachTimeout.Get(n.config))
	defer cancel()
	spares, err := n.HostsOf("spares", p.Spares...)
	if err == nil {
		_, err = spares.Describe(ctx)
	}
	return err
}

// awaitReachable waits until casts from here reach every rank. A single server knows the
// subscriptions of ready procs. With several, this program's server may not have all of them yet.
func awaitReachable(ctx context.Context, p ProcMesh) error {
	if !p.net.bus.Data().Clustered() {
		return nil
	}
	_, err := cast.Gather(ctx, agentsOf(p), agent.Ping, actor.None{})
	return err
}

// describeMesh returns the description of a new mesh.
func describeMesh(h HostMesh, s SpawnSpec) (agent.Mesh, error) {
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
		ID: id, Extent: extent, Hosts: slices.Clone(h.hosts), PerHost: s.PerHost.NumRanks(),
		Command: s.Command, Limits: s.Limits, Keep: s.Keep, NameTaken: s.TakeName,
		Ranks:    s.Ranks,
		Restarts: s.RestartPolicy.Restarts(),
	}
	if !slices.ContainsFunc(h.Infos(), func(i agent.HostInfo) bool { return !i.Local }) {
		m.PerProcess = m.PerHost // every host runs procs in its own process: they share its connections
	}
	if err := m.Check(); err != nil { // before any allocation of that size
		return agent.Mesh{}, err
	}
	if m.Command.Path == "" {
		m.Command.Env = slices.Concat(agent.CommandEnvOf(h.net.proc), m.Command.Env) // the last of a key counts
		exe, err := os.Executable()
		if err != nil {
			return agent.Mesh{}, fmt.Errorf("cannot find the executable of this program: %w", err)
		}
		m.Command.Path, err = filepath.EvalSymlinks(exe)
		if err != nil {
			return agent.Mesh{}, err
		}
		m.Build, err = build.ID()
		if err != nil {
			return agent.Mesh{}, err
		}
	}
	return m, nil
}

// minCommonFailure is the least time that other ranks have to fail beside the first failed one.
const minCommonFailure = 2 * time.Second

// startMesh creates a mesh through its controller and waits until every rank runs. Without partial
// it ends soon after the first failure: the other ranks have as much time again to fail, too, for
// they often have one cause. Ranks of unknown status at the deadline are Timeout in the error.
func startMesh(
	ctx context.Context, owner actor.Ref[agent.Agent], id string, m agent.Mesh, r shape.Region,
	progressTimeout time.Duration, partial bool,
) error {
	began := time.Now()
	running := agent.WaitRequest{ID: id, Until: agent.Running, OrFailed: !partial}
	o, err := agent.Create.Call(ctx, owner, agent.CreateRequest{})
	if err == nil {
		o, err = awaitSettled(ctx, owner, running, progressTimeout, o)
	}
	early := err == nil && !partial && hasFailed(o)
	if early {
		within, cancel := context.WithTimeout(ctx, max(minCommonFailure, time.Since(began)))
		running.OrFailed = false
		o, err = awaitSettled(within, owner, running, progressTimeout, o)
		cancel()
	}
	if err != nil {
		return fmt.Errorf("spawn %s: %w", id, err)
	}
	failed := unstarted(o, m, r, began)
	if early { // the others had no time to start
		failed = slices.DeleteFunc(failed, func(r RankStatus) bool { return r.Status.Phase == agent.Timeout })
	}
	if len(failed) > 0 {
		return &SpawnError{Mesh: id, Ranks: r.NumRanks(), Failed: failed}
	}
	return nil
}

// hasFailed reports whether a rank of an overlay has failed.
func hasFailed(o agent.Overlay) bool {
	return slices.ContainsFunc(o, func(r agent.Run) bool { return r.Status.Phase == agent.Failed })
}

// addProcesses adds the processes of the ended ranks, as their hosts report them.
func addProcesses(ctx context.Context, p ProcMesh, ranks []RankStatus) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTimeout)
	defer cancel()
	hosts := HostMesh{net: p.net, name: defaultHosts}
	for _, r := range ranks {
		host := p.shareHost(r.Rank / p.desc.PerHost)
		if r.Status.Phase.Terminal() && !slices.Contains(hosts.hosts, host) {
			hosts.hosts = append(hosts.hosts, host)
		}
	}
	states, _ := statesOn(ctx, p, hosts)
	for i, r := range ranks {
		if r.Status.Phase.Terminal() {
			ranks[i].Process = states[r.Rank].Proc
		}
	}
}

// unstarted returns the ranks that do not run. Ranks that have not ended are Timeout.
func unstarted(o agent.Overlay, m agent.Mesh, r shape.Region, began time.Time) []RankStatus {
	ranks := rankStatuses(o, m, r, func(s agent.Status) bool { return s.Phase != agent.Running })
	for i, f := range ranks {
		if !f.Status.Phase.Terminal() {
			reason := fmt.Sprintf("still %s after %s", f.Status, time.Since(began).Round(time.Millisecond))
			ranks[i].Status = agent.Status{Phase: agent.Timeout, Reason: reason}
		}
	}
	return ranks
}

// progressChecks is the number of looks at the statuses within a progress timeout.
const progressChecks = 4

// awaitSettled waits until the wanted condition holds, until the deadline, or until no rank has
// changed for progressTimeout. last is the present overlay.
func awaitSettled(
	ctx context.Context, owner actor.Ref[agent.Agent], w agent.WaitRequest, progressTimeout time.Duration,
	last agent.Overlay,
) (agent.Overlay, error) {
	pending := func(o agent.Overlay) bool {
		late := func(r agent.Run) bool { return r.Status.Phase < w.Until }
		return slices.ContainsFunc(o, late) && !(w.OrFailed && hasFailed(o))
	}
	changed := time.Now()
	for pending(last) {
		wait, cancel := context.WithCancel(ctx)
		if progressTimeout > 0 {
			wait, cancel = context.WithTimeout(ctx, progressTimeout/progressChecks)
		}
		o, err := agent.Wait.Call(wait, owner, w)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			o, err = lateStatuses(ctx, owner, w.ID)
		}
		if err != nil || progressTimeout <= 0 || ctx.Err() != nil {
			return o, err
		}
		if !slices.Equal(o, last) {
			changed = time.Now()
		}
		last = o
		if time.Since(changed) >= progressTimeout {
			break
		}
	}
	return last, nil
}

// lateTimeout bounds the request for the statuses after a wait without a reply.
const lateTimeout = 5 * time.Second

// lateStatuses returns the present statuses, also after the deadline. On a busy machine the reply
// to a wait comes too late, and the caller still learns of the ranks.
func lateStatuses(ctx context.Context, owner actor.Ref[agent.Agent], id string) (agent.Overlay, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTimeout)
	defer cancel()
	return agent.Wait.Call(ctx, owner, agent.WaitRequest{ID: id, Until: agent.Initializing})
}

// abandonSpawn stops the started ranks of a failed spawn and ends its controller (MESH-3). It
// returns the error of the spawn, joined with that of a failed stop.
func abandonSpawn(
	ctx context.Context, n *Net, owner actor.Ref[agent.Agent], id string, failure error,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.MeshCleanupTimeout.Get(n.config))
	defer cancel()
	const reason = "its spawn failed"
	_, err := agent.Stop.CallUrgent(ctx, owner, agent.StopRequest{ID: id, Reason: reason, Grace: time.Second})
	n.controllers.stop(ctx, owner.ID().Name, reason)
	if err != nil {
		return errors.Join(failure, fmt.Errorf("cannot stop the started ranks of %s: %w", id, err))
	}
	return failure
}

// withTimeout adds a timeout to a context without a deadline.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
