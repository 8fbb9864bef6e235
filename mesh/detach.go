package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// DetachedMesh is a mesh owned by the system controller.
type DetachedMesh struct {
	Procs   ProcMesh
	Epoch   uint64 // a program that names it may adopt the mesh
	Durable bool   // the mesh outlives the system controller
}

// NameTakenError reports that another live mesh, or a world, has a name; see system.NameTakenError.
type NameTakenError = system.NameTakenError

// OwnedError reports that a mesh cannot be adopted because it is not detached, with its owner and
// epoch.
type OwnedError struct {
	Mesh  string
	Owner subjects.ActorID
	Epoch uint64
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("mesh %s is owned by %s in epoch %d: want a mesh that is detached (castnet spawn "+
		"--detach)",
		e.Mesh, e.Owner, e.Epoch)
}

// Detach hands this program's mesh to the system controller, which renews the lease and keeps the
// policy. The mesh outlives this program. The name of another live mesh or world is a
// *NameTakenError. Actors owned by this program still end with it; spawn the others Uncontrolled.
// Earlier handles name this program as the owner: use the handle in the DetachedMesh.
func (p ProcMesh) Detach(ctx context.Context) (DetachedMesh, error) {
	p = resolved(p)
	fail := func(err error) (DetachedMesh, error) {
		return DetachedMesh{}, fmt.Errorf("detach %s: %w", p.desc.ID, err)
	}
	switch {
	case p.Err() != nil:
		return DetachedMesh{}, p.Err()
	case p.desc.World != nil:
		return fail(fmt.Errorf("it belongs to world %s: the system controller owns it already", p.desc.World.World))
	case p.desc.Owner.Proc != p.net.proc.ID():
		return fail(&OwnerError{Owner: p.desc.Owner})
	case p.region.NumRanks() < p.desc.Extent.NumRanks():
		return fail(fmt.Errorf("%d ranks of %d: want the whole mesh", p.region.NumRanks(),
			p.desc.Extent.NumRanks()))
	}
	ctx, cancel := withTimeout(ctx, config.MeshSpawnTimeout.Get(p.net.config))
	defer cancel()
	d, err := detachRequest(ctx, p)
	if err != nil {
		return fail(err)
	}
	var owned system.DetachResponse
	err = askSystem(ctx, p.net.proc, func(ctl actor.Ref[*system.Controller]) (err error) {
		owned, err = system.Detach.Call(ctx, ctl, d)
		return err
	})
	if err != nil {
		return fail(unwrapRefusal(err))
	}
	p.net.controllers.release(ctx, p.desc.Owner, "its mesh is detached")
	p.desc.Owner = owned.Claim.Owner
	return DetachedMesh{Procs: p, Epoch: owned.Claim.Epoch, Durable: owned.Durable}, nil
}

// detachRequest describes the mesh, as its controller in this program knows it, with the claim that
// the hosts obey.
func detachRequest(ctx context.Context, p ProcMesh) (d system.DetachRequest, err error) {
	r, err := controller.Health.Call(ctx, p.controller(), actor.None{})
	if err != nil {
		return d, err
	}
	inv, err := p.net.InventoryUntil(ctx, func(i Inventory) bool {
		return i.claimOf(p.desc.ID).Owner.IsValid() || i.Err() == nil
	})
	if err != nil {
		return d, err
	}
	for _, m := range inv.Meshes {
		if id := m.Procs.ID(); m.Alive() && id != p.desc.ID && id.Label() == p.desc.ID.Label() {
			return d, &NameTakenError{Name: id.Label(), Kind: m.kind(), Holder: id.String()}
		}
	}
	d.Claim = inv.claimOf(p.desc.ID)
	if missing := inv.Err(); missing != nil && !d.Claim.Owner.IsValid() {
		return d, fmt.Errorf("no host names its owner: %w", missing)
	}
	if d.Claim.Owner != p.desc.Owner {
		return d, &OwnerError{Owner: d.Claim.Owner}
	}
	d.Mesh = p.desc.ID
	d.Hosts = slices.Concat(r.Procs.Hosts, r.RestartPolicy.Spares)
	d.RestartPolicy = r.RestartPolicy
	d.Display = r.Name
	d.Lease = r.Lease
	return d, nil
}

// kind is the kind of a mesh in error texts.
func (m MeshState) kind() string {
	if m.Procs.desc.World != nil {
		return "world"
	}
	return "mesh"
}

// claimOf is the claim of the owner of a live mesh; zero: no host that answered knows it.
func (i Inventory) claimOf(mesh subjects.MeshID) (c agent.Claim) {
	for _, m := range i.Meshes {
		if m.Alive() && m.Procs.ID() == mesh {
			c = m.claim()
		}
	}
	return c
}

// claim is the owner's claim, as the hosts know it.
func (m MeshState) claim() (has agent.Claim) {
	for _, s := range m.States {
		if s.Claim != nil && s.Claim.Compare(has) > 0 {
			has = *s.Claim
		}
	}
	return has
}

// unwrapRefusal returns the system controller's own error, without the *actor.Error around it.
func unwrapRefusal(err error) error {
	if f, ok := errors.AsType[*agent.FencedError](err); ok {
		return f
	}
	if t, ok := errors.AsType[*NameTakenError](err); ok {
		return t
	}
	return err
}

// Detached lists the meshes of the system controller by name, without worlds. Without a system
// controller the error is system.ErrNoController.
func (n *Net) Detached(ctx context.Context) ([]system.DetachedState, error) {
	if err := n.endCause(); err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, actor.DefaultDeadline)
	defer cancel()
	var now system.Snapshot
	err := askSystem(ctx, n.proc, func(ctl actor.Ref[*system.Controller]) (err error) {
		now, err = system.GetSnapshot.Call(ctx, ctl, system.Filter{Worlds: []string{noWorld}})
		return err
	})
	return now.Detached, err
}

// termRetry is the pause before the next term of the system controller is asked.
const termRetry = 200 * time.Millisecond

// askSystem asks the system controller. If its term ends meanwhile, askSystem asks the next one,
// until ctx ends.
func askSystem(ctx context.Context, p *actor.Proc, ask func(actor.Ref[*system.Controller]) error) error {
	for ended := false; ; {
		ctl, err := system.Find(ctx, p)
		if err == nil {
			err = ask(ctl)
			ended = isUnreachable(err)
		}
		if !ended || err != nil && !isUnreachable(err) && !errors.Is(err, system.ErrNoController) {
			return err
		}
		select {
		case <-time.After(termRetry):
		case <-ctx.Done():
			return err
		}
	}
}
