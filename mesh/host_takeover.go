package mesh

import (
	"context"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// Owner returns the controller of the mesh, allocated or taken through this Net, that has all these
// hosts. It is the zero ID if there is none, as for found hosts. Any program can query and watch it
// like the controller of other meshes.
func (h HostMesh) Owner() subjects.ActorID {
	if h.Err() != nil {
		return subjects.ActorID{}
	}
	return h.net.controllers.ownerOf(h.hosts)
}

// Take makes this program the owner of the hosts. No other program can then drain a whole host or
// make it leave, until Release or Close of the Net. A host with another owner refuses; then no host
// is taken, and the *HostsError names each refusal. The program is an operator (AGT-13).
func (h HostMesh) Take(ctx context.Context) error {
	return takeOwnership(ctx, h, "take", agent.TakeHostRequest{})
}

// TakeOver is Take, also from a present owner, dead or alive.
func (h HostMesh) TakeOver(ctx context.Context) error {
	return takeOwnership(ctx, h, "take over", agent.TakeHostRequest{Force: true})
}

func takeOwnership(ctx context.Context, h HostMesh, verb string, t agent.TakeHostRequest) error {
	if err := h.Err(); err != nil {
		return err
	}
	take := func(ctx context.Context) (HostMesh, Allocation, error) {
		errs := sendTake(ctx, h, t)
		err := h.unreachable(errs)
		if err == nil {
			return h, takenHosts{h}, nil
		}
		got := HostMesh{net: h.net, name: h.name}
		for i, id := range h.hosts {
			if errs[i] == nil {
				got.hosts = append(got.hosts, id)
			}
		}
		return h, takenHosts{got}, fmt.Errorf("%s: %w", verb, err)
	}
	_, err := h.net.controllers.acquire(ctx, h.name, h.Extent(), true, take)
	return err
}

// Release ends the ownership of taken hosts. It ignores hosts that are gone.
func (h HostMesh) Release(ctx context.Context) error {
	if err := h.Err(); err != nil {
		return err
	}
	taken := func(o ownedController) bool { return o.preexisting }
	if err := h.net.controllers.releaseHosts(ctx, h.hosts, taken); err != nil {
		return err
	}
	return takenHosts{h}.Close(ctx) // h may be a part of the taken hosts
}

// sendTake takes or releases the hosts. It does not wait for dead ones.
func sendTake(ctx context.Context, h HostMesh, t agent.TakeHostRequest) []error {
	ctx, cancel := withTimeout(ctx, config.AttachTimeout.Get(h.net.config))
	defer cancel()
	dead, forget, err := watchDeaths(h, func(presence.Change) bool { return true })
	if err != nil {
		return slices.Repeat([]error{err}, len(h.hosts))
	}
	defer forget()
	_, errs := eachHost(ctx, h, func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.HostInfo, error) {
		return askAlive(ctx, dead, a, func(ctx context.Context) (agent.HostInfo, error) {
			return agent.TakeHost.Call(ctx, a, t)
		})
	})
	return errs
}

// takenHosts are hosts owned by this program. Close releases them.
type takenHosts struct{ mesh HostMesh }

func (t takenHosts) Hosts() []subjects.HostID { return slices.Clone(t.mesh.hosts) }

func (t takenHosts) Close(ctx context.Context) error {
	errs := sendTake(ctx, t.mesh, agent.TakeHostRequest{Release: true})
	for i, err := range errs {
		if isUnreachable(err) {
			errs[i] = nil
		}
	}
	if err := t.mesh.unreachable(errs); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}
