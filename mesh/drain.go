package mesh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Drain moves the procs of every host to spares, where the policies of their meshes allow it, and
// stops the others, of any owner. The hosts stay. A drain that would lose actors, or end ranks for
// lack of a spare, is refused, see CheckDrain, unless DrainOptions.Force is set. It is for
// operators, and for the program that allocated the hosts (AGT-13).
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
	Force         bool          // drain also where actors or ranks are lost, see CheckDrain
}

// CheckDrain fails with a *LostActorsError for each mesh that a Drain would move to its spares
// without some of its actors. Actors of stopped procs stop too and are not lost. It fails with a
// *NoSpareError for each mesh with spares in its policy, of which too few accept procs. A silent
// owner of a mesh is an error too: the ranks may have to move.
func (h HostMesh) CheckDrain(ctx context.Context) error {
	if err := h.Err(); err != nil {
		return err
	}
	meshes, err := h.net.meshesOnPresent(ctx, h.hosts) // the ranks of others are gone already
	if err != nil {
		return fmt.Errorf("drain %s: %w", h.name, err)
	}
	lost := make([]error, len(meshes))
	fanout.Each(maxConcurrentAsks, meshes, func(i int, m MeshState) { lost[i] = m.lostByMoving(ctx, h.hosts) })
	return errors.Join(lost...)
}

// NoSpareError reports that a drain would end ranks of a mesh for good: too few of its spare hosts
// accept procs.
type NoSpareError struct {
	Mesh   string
	Region string   // the ranks, in the extent of the whole proc mesh
	Closed []string // why remaining spare hosts take no ranks
}

func (e *NoSpareError) Error() string {
	why := "too few spare hosts are left"
	if len(e.Closed) > 0 {
		why = joinSome(e.Closed, maxListed)
	}
	return fmt.Sprintf("drain %s: its ranks [%s] end, which cannot move: %s", e.Mesh, e.Region, why)
}

// lostByMoving returns what the MeshState would lose with a drain of hosts: ranks or actors. The
// procs of a dead owner, and of a policy without spares, are not meant to move.
func (m MeshState) lostByMoving(ctx context.Context, drained []subjects.HostID) error {
	p := m.Procs
	if !m.Alive() || p.desc.World != nil {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, config.ActorQueryTimeout.Get(p.net.config))
	defer cancel()
	r, err := controller.Health.Call(asking, p.controller(), actor.None{})
	if err != nil && !isUnreachable(err) {
		return fmt.Errorf("cannot ask the owner of mesh %s for its spare hosts: %w", p.desc.ID, err)
	}
	if err != nil || len(r.RestartPolicy.Spares) == 0 {
		return ctx.Err()
	}
	here := map[int]bool{}
	leaving := map[int]bool{} // by place in the mesh
	for _, s := range m.States {
		if !s.Status.Phase.Terminal() {
			here[s.Rank] = true
			leaving[s.Rank/max(p.desc.PerHost, 1)] = true
		}
	}
	closed := closedSpares(asking, p.net, r.Spares, drained)
	if len(r.Spares)-len(closed) < len(leaving) {
		region := shape.Describe(p.desc.Extent, slices.Sorted(maps.Keys(here)))
		return &NoSpareError{p.desc.ID.String(), region, closed}
	}
	return lostActors(ctx, p, "drain", func(base int) bool { return here[base] })
}

// closedSpares says why some spare hosts take no ranks from drained hosts.
func closedSpares(ctx context.Context, n *Net, spares, drained []subjects.HostID) []string {
	why := make([]string, len(spares))
	fanout.Each(maxConcurrentAsks, spares, func(i int, h subjects.HostID) {
		info, err := agent.Info.Call(ctx, agent.Of(h.Proc()).Via(n.proc), actor.None{})
		switch {
		case slices.Contains(drained, h):
			why[i] = fmt.Sprintf("spare host %s is drained, too", h.Label())
		case err != nil:
			why[i] = fmt.Sprintf("spare host %s does not answer", h.Label())
		case info.Mode != agent.ModeOpen:
			why[i] = fmt.Sprintf("spare host %s is %s", h.Label(), info.Mode)
		}
	})
	return slices.DeleteFunc(why, func(s string) bool { return s == "" })
}
