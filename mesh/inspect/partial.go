package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// Waited returns how long a sample only waited: for procs and hosts without an answer.
func (l Sample) Waited() time.Duration {
	if l.Missing != nil || slices.ContainsFunc(l.Procs, func(p ProcCounters) bool { return p.Silent }) {
		return askTimeout
	}
	return 0
}

// Partial reports whether a sample of an Inventory is partial.
func (t *Sampler) Partial(inv mesh.Inventory) bool {
	return t.MaxAsked > 0 && t.countLive(inv) > t.MaxAsked
}

// countLive returns the number of live procs of a sample.
func (t *Sampler) countLive(inv mesh.Inventory) (n int) {
	for _, m := range inv.Meshes {
		for _, s := range m.States {
			if !s.Status.Phase.Terminal() && (t.Only == nil || t.Only(s.ID, s.Rank)) {
				n++
			}
		}
	}
	return n
}

// askActors returns the actors of the procs of a mesh, by rank; partial: of the wanted ones alone.
// Procs without an answer have none.
func askActors(
	ctx context.Context, m mesh.MeshState, partial bool, wanted func(rank int) bool,
) map[int][]agent.State {
	said := map[int][]agent.State{}
	if !partial {
		all, _ := m.Procs.Actors(ctx)
		for rank, states := range all.Values() {
			said[rank] = states
		}
		return said
	}
	all, _ := gatherActors(ctx, m, wanted)
	for rank, states := range all.Values() {
		if len(states) > 0 {
			said[rank] = states
		}
	}
	return said
}

// gatherActors asks the procs of the wanted live ranks of a mesh for their actors.
func gatherActors(
	ctx context.Context, m mesh.MeshState, wanted func(rank int) bool,
) (all shape.ValueMesh[[]agent.State], err error) {
	some, err := selectLive(m, wanted)
	if err != nil || some.IsEmpty() {
		return all, err
	}
	agents := mesh.ActorsOn[agent.Agent](m.Procs, agent.Name)
	return cast.Gather(ctx, cast.Select(agents, some), agent.Get, agent.GetRequest{})
}

// selectLive selects the wanted live ranks of a mesh.
func selectLive(m mesh.MeshState, wanted func(rank int) bool) (shape.Selection, error) {
	var ranks []int
	for _, s := range m.States {
		if !s.Status.Phase.Terminal() && wanted(s.Rank) {
			ranks = append(ranks, s.Rank)
		}
	}
	return shape.SelectionOfRanks(m.Procs.Extent(), ranks)
}

// procAgentType is the type of a proc's own agent, whose messages are not counted.
const procAgentType = "proc-agent"

// sumHosts asks the wanted hosts for the sums over their procs.
func (t *Sampler) sumHosts(ctx context.Context, hosts []mesh.HostState) map[string]Counters {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make([]agent.Metrics, len(hosts))
	askEach(hosts, func(i int, h mesh.HostState) {
		if h.State == agent.HostAlive && t.WantedHost(h.ID.String()) { // without an answer it has no sums
			answers[i], _ = agent.GetMetrics.Call(ctx, agent.Of(h.ID.Proc()).Via(t.Net.Proc()), actor.None{})
		}
	})
	sums := map[string]Counters{}
	for i, m := range answers {
		if m.Host != "" {
			sums[hosts[i].ID.String()] = sumMeshes(m)
		}
	}
	return sums
}

// sumMeshes adds up the messages of all meshes of a host, without those of its agents.
func sumMeshes(m agent.Metrics) (c Counters) {
	for _, of := range m.Meshes {
		if of.Mesh == "" {
			continue // the host itself
		}
		for _, t := range of.Types {
			if t.Type == procAgentType {
				continue
			}
			c.Queued += t.Queued
			for _, e := range t.Endpoints {
				c.Handled += e.Handled
			}
		}
	}
	return c
}

// computeHostRates sets the messages of the hosts of a partial sample, and compares them with the
// sample before.
func (t *Sampler) computeHostRates(l *Sample, sums map[string]Counters) {
	if !l.Partial {
		t.previousHosts = nil
		return
	}
	now := map[string]pastCount{}
	for i := range l.Hosts {
		h := &l.Hosts[i]
		sum, known := sums[h.ID]
		h.Queued = sum.Queued
		h.Handled = sum.Handled
		h.Rate = 0
		if !known {
			continue
		}
		now[h.ID] = pastCount{at: l.At, handled: sum.Handled}
		was, compared := t.previousHosts[h.ID]
		if since := l.At.Sub(was.at); compared && since > 0 && sum.Handled >= was.handled {
			h.Rate = float64(sum.Handled-was.handled) / since.Seconds()
		}
	}
	t.previousHosts = now
}
