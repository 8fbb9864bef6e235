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
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/subjects"
)

// Handover is a mesh that the system controller owns.
type Handover struct {
	Procs   ProcMesh
	Epoch   uint64 // who knows it may adopt the mesh
	Durable bool   // the mesh outlives the system controller; else it ends with that
}

// NameTakenError says that another live mesh, or a world, has a name; see worlds.NameTakenError.
type NameTakenError = worlds.NameTakenError

// OwnedError says that a mesh cannot be adopted, for it is not detached: who owns it, in which epoch.
type OwnedError struct {
	Mesh  string
	Owner subjects.ActorID
	Epoch uint64
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("mesh %s is owned by %s in epoch %d: want a mesh that is detached (client spawn --detach)", e.Mesh, e.Owner, e.Epoch)
}

// Detach hands the mesh, which this program has spawned or adopted, over to the system controller: it renews the lease
// and keeps the policy from then on, and the mesh outlives this program. Names are told apart there: that of another
// live mesh or world is a *NameTakenError. Actors that this program owns still end with it; those that are to stay are
// spawned Uncontrolled. Handles from before name this program as the owner: use that of the Handover.
func (p ProcMesh) Detach(ctx context.Context) (Handover, error) {
	fail := func(err error) (Handover, error) { return Handover{}, fmt.Errorf("detach %s: %w", p.desc.ID, err) }
	switch {
	case p.Err() != nil:
		return Handover{}, p.Err()
	case p.desc.World != nil:
		return fail(fmt.Errorf("it belongs to world %s: the system controller owns it already", p.desc.World.World))
	case p.desc.Owner.Proc != p.net.proc.ID():
		return fail(&OwnerError{Owner: p.desc.Owner})
	case p.region.NumRanks() < p.desc.Extent.NumRanks():
		return fail(fmt.Errorf("%d ranks of %d: a mesh has one owner: want all", p.region.NumRanks(), p.desc.Extent.NumRanks()))
	}
	ctx, cancel := within(ctx, config.MeshSpawnDeadline.Get(p.net.config))
	defer cancel()
	d, err := p.detaching(ctx)
	if err != nil {
		return fail(err)
	}
	system, err := worlds.Find(ctx, p.net.proc)
	if err != nil {
		return fail(err)
	}
	owned, err := worlds.Detach.Call(ctx, system, d)
	if err != nil {
		return fail(refusal(err))
	}
	p.net.disown(ctx, p.desc.Owner, "its mesh is detached")
	p.desc.Owner = owned.Claim.Owner
	return Handover{Procs: p, Epoch: owned.Claim.Epoch, Durable: owned.Durable}, nil
}

// detaching is what the controller in this program says of the mesh, and the claim under which the hosts obey it.
func (p ProcMesh) detaching(ctx context.Context) (d worlds.Detaching, err error) {
	r, err := controller.Health.Call(ctx, p.controller(), actor.None{})
	if err != nil {
		return d, err
	}
	all, err := p.net.Meshes(ctx)
	if err != nil {
		return d, err
	}
	for _, m := range all {
		id := m.Procs.ID()
		switch {
		case !m.Alive():
		case id == p.desc.ID:
			d.Claim = m.claim()
		case id.Label() == p.desc.ID.Label():
			return d, &NameTakenError{Name: id.Label(), Kind: m.kind(), Holder: id.String()}
		}
	}
	if d.Claim.Owner != p.desc.Owner {
		return d, &OwnerError{Owner: d.Claim.Owner}
	}
	d.Mesh, d.Hosts, d.Policy, d.Display, d.Lease = p.desc.ID, slices.Concat(r.Procs.Hosts, r.Policy.Spares), r.Policy, r.Name, r.Lease
	return d, nil
}

// kind is what a mesh is to people.
func (m MeshState) kind() string {
	if m.Procs.desc.World != nil {
		return "world"
	}
	return "mesh"
}

// claim is that of the owner, as the hosts know it.
func (m MeshState) claim() (has agent.Claim) {
	for _, s := range m.States {
		if s.Claim != nil && s.Claim.Compare(has) > 0 {
			has = *s.Claim
		}
	}
	return has
}

// refusal is what the system controller says, without which endpoint said so, when it has said all.
func refusal(err error) error {
	if f, ok := errors.AsType[*agent.FencedError](err); ok {
		return f
	}
	if t, ok := errors.AsType[*NameTakenError](err); ok {
		return t
	}
	return err
}

// disown lets a controller of this program go, whose mesh is another's.
func (n *Net) disown(ctx context.Context, owner subjects.ActorID, why string) {
	n.mu.Lock()
	if i := n.owns(owner); i >= 0 {
		n.owned[i].left.Store(true)
		n.owned = slices.Delete(n.owned, i, i+1)
	}
	n.mu.Unlock()
	n.letGo(ctx, owner.Name, why)
}

// Detached lists the meshes that the system controller owns, by name; worlds are not among them. It is
// worlds.ErrNoSystem that there is none.
func (n *Net) Detached(ctx context.Context) ([]worlds.DetachedState, error) {
	if err := n.ended(); err != nil {
		return nil, err
	}
	ctx, cancel := within(ctx, actor.DefaultDeadline)
	defer cancel()
	system, err := worlds.Find(ctx, n.proc)
	if err != nil {
		return nil, err
	}
	now, err := worlds.Snap.Call(ctx, system, worlds.Filter{Worlds: []string{none}})
	return now.Detached, err
}
