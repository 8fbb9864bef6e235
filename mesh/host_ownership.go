package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// acquireOwned makes a controller of this program, then gives it the hosts that get returns
// (CTL-17). Hosts beside an error, or that cannot be held, are returned.
func (n *Net) acquireOwned(
	ctx context.Context, name string, e shape.Extent, taken bool,
	get func(context.Context) (HostMesh, Allocation, error),
) (HostMesh, error) {
	id, err := subjects.NewMeshID(name)
	if err != nil {
		return HostMesh{}, err
	}
	desc := agent.Mesh{ID: id, Extent: e, Hosts: make([]subjects.HostID, e.NumRanks()), PerHost: 1}
	owner, err := n.startController(ctx,
		controller.Spec{Hosts: true, Name: name, Region: e.Region(), Procs: desc})
	if err != nil {
		return HostMesh{}, err
	}
	h, got, err := get(ctx)
	if err == nil {
		err = controller.HoldAllocation(ctx, owner, got)
	}
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		if i := n.ownedIndex(owner.ID()); i >= 0 { // else the closed Net has released them
			desc.Hosts = got.Hosts()
			n.owned[i].hosts = &desc
			n.owned[i].preexisting = taken
		}
		return h, nil
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.MeshCleanupTimeout.Get(n.config))
	defer cancel()
	if got != nil {
		err = errors.Join(err, got.Close(back))
	}
	n.releaseController(back, owner.ID(), "it has no hosts")
	return HostMesh{}, err
}

// ownedIndex returns the index of an owned controller; -1 if absent. The caller holds n.mu.
func (n *Net) ownedIndex(id subjects.ActorID) int {
	return slices.IndexFunc(n.owned, func(o ownedController) bool { return o.controller == id.Name })
}

// Owner returns the controller of the mesh, allocated or taken through this Net, that has all these
// hosts. It is the zero ID if there is none, as for found hosts. Any program can query and watch it
// like the controller of other meshes.
func (h HostMesh) Owner() subjects.ActorID {
	if h.Err() != nil {
		return subjects.ActorID{}
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	for _, o := range slices.Backward(h.net.owned) {
		if o.hosts != nil && isSubset(h.hosts, o.hosts.Hosts) {
			return h.net.proc.ID().Actor(o.controller)
		}
	}
	return subjects.ActorID{}
}

// releaseHosts releases the host meshes of a kind whose hosts are all in hosts. After a failure the
// Net keeps the mesh, and the next release tries again.
func (n *Net) releaseHosts(
	ctx context.Context, hosts []subjects.HostID, kind func(ownedController) bool,
) error {
	n.mu.Lock()
	all := slices.Clone(n.owned)
	n.mu.Unlock()
	var errs []error
	for _, o := range all {
		if o.hosts == nil || !kind(o) || !isSubset(o.hosts.Hosts, hosts) {
			continue
		}
		if err := n.stopHosts(ctx, o, "released by its owner"); err != nil {
			errs = append(errs, err)
			continue
		}
		n.releaseController(ctx, n.proc.ID().Actor(o.controller), "its hosts are released")
	}
	return errors.Join(errs...)
}

// stopHosts makes the controller of a host mesh release its hosts. A controller that has ended has
// already done so.
func (n *Net) stopHosts(ctx context.Context, o ownedController, reason string) error {
	ctx, cancel := withTimeout(ctx, config.MeshStopTimeout.Get(n.config))
	defer cancel()
	owner := actor.RefOf[agent.Agent](n.proc.ID().Actor(o.controller)).Via(n.proc)
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
