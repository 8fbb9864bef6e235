package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// controllers are the controllers of the meshes made through a Net, and the watcher of hosts that
// they share.
type controllers struct {
	proc      *actor.Proc
	config    *config.Config
	watched   *watchedMeshes // shared by the Nets of the proc
	onFailure func(actor.Event)

	starting sync.Mutex // held while the watcher starts, which waits for the server

	mu       sync.Mutex        // guards the fields below; held for no wait
	owned    []ownedController // in the order of their start
	over     []string          // those of meshes that are over, oldest first
	presence *presence.Watcher // nil: not needed so far
	closed   bool
}

// maxOver bounds the controllers of meshes that are over. Beyond it the oldest one ends. Hosts
// remember its mesh for longer.
const maxOver = 64

func newControllers(p *actor.Proc, onFailure func(actor.Event)) *controllers {
	return &controllers{
		proc: p, config: agent.ConfigOf(p), watched: watchedMeshesOf(p), onFailure: onFailure,
	}
}

// ownedController is the controller of a mesh, ended by the Net.
type ownedController struct {
	controller  string       // its name
	released    *atomic.Bool // true: its mesh has another owner
	hosts       *agent.Mesh  // set for a mesh of hosts, once it has them
	preexisting bool         // the hosts were taken, not allocated
}

// start starts the controller of a mesh in this program (CTL-3), as a child of the calling actor, if
// there is one.
func (c *controllers) start(ctx context.Context, s controller.Spec) (actor.Ref[agent.Agent], error) {
	watcher, err := c.hostWatcher()
	if err != nil {
		return actor.Ref[agent.Agent]{}, err
	}
	name := ""
	left := new(atomic.Bool)
	s.Presence = watcher
	s.KeepOnStop = left.Load
	s.OnRankFailed = func(owner subjects.ActorID, e actor.Event) bool { return c.isHandled(name, owner, e) }
	s.OnOver = func() { c.noteOver(name) }
	ref, err := actor.SpawnFor(ctx, c.proc, controller.Type, "controller", s, actor.Mailbox(agent.MailboxSize))
	if err == nil {
		name = ref.ID().Name
		c.watched.add(name)
		c.mu.Lock()
		c.owned = append(c.owned, ownedController{controller: name, released: left})
		c.mu.Unlock()
	}
	return ref, err
}

// noteOver records that the mesh of a controller is over.
func (c *controllers) noteOver(controller string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = append(c.over, controller)
	if len(c.over) <= maxOver {
		return
	}
	oldest := c.over[0]
	c.over = slices.Delete(c.over, 0, 1)
	c.owned = slices.DeleteFunc(c.owned, func(o ownedController) bool { return o.controller == oldest })
	c.watched.remove(oldest)
	c.proc.StopActor(oldest, "its mesh ended long ago")
}

// hostWatcher returns the watcher of hosts, and starts it first if necessary.
func (c *controllers) hostWatcher() (*presence.Watcher, error) {
	c.starting.Lock()
	defer c.starting.Unlock()
	if w, err := c.runningWatcher(); w != nil || err != nil {
		return w, err
	}
	w, err := presence.New(c.proc)
	if err != nil {
		return nil, fmt.Errorf("cannot watch hosts: %w", err)
	}
	c.mu.Lock()
	c.presence = w
	c.mu.Unlock()
	return w, nil
}

// runningWatcher returns the watcher of hosts; nil: there is none so far.
func (c *controllers) runningWatcher() (*presence.Watcher, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("cannot watch hosts: %w", errNetClosed)
	}
	return c.presence, nil
}

// isHandled reports whether the owner of a mesh handles a failed rank: by a watch of the mesh, or
// by OnFailure if a program, not an actor, made the mesh.
func (c *controllers) isHandled(controller string, owner subjects.ActorID, e actor.Event) bool {
	if c.watched.isWatched(controller) {
		return true
	}
	if owner.IsValid() || c.onFailure == nil {
		return false
	}
	c.onFailure(e)
	return true
}

// index returns the index of an owned controller; -1 if absent. The caller holds c.mu.
func (c *controllers) index(id subjects.ActorID) int {
	return slices.IndexFunc(c.owned, func(o ownedController) bool { return o.controller == id.Name })
}

// stop stops a controller and its mesh, and waits for the end.
func (c *controllers) stop(ctx context.Context, name, reason string) {
	if done := c.proc.StopActor(name, reason); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// release ends a controller of this program whose mesh has another owner.
func (c *controllers) release(ctx context.Context, owner subjects.ActorID, why string) {
	c.mu.Lock()
	if i := c.index(owner); i >= 0 {
		c.owned[i].released.Store(true)
		c.owned = slices.Delete(c.owned, i, i+1)
	}
	c.mu.Unlock()
	c.stop(ctx, owner.Name, why)
}

const programDone = "its program closes its Net"

// close ends the resources of the Net, newest first: actors before their procs, and procs before
// their hosts. Afterwards no controller starts.
func (c *controllers) close(ctx context.Context) error {
	c.mu.Lock()
	all := c.owned
	c.owned = nil
	c.mu.Unlock()
	var errs []error
	for _, o := range slices.Backward(all) {
		c.watched.remove(o.controller)
		if o.hosts != nil {
			errs = append(errs, c.stopHosts(ctx, o, programDone))
		}
		c.stop(ctx, o.controller, programDone)
	}
	c.starting.Lock()
	c.mu.Lock()
	watcher := c.presence
	c.closed = true
	c.mu.Unlock()
	c.starting.Unlock()
	if watcher != nil {
		watcher.Close()
	}
	return errors.Join(errs...)
}

// acquire makes a controller of this program, then gives it the hosts that get returns
// (CTL-17). Hosts beside an error, or that cannot be held, are returned.
func (c *controllers) acquire(
	ctx context.Context, name string, e shape.Extent, taken bool,
	get func(context.Context) (HostMesh, Allocation, error),
) (HostMesh, error) {
	id, err := subjects.NewMeshID(name)
	if err != nil {
		return HostMesh{}, err
	}
	desc := agent.Mesh{ID: id, Extent: e, Hosts: make([]subjects.HostID, e.NumRanks()), PerHost: 1}
	owner, err := c.start(ctx,
		controller.Spec{Hosts: true, Name: name, Region: e.Region(), Procs: desc})
	if err != nil {
		return HostMesh{}, err
	}
	h, got, err := get(ctx)
	if err == nil {
		err = controller.HoldAllocation(ctx, owner, got)
	}
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := c.index(owner.ID()); i >= 0 { // else the closed Net has released them
			desc.Hosts = got.Hosts()
			c.owned[i].hosts = &desc
			c.owned[i].preexisting = taken
		}
		return h, nil
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.MeshCleanupTimeout.Get(c.config))
	defer cancel()
	if got != nil {
		err = errors.Join(err, got.Close(back))
	}
	c.release(back, owner.ID(), "it has no hosts")
	return HostMesh{}, err
}

// ownerOf returns the newest controller that has all these hosts, or the zero ID.
func (c *controllers) ownerOf(hosts []subjects.HostID) subjects.ActorID {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range slices.Backward(c.owned) {
		if o.hosts != nil && isSubset(hosts, o.hosts.Hosts) {
			return c.proc.ID().Actor(o.controller)
		}
	}
	return subjects.ActorID{}
}

// releaseHosts releases the host meshes of a kind whose hosts are all in hosts. After a failure the
// Net keeps the mesh, and the next release tries again.
func (c *controllers) releaseHosts(
	ctx context.Context, hosts []subjects.HostID, kind func(ownedController) bool,
) error {
	c.mu.Lock()
	all := slices.Clone(c.owned)
	c.mu.Unlock()
	var errs []error
	for _, o := range all {
		if o.hosts == nil || !kind(o) || !isSubset(o.hosts.Hosts, hosts) {
			continue
		}
		if err := c.stopHosts(ctx, o, "released by its owner"); err != nil {
			errs = append(errs, err)
			continue
		}
		c.release(ctx, c.proc.ID().Actor(o.controller), "its hosts are released")
	}
	return errors.Join(errs...)
}

// stopHosts makes the controller of a host mesh release its hosts. A controller that has ended has
// already done so.
func (c *controllers) stopHosts(ctx context.Context, o ownedController, reason string) error {
	ctx, cancel := withTimeout(ctx, config.MeshStopTimeout.Get(c.config))
	defer cancel()
	owner := actor.RefOf[agent.Agent](c.proc.ID().Actor(o.controller)).Via(c.proc)
	said, err := agent.Stop.CallUrgent(ctx, owner, agent.StopRequest{ID: o.hosts.ID.String(), Reason: reason})
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Undeliverable() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot release hosts: %w", err)
	}
	left := rankStatuses(said, *o.hosts, o.hosts.Extent.Region(), isAlive)
	if len(left) > 0 {
		return &StopError{Mesh: o.hosts.ID.String(), Ranks: len(o.hosts.Hosts), Remaining: left}
	}
	return nil
}

// isSubset reports whether others contains all of some.
func isSubset(some, others []subjects.HostID) bool {
	return !slices.ContainsFunc(some, func(id subjects.HostID) bool { return !slices.Contains(others, id) })
}
