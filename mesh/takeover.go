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
)

// Succession says how a mesh is taken over.
type Succession struct {
	Epoch   uint64        // of the owner that is to be followed; 0: whichever it is
	Lease   time.Duration // as in Spawning
	Policy  Policy        // likewise: the one before goes with its owner
	Display string        // likewise
}

// TakeOver makes this program the owner of the mesh, in place of whoever owns it: the hosts refuse that one from then
// on. Nothing is started or stopped. When another has followed the owner of that epoch already, the error holds a
// *agent.FencedError, which says who. Actors on the mesh keep their owners.
func (p ProcMesh) TakeOver(ctx context.Context, s Succession) (ProcMesh, error) {
	if err := p.Err(); err != nil {
		return ProcMesh{}, err
	}
	fail := func(err error) (ProcMesh, error) {
		return ProcMesh{}, fmt.Errorf("take over %s: %w", p.desc.ID, err)
	}
	ctx, cancel := within(ctx, config.MeshSpawnDeadline.Get(p.net.config))
	defer cancel()
	answers, errs := eachHost(ctx, p.onHosts(), func(ctx context.Context, a actor.Ref[agent.Agent]) ([]agent.State, error) {
		ctx, cancel := context.WithTimeout(ctx, config.ProcStateIdle.Get(p.net.config))
		defer cancel()
		return agent.Get.Call(ctx, a, agent.Query{ID: p.desc.ID.String()})
	})
	spec, err := controller.TakeOver(p.desc.ID, slices.Concat(answers...), s.Epoch)
	if err != nil {
		return fail(errors.Join(append(errs, err)...))
	}
	spec.Lease, spec.Policy, spec.Name = s.Lease, s.Policy, s.Display
	owner, err := p.net.own(ctx, spec)
	if err != nil {
		return fail(err)
	}
	p.desc = spec.Procs
	p.desc.Owner = owner.ID()
	if _, err = agent.Create.Call(ctx, owner, agent.Creation{}); err == nil {
		_, err = settled(ctx, owner, agent.Waiting{ID: p.desc.ID.String(), Until: agent.Running}, config.ProcSpawnIdle.Get(p.net.config), nil)
	}
	if err != nil {
		p.net.disown(ctx, p.desc.Owner, "its mesh was not taken over")
		return fail(err)
	}
	return p, nil
}
