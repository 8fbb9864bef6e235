package mesh

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/system"
)

// Adopt makes this program the owner of a detached mesh, by name or ID. epoch is that of its
// DetachedMesh, or of a later look; 0 takes any. For another epoch the error holds a
// *agent.FencedError; for a mesh that is not detached, an *OwnedError. Both name the owner.
func (n *Net) Adopt(ctx context.Context, name string, epoch uint64) (ProcMesh, error) {
	fail := func(err error) (ProcMesh, error) { return ProcMesh{}, fmt.Errorf("adopt %s: %w", name, err) }
	ctx, cancel := withTimeout(ctx, config.MeshSpawnTimeout.Get(n.config))
	defer cancel()
	inv, p, err := n.InventoryFor(ctx, name)
	if err != nil {
		return fail(err)
	}
	if w := p.desc.World; w != nil {
		return fail(fmt.Errorf("it belongs to world %s, which no program can own: want a mesh that is detached "+
			"(castnet spawn --detach)", w.World))
	}
	var got system.AdoptResponse
	err = askSystem(ctx, n.proc, func(ctl actor.Ref[*system.Controller]) error {
		now, err := system.GetSnapshot.Call(ctx, ctl, system.Filter{Worlds: []string{noWorld}})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(now.Detached, func(d system.DetachedState) bool { return d.Mesh == p.desc.ID })
		if i < 0 {
			return notDetachedError(inv.Meshes, p)
		}
		claim := agent.Claim{Epoch: epoch, Owner: n.proc.ID().Actor(adopter)}
		if epoch == 0 {
			claim.Epoch = now.Detached[i].Claim.Epoch
		}
		got, err = system.Adopt.Call(ctx, ctl, system.AdoptRequest{Mesh: p.desc.ID, Claim: claim})
		return err
	})
	if err != nil {
		return fail(unwrapRefusal(err))
	}
	d := got.Request
	p, err = p.TakeOver(ctx, Takeover{Epoch: got.Claim.Epoch, Lease: leaseOrNone(d.Lease),
		RestartPolicy: d.RestartPolicy.WithoutSpares(p.desc.Hosts), Display: d.Display})
	if err != nil {
		return p, err
	}
	mine := agent.Claim{Epoch: got.Claim.Epoch + 1, Owner: p.desc.Owner}
	if err := confirm(ctx, n.proc, system.AdoptRequest{Mesh: p.desc.ID, Claim: mine}); err != nil {
		n.controllers.release(ctx, p.desc.Owner, "its mesh was not let go")
		return fail(unwrapRefusal(err))
	}
	return p, nil
}

const (
	noWorld = "-"       // the name of no world
	adopter = "adopter" // says in whose name a mesh is adopted, before there is a controller
)

// confirm tells the system controller that this program has the mesh, so that it lets go. It
// repeats until it gets a reply: an adopter that does not confirm loses the mesh.
func confirm(ctx context.Context, p *actor.Proc, a system.AdoptRequest) error {
	for {
		ctl, err := system.Find(ctx, p)
		if err == nil {
			_, err = system.Confirm.Call(ctx, ctl, a)
		}
		if err == nil || agent.AsFenced(err) != nil {
			return err
		}
		select {
		case <-time.After(termRetry):
		case <-ctx.Done():
			return err
		}
	}
}

// leaseOrNone is a lease's term as a SpawnSpec has it; a term of 0 means no lease.
func leaseOrNone(lease time.Duration) time.Duration {
	if lease == 0 {
		return -1
	}
	return lease
}

// notDetachedError names the owner of a mesh that is not detached.
func notDetachedError(all []MeshState, p ProcMesh) error {
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
