package mesh

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller/worlds"
)

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
	if w := p.desc.World; w != nil {
		return fail(fmt.Errorf("it belongs to world %s, which no program can own: want a mesh that is detached (client spawn --detach)", w.World))
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
	p, err = p.TakeOver(ctx, Succession{Epoch: got.Claim.Epoch, Lease: orNever(d.Lease), Policy: d.Policy.On(p.desc.Hosts), Display: d.Display})
	if err != nil {
		return p, err
	}
	mine := agent.Claim{Epoch: got.Claim.Epoch + 1, Owner: p.desc.Owner}
	if err := n.confirm(ctx, worlds.Adopting{Mesh: p.desc.ID, Claim: mine}); err != nil {
		n.disown(ctx, p.desc.Owner, "its mesh was not let go")
		return fail(refusal(err))
	}
	return p, nil
}

const (
	none         = "-"       // the name of no world
	adopter      = "adopter" // says in whose name a mesh is adopted, before there is a controller
	confirmAgain = 200 * time.Millisecond
)

// confirm tells the system controller that this program has a mesh, which it lets go then. It asks until it has an
// answer: whoever does not confirm loses the mesh again.
func (n *Net) confirm(ctx context.Context, a worlds.Adopting) error {
	for {
		system, err := worlds.Find(ctx, n.proc)
		if err == nil {
			_, err = worlds.Confirm.Call(ctx, system, a)
		}
		if err == nil || agent.Fenced(err) != nil {
			return err
		}
		select {
		case <-time.After(confirmAgain):
		case <-ctx.Done():
			return err
		}
	}
}

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
