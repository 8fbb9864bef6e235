package mesh

import (
	"context"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// States returns the state of each proc of the region, by rank of the region, from its host. Ranks
// on a host that does not answer within the deadline (default proc.query-timeout) are Timeout,
// unless this process knows their end. If the hosts have forgotten the mesh, the error is a
// *NotFoundError.
func (p ProcMesh) States(ctx context.Context) (shape.ValueMesh[agent.State], error) {
	p = resolved(p)
	var none shape.ValueMesh[agent.State]
	if err := p.Err(); err != nil {
		return none, err
	}
	ctx, cancel := withTimeout(ctx, config.ProcQueryTimeout.Get(p.net.config))
	defer cancel()
	id := p.desc.ID.String()
	by, silent := statesOn(ctx, p, hostsOf(p))
	out := make([]agent.State, p.region.NumRanks())
	for view, base := range p.region.Ranks() {
		s, known := by[base]
		host := p.shareHost(base / p.desc.PerHost)
		switch why := silent[host]; {
		case !host.IsValid():
			missing := agent.Status{Phase: agent.NotExist, Reason: noHostError(p.desc, base).Error()}
			s = agent.State{ID: id, Status: missing}
		case why != nil:
			late := agent.Status{Phase: agent.Timeout, Reason: fmt.Sprintf("host %s: %v", host, why)}
			s = agent.State{ID: id, Status: knownEnd(p, base, late)}
		case !known:
			return none, &NotFoundError{What: "mesh", Name: id}
		}
		s.Rank = view
		out[view] = s
	}
	return shape.NewValueMesh(p.region, out)
}

// statesOn asks hosts for the states of the mesh. It returns them by rank of the mesh, and the
// errors of silent hosts.
func statesOn(
	ctx context.Context, p ProcMesh, h HostMesh,
) (by map[int]agent.State, silent map[subjects.HostID]error) {
	answers, errs := eachHost(ctx, h,
		func(ctx context.Context, a actor.Ref[agent.Agent]) ([]agent.State, error) {
			return agent.Get.Call(ctx, a, agent.GetRequest{ID: p.desc.ID.String()})
		})
	by = map[int]agent.State{}
	silent = map[subjects.HostID]error{}
	for i, states := range answers {
		if errs[i] != nil {
			silent[h.hosts[i]] = errs[i]
		}
		for _, s := range states {
			if known, ok := by[s.Rank]; !ok || s.Gen >= known.Gen {
				by[s.Rank] = s
			}
		}
	}
	return by, silent
}

// describeRank names a rank of the mesh.
func describeRank(p ProcMesh, base int) string {
	point, err := p.desc.Extent.Point(base)
	if err != nil {
		return fmt.Sprintf("rank %d", base)
	}
	return fmt.Sprintf("rank %d (%s)", base, point)
}

// knownEnd returns the end of a rank of the mesh that this process has heard of, or else a status.
func knownEnd(p ProcMesh, base int, otherwise agent.Status) agent.Status {
	members := p.net.proc.Members()
	e, down := members.Down(members.LatestGeneration(p.desc.ProcID(base, 0)))
	var phase agent.Phase
	if !down || phase.UnmarshalText([]byte(e.Status)) != nil {
		return otherwise
	}
	return agent.Status{Phase: phase, Reason: e.Reason}
}

// States returns the state of each host, by rank. A host that answers is Running in any mode; the
// mode is the reason if the host accepts no procs. Hosts that do not answer within the deadline
// (default proc.query-timeout) are Timeout.
func (h HostMesh) States(ctx context.Context) (shape.ValueMesh[agent.State], error) {
	if err := h.Err(); err != nil {
		return shape.ValueMesh[agent.State]{}, err
	}
	ctx, cancel := withTimeout(ctx, config.ProcQueryTimeout.Get(h.net.config))
	defer cancel()
	infos, errs := eachHost(ctx, h, func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.HostInfo, error) {
		return agent.Info.Call(ctx, a, actor.None{})
	})
	out := make([]agent.State, len(infos))
	for i, info := range infos {
		s := agent.State{ID: h.hosts[i].String(), Rank: i, Status: agent.Status{Phase: agent.Running}}
		if errs[i] != nil {
			s.Status = agent.Status{Phase: agent.Timeout, Reason: errs[i].Error()}
		} else if info.Mode != agent.ModeOpen {
			s.Status.Reason = string(info.Mode) + ": " + info.ModeReason
		}
		out[i] = s
	}
	return shape.NewValueMesh(h.region, out)
}

// Ping reports the hosts that answer within the deadline (default 30 s).
func (h HostMesh) Ping(ctx context.Context) (shape.ValueMesh[bool], error) {
	if err := h.Err(); err != nil {
		return shape.ValueMesh[bool]{}, err
	}
	ctx, cancel := withTimeout(ctx, actor.DefaultDeadline)
	defer cancel()
	_, errs := eachHost(ctx, h, func(ctx context.Context, a actor.Ref[agent.Agent]) (actor.None, error) {
		return agent.Ping.Call(ctx, a, actor.None{})
	})
	alive := make([]bool, len(errs))
	for i, err := range errs {
		alive[i] = err == nil
	}
	return shape.NewValueMesh(h.region, alive)
}

// hostsOf returns the hosts of the region's ranks, in order.
func hostsOf(p ProcMesh) HostMesh {
	h := HostMesh{net: p.net, name: defaultHosts}
	seen := map[int]bool{}
	for _, base := range p.region.Ranks() {
		if at := base / p.desc.PerHost; !seen[at] {
			seen[at] = true
			if host := p.shareHost(at); host.IsValid() {
				h.hosts = append(h.hosts, host)
			}
		}
	}
	return h
}

// ActorStates returns the state of the actors of a full name, by rank of the region. Silent ranks
// are Timeout, or have the end of their proc that this process knows. If a proc does not know the
// name, the error is a *NotFoundError.
func (p ProcMesh) ActorStates(ctx context.Context, name string) (shape.ValueMesh[agent.State], error) {
	p = resolved(p)
	var none shape.ValueMesh[agent.State]
	if err := p.Err(); err != nil {
		return none, err
	}
	ctx, cancel := withTimeout(ctx, config.ActorQueryTimeout.Get(p.net.config))
	defer cancel()
	all, err := cast.Gather(ctx, agentsOf(p), agent.Get, agent.GetRequest{ID: name})
	silent, err := statusesByRank(err)
	if err != nil {
		return none, err
	}
	out := make([]agent.State, p.region.NumRanks())
	for rank, base := range p.region.Ranks() {
		states, _ := all.At(rank)
		switch why, is := silent[rank]; {
		case is:
			late := agent.Status{Phase: agent.Timeout, Reason: why.Reason}
			out[rank] = agent.State{ID: name, Rank: rank, Status: knownEnd(p, base, late)}
		case len(states) == 0:
			return none, &NotFoundError{What: "actor mesh", Name: name, Where: describeRank(p, base)}
		default:
			out[rank] = states[0]
			out[rank].Rank = rank
		}
	}
	return shape.NewValueMesh(p.region, out)
}

// statusesByRank converts a cast's *CoverageError to statuses by rank: its Failed ranks are Failed,
// its Missing ranks Timeout. Other errors are returned.
func statusesByRank(err error) (map[int]agent.Status, error) {
	partial, ok := errors.AsType[*cast.CoverageError](err)
	if !ok {
		return nil, err
	}
	by := map[int]agent.Status{}
	for _, f := range partial.Coverage.Failed {
		by[f.Rank] = agent.Status{Phase: agent.Failed, Reason: f.Err.Error()}
	}
	for _, f := range partial.Coverage.Missing {
		by[f.Rank] = agent.Status{Phase: agent.Timeout, Reason: f.Err.Error()}
	}
	return by, nil
}

// Ping reports the procs of the region that answer within the deadline (default 30 s).
func (p ProcMesh) Ping(ctx context.Context) (shape.ValueMesh[bool], error) {
	p = resolved(p)
	var none shape.ValueMesh[bool]
	ctx, cancel := withTimeout(ctx, actor.DefaultDeadline)
	defer cancel()
	_, err := cast.Gather(ctx, agentsOf(p), agent.Ping, actor.None{})
	silent, err := statusesByRank(err)
	if err != nil {
		return none, err
	}
	alive := make([]bool, p.region.NumRanks())
	for rank := range alive {
		_, is := silent[rank]
		alive[rank] = !is
	}
	return shape.NewValueMesh(p.region, alive)
}

// States returns the state of each actor of the region; see ProcMesh.ActorStates.
func (m actorMesh) States(ctx context.Context) (shape.ValueMesh[agent.State], error) {
	if err := m.Err(); err != nil {
		return shape.ValueMesh[agent.State]{}, err
	}
	return m.procs.ActorStates(ctx, m.name)
}
