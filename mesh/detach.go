package mesh

import (
	"context"
	"fmt"
	"slices"
	"time"

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
	p.net.disown(ctx, p.desc.Owner)
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

// refusal is the error of the system controller in its type: over the bus errors travel as text.
func refusal(err error) error {
	if f := agent.Fenced(err); f != nil {
		return f
	}
	if t := worlds.NameTaken(err); t != nil {
		return t
	}
	return err
}

// disown lets a controller of this program go, whose mesh is another's from now on.
func (n *Net) disown(ctx context.Context, owner subjects.ActorID) {
	n.mu.Lock()
	i := slices.IndexFunc(n.owned, func(o owned) bool { return o.controller == owner.Name })
	if i >= 0 {
		n.owned[i].left.Store(true)
		n.owned = slices.Delete(n.owned, i, i+1)
	}
	n.mu.Unlock()
	n.letGo(ctx, owner.Name, "its mesh is detached")
}

// NameFree is a *NameTakenError when a live mesh or a world has a name.
func (n *Net) NameFree(ctx context.Context, name string) error {
	all, err := n.Meshes(ctx)
	for _, m := range all {
		if id := m.Procs.ID(); m.Alive() && id.Label() == name {
			return &NameTakenError{Name: name, Kind: m.kind(), Holder: id.String()}
		}
	}
	return err
}

// Detached lists the meshes that the system controller owns, by name; worlds are not among them. It is
// worlds.ErrNoSystem that there is none.
func (n *Net) Detached(ctx context.Context) ([]worlds.DetachedState, error) {
	ctx, cancel := within(ctx, actor.DefaultDeadline)
	defer cancel()
	system, err := worlds.Find(ctx, n.proc)
	if err != nil {
		return nil, err
	}
	now, err := worlds.Snap.Call(ctx, system, worlds.Filter{Worlds: []string{none}})
	return now.Detached, err
}

// Adopt makes this program the owner of a detached mesh, by its name or its ID. epoch is that of its Handover, or of
// whoever looked since; 0: whichever it is. When it is another the error holds a *agent.FencedError, and when the
// mesh is not detached an *OwnedError: both say who owns it.
func (n *Net) Adopt(ctx context.Context, name string, epoch uint64) (ProcMesh, error) {
	fail := func(err error) (ProcMesh, error) { return ProcMesh{}, fmt.Errorf("adopt %s: %w", name, err) }
	ctx, cancel := within(ctx, config.MeshSpawnDeadline.Get(n.config))
	defer cancel()
	all, err := n.Meshes(ctx)
	if err != nil {
		return fail(err)
	}
	p, err := n.Among(all, name)
	if err != nil {
		return fail(err)
	}
	detached, err := n.Detached(ctx)
	if err != nil {
		return fail(err)
	}
	system, err := worlds.Find(ctx, n.proc)
	if err != nil {
		return fail(err)
	}
	i := slices.IndexFunc(detached, func(d worlds.DetachedState) bool { return d.Mesh == p.desc.ID })
	if i < 0 {
		return fail(ownedBy(all, p))
	}
	claim := agent.Claim{Epoch: epoch, Owner: n.proc.ID().Actor(adopter)}
	if epoch == 0 {
		claim.Epoch = detached[i].Claim.Epoch
	}
	got, err := worlds.Adopt.Call(ctx, system, worlds.Adopting{Mesh: p.desc.ID, Claim: claim})
	if err != nil {
		return fail(refusal(err))
	}
	d := got.Detaching
	return p.TakeOver(ctx, Succession{Epoch: got.Claim.Epoch, Lease: orNever(d.Lease), Policy: d.Policy.On(p.desc.Hosts), Display: d.Display})
}

const (
	none    = "-"       // the name of no world
	adopter = "adopter" // says in whose name a mesh is adopted, before there is a controller
)

// orNever is the term of a lease as Spawning has it, of one that is 0 where there is none.
func orNever(lease time.Duration) time.Duration {
	if lease == 0 {
		return -1
	}
	return lease
}

// ownedBy says who owns a mesh that is not detached.
func ownedBy(all []MeshState, p ProcMesh) error {
	e := &OwnedError{Mesh: p.desc.ID.String(), Owner: p.desc.Owner}
	for _, m := range all {
		if m.Procs.desc.ID == p.desc.ID {
			if c := m.claim(); c.Owner.IsValid() {
				e.Owner, e.Epoch = c.Owner, c.Epoch
			}
		}
	}
	return e
}
