package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/fanout"
)

// Drain moves the procs of every host to spares, where the policies of their meshes allow it, and
// stops the others, of any owner. The hosts stay. A drain that would lose actors is refused, see
// CheckDrain, unless DrainOptions.Force is set.
func (h HostMesh) Drain(ctx context.Context, d DrainOptions) (agent.StopSummary, error) {
	if !d.Force {
		if err := h.CheckDrain(ctx); err != nil {
			return agent.StopSummary{}, err
		}
	}
	request := agent.DrainRequest{Reason: d.Reason, Grace: d.Grace, MaxConcurrent: d.MaxConcurrent}
	drain := func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.StopSummary, error) {
		return agent.Drain.Call(ctx, a, request)
	}
	return collectSummary(ctx, h, "drain", drain)
}

// DrainOptions configures a drain of hosts.
type DrainOptions struct {
	Reason        string
	Grace         time.Duration // how long a proc may take to stop before it is killed; 0: the host's default
	MaxConcurrent int           // stops of a host, or moves of a mesh, at a time; 0: the host's default, or 1
	Force         bool          // drain also where procs move without their actors, see CheckDrain
}

// CheckDrain fails with a *LostActorsError for each mesh that a Drain would move to its spares
// without some of its actors. Actors of stopped procs stop too and are not lost.
func (h HostMesh) CheckDrain(ctx context.Context) error {
	if err := h.Err(); err != nil {
		return err
	}
	meshes, err := h.net.MeshesOn(ctx, h.hosts)
	if err != nil {
		return fmt.Errorf("drain %s: %w", h.name, err)
	}
	lost := make([]error, len(meshes))
	fanout.Each(maxConcurrentAsks, meshes, func(i int, m MeshState) { lost[i] = m.lostByMoving(ctx) })
	return errors.Join(lost...)
}

// lostByMoving returns a *LostActorsError if the procs of the MeshState would move to a spare
// without actors. The procs of a silent owner do not move.
func (m MeshState) lostByMoving(ctx context.Context) error {
	p := m.Procs
	if !m.Alive() || p.desc.World != nil {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, config.ActorQueryTimeout.Get(p.net.config))
	defer cancel()
	r, err := controller.Health.Call(asking, p.controller(), actor.None{})
	if err != nil || r.Spares == 0 {
		return ctx.Err()
	}
	here := map[int]bool{}
	for _, s := range m.States {
		here[s.Rank] = here[s.Rank] || !s.Status.Phase.Terminal()
	}
	return lostActors(ctx, p, "drain", func(base int) bool { return here[base] })
}
