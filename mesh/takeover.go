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
	Epoch         uint64        // of the present owner; 0: any
	Lease         time.Duration // as in SpawnSpec
	RestartPolicy RestartPolicy // as in SpawnSpec; the former owner's policy ends
	Display       string        // as in SpawnSpec
}

// TakeOver makes this program the owner of the mesh. It returns once each host has accepted the
// owner, and refuses orders of the former one, or has failed. It starts and stops nothing. If
// another program has already taken over from the owner of that epoch, the error is a
// *agent.FencedError with its name. Actors on the mesh keep their owners.
func (p ProcMesh) TakeOver(ctx context.Context, s Takeover) (ProcMesh, error) {
	p = resolved(p)
	if err := p.Err(); err != nil {
		return ProcMesh{}, err
	}
	fail := func(err error) (ProcMesh, error) {
		return ProcMesh{}, fmt.Errorf("take over %s: %w", p.desc.ID, err)
	}
	ctx, cancel := withTimeout(ctx, config.MeshSpawnTimeout.Get(p.net.config))
	defer cancel()
	get := func(ctx context.Context, a actor.Ref[agent.Agent]) ([]agent.State, error) {
		ctx, cancel := context.WithTimeout(ctx, config.ProcQueryTimeout.Get(p.net.config))
		defer cancel()
		return agent.Get.Call(ctx, a, agent.GetRequest{ID: p.desc.ID.String()})
	}
	answers, errs := eachHost(ctx, hostsOf(p), get)
	spec, err := controller.TakeOver(p.desc.ID, slices.Concat(answers...), s.Epoch)
	if err != nil {
		return fail(errors.Join(append(errs, err)...))
	}
	spec.Lease = s.Lease
	spec.RestartPolicy = s.RestartPolicy
	spec.Procs.Restarts = s.RestartPolicy.Restarts()
	spec.Name = s.Display
	owner, err := p.net.controllers.start(ctx, spec)
	if err != nil {
		return fail(err)
	}
	if p.region.Equal(p.desc.Extent.Region()) {
		p.region = spec.Region
	}
	p.desc = spec.Procs
	p.desc.Owner = owner.ID()
	p.net.placements.learn(p.desc)
	o, err := agent.Create.Call(ctx, owner, agent.CreateRequest{})
	if err == nil { // each host has accepted the owner, or has failed
		running := agent.WaitRequest{ID: p.desc.ID.String(), Until: agent.Running}
		_, err = awaitSettled(ctx, owner, running, config.ProcSpawnProgressTimeout.Get(p.net.config), o)
	}
	if err != nil {
		p.net.controllers.release(ctx, p.desc.Owner, "the takeover of its mesh failed")
		return fail(err)
	}
	return p, nil
}
