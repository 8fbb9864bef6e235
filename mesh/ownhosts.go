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
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// gain has a controller of this program own the hosts that get returns, made before them (CTL-17). What was got beside an
// error, or cannot be held, is given back.
func (n *Net) gain(ctx context.Context, name string, e shape.Extent, taken bool, get func(context.Context) (HostMesh, Allocation, error)) (HostMesh, error) {
	id, err := subjects.NewMeshID(name)
	if err != nil {
		return HostMesh{}, err
	}
	desc := agent.Mesh{ID: id, Extent: e, Hosts: make([]subjects.HostID, e.NumRanks()), PerHost: 1}
	owner, err := n.own(ctx, controller.Spec{Hosts: true, Name: name, Region: e.Region(), Procs: desc})
	if err != nil {
		return HostMesh{}, err
	}
	h, got, err := get(ctx)
	if err == nil {
		err = controller.Hold(ctx, owner, got)
	}
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		if i := n.owns(owner.ID()); i >= 0 { // else the Net was closed, and has given them back
			desc.Hosts = got.Hosts()
			n.owned[i].hosts, n.owned[i].taken = &desc, taken
		}
		return h, nil
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.MeshCleanupDeadline.Get(n.config))
	defer cancel()
	if got != nil {
		err = errors.Join(err, got.Close(back))
	}
	n.disown(back, owner.ID(), "it has no hosts")
	return HostMesh{}, err
}

// owns is where a controller is among what is owned; -1: nowhere. The lock is held.
func (n *Net) owns(id subjects.ActorID) int {
	return slices.IndexFunc(n.owned, func(o owned) bool { return o.controller == id.Name })
}

// Owner is the controller of the hosts: of the mesh, allocated or taken through this Net, that has them all; the zero ID when
// there is none, as of hosts that were found. Whoever has it, in any program, asks and watches it as that of other meshes.
func (h HostMesh) Owner() subjects.ActorID {
	if h.Err() != nil {
		return subjects.ActorID{}
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	for _, o := range slices.Backward(h.net.owned) {
		if o.hosts != nil && allAmong(h.hosts, o.hosts.Hosts) {
			return h.net.proc.ID().Actor(o.controller)
		}
	}
	return subjects.ActorID{}
}

// giveBack gives back the meshes of a kind whose hosts are all among these. What cannot be is still this Net's: the next one
// does it again.
func (n *Net) giveBack(ctx context.Context, hosts []subjects.HostID, kind func(owned) bool) error {
	n.mu.Lock()
	all := slices.Clone(n.owned)
	n.mu.Unlock()
	var errs []error
	for _, o := range all {
		if o.hosts == nil || !kind(o) || !allAmong(o.hosts.Hosts, hosts) {
			continue
		}
		if err := n.stopHosts(ctx, o, "given back by its owner"); err != nil {
			errs = append(errs, err)
			continue
		}
		n.disown(ctx, n.proc.ID().Actor(o.controller), "its hosts are given back")
	}
	return errors.Join(errs...)
}

// stopHosts has the controller of a mesh of hosts give them back. One that has ended has done so.
func (n *Net) stopHosts(ctx context.Context, o owned, reason string) error {
	ctx, cancel := within(ctx, config.MeshStopDeadline.Get(n.config))
	defer cancel()
	owner := actor.RefOf[agent.Agent](n.proc.ID().Actor(o.controller)).Via(n.proc)
	said, err := agent.Stop.Urge(ctx, owner, agent.Stopping{ID: o.hosts.ID.String(), Reason: reason})
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Undeliverable() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("give back hosts: %w", err)
	}
	left := statuses(said, *o.hosts, o.hosts.Extent.Region(), func(s agent.Status) bool { return !s.Phase.Terminal() })
	if len(left) > 0 {
		return &StopError{Mesh: o.hosts.ID.String(), Ranks: len(o.hosts.Hosts), Left: left}
	}
	return nil
}

// allAmong reports whether all of some hosts are among others.
func allAmong(some, others []subjects.HostID) bool {
	return !slices.ContainsFunc(some, func(id subjects.HostID) bool { return !slices.Contains(others, id) })
}
