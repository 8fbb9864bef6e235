package mesh

import (
	"context"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// Take makes this program the owner of the hosts: nobody else then drains all of one, or has it leave, until Release
// or Close of the Net. A host that another owns refuses; the error is an *AttachError that names each of those,
// and no host is taken then.
func (h HostMesh) Take(ctx context.Context) error { return h.own(ctx, "take", agent.Taking{}) }

// Seize is Take from whoever owns the hosts, who may be long gone.
func (h HostMesh) Seize(ctx context.Context) error {
	return h.own(ctx, "seize", agent.Taking{Force: true})
}

func (h HostMesh) own(ctx context.Context, verb string, t agent.Taking) error {
	if err := h.Err(); err != nil {
		return err
	}
	_, err := h.net.gain(ctx, h.name, h.Extent(), true, func(ctx context.Context) (HostMesh, Allocation, error) {
		errs := h.ask(ctx, t, nil)
		err := h.unreachable(errs)
		if err == nil {
			return h, taken{h}, nil
		}
		got := HostMesh{net: h.net, name: h.name}
		for i, id := range h.hosts {
			if errs[i] == nil {
				got.hosts = append(got.hosts, id)
			}
		}
		return h, taken{got}, fmt.Errorf("%s: %w", verb, err)
	})
	return err
}

// Release lets go of hosts that were taken. Hosts that are gone are nobody's.
func (h HostMesh) Release(ctx context.Context) error {
	if err := h.Err(); err != nil {
		return err
	}
	if err := h.net.giveBack(ctx, h.hosts, func(o owned) bool { return o.taken }); err != nil {
		return err
	}
	return taken{h}.Close(ctx) // a part of what was taken
}

// ask takes the hosts, or lets go of them. Those that are dead are not waited for.
func (h HostMesh) ask(ctx context.Context, t agent.Taking, dead deaths) []error {
	ctx, cancel := within(ctx, config.AttachTimeout.Get(h.net.config))
	defer cancel()
	_, errs := eachHost(ctx, h, func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.HostInfo, error) {
		ctx, over := dead.until(ctx, a)
		defer over()
		return agent.Take.Call(ctx, a, t)
	})
	return errs
}

// taken is hosts that this program owns. Giving them back is letting go of them.
type taken struct{ mesh HostMesh }

func (t taken) Hosts() []subjects.HostID { return slices.Clone(t.mesh.hosts) }

func (t taken) Close(ctx context.Context) error {
	dead, forget, err := t.mesh.deaths(func(presence.Change) bool { return true })
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	defer forget()
	errs := t.mesh.ask(ctx, agent.Taking{Release: true}, dead)
	for i, err := range errs {
		if gone(err) || dead.has(t.mesh.hosts[i]) {
			errs[i] = nil
		}
	}
	if err := t.mesh.unreachable(errs); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}
