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

// Takeover configures the takeover of a mesh.
type Takeover struct {
	Epoch   uint64        // of the owner that is to be followed; 0: whichever it is
	Lease   time.Duration // as in SpawnSpec
	Policy  Policy        // likewise: the one before goes with its owner
	Display string        // likewise
}

// TakeOver makes this program the owner of the mesh, in place of the present one: the hosts refuse
// that one from then on. Nothing is started or stopped. If another program has already followed the
// owner of that epoch, the error holds a *agent.FencedError with its name. Actors on the mesh keep
// their owners.
func (p ProcMesh) TakeOver(ctx context.Context, s Takeover) (ProcMesh, error) {
	if err := p.Err(); err != nil {
		return ProcMesh{}, err
	}
	fail := func(err error) (ProcMesh, error) {
		return ProcMesh{}, fmt.Errorf("take over %s: %w", p.desc.ID, err)
	}
	ctx, cancel := withTimeout(ctx, config.MeshSpawnDeadline.Get(p.net.config))
	defer cancel()
	answers, errs := eachHost(ctx, p.hostMesh(), func(ctx context.Context, a actor.Ref[agent.Agent]) ([]agent.State, error) {
		ctx, cancel := context.WithTimeout(ctx, config.ProcStateIdle.Get(p.net.config))
		defer cancel()
		return agent.Get.Call(ctx, a, agent.GetRequest{ID: p.desc.ID.String()})
	})
	spec, err := controller.TakeOver(p.desc.ID, slices.Concat(answers...), s.Epoch)
	if err != nil {
		return fail(errors.Join(append(errs, err)...))
	}
	spec.Lease, spec.Policy, spec.Name = s.Lease, s.Policy, s.Display
	owner, err := p.net.startController(ctx, spec)
	if err != nil {
		return fail(err)
	}
	p.desc = spec.Procs
	p.desc.Owner = owner.ID()
	if _, err = agent.Create.Call(ctx, owner, agent.CreateRequest{}); err == nil {
		_, err = awaitSettled(ctx, owner, agent.WaitRequest{ID: p.desc.ID.String(), Until: agent.Running}, config.ProcSpawnIdle.Get(p.net.config), nil)
	}
	if err != nil {
		p.net.releaseController(ctx, p.desc.Owner, "its mesh was not taken over")
		return fail(err)
	}
	return p, nil
}
