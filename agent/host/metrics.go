package host

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// metricsTimeout bounds the answers of procs to a request for metrics. One without an answer
	// counts as silent.
	metricsTimeout = time.Second
	// maxMetricsCalls bounds the concurrent requests to procs.
	maxMetricsCalls = 64
)

// metricsRequests are the requests for metrics. Those that arrive during a collection share it.
type metricsRequests struct {
	waiting []*actor.Deferred[agent.Metrics]
	counted procCounts
}

// metrics replies with the metrics of the host and of its procs.
func (a *hostAgent) metrics(ctx *actor.Context) {
	s := &a.metricsRequests
	s.waiting = append(s.waiting, actor.Defer[agent.Metrics](ctx))
	if len(s.waiting) > 1 {
		return
	}
	via, live := ctx.Proc(), map[subjects.ProcID]agent.MeshMetrics{}
	sum := agent.Metrics{Host: a.id.Label(), Meshes: []agent.MeshMetrics{agent.ProcMetrics(via)}}
	known := map[string]bool{}
	now := time.Now()
	for id, of := range a.procs {
		var leases agent.LeaseMetrics
		until, ttl := a.table.LeaseExpiry(id), a.table.LeaseTTL(id)
		if !until.IsZero() && ttl < agent.Forever && a.table.Phases(id).Alive() > 0 {
			leases = agent.LeaseMetrics{Remaining: until.Sub(now), TTL: ttl}
		}
		for rank, c := range of.procs {
			name := c.id.Mesh.Label()
			m := agent.MeshMetrics{
				Mesh: name, Restarts: int(c.id.Gen), Leases: leases,
				Ranks: map[agent.Phase]int{a.table.Status(id, rank).Phase: 1},
			}
			sum = sum.Add(agent.Metrics{Meshes: []agent.MeshMetrics{m}})
			known[name] = true
			if c.process != nil && !c.state.Terminal() {
				m = agent.MeshMetrics{Mesh: name, Silent: 1}
				m.CPUTime, m.Memory = c.process.Usage()
				live[c.id] = m
			}
		}
	}
	ctx.Go(func(work context.Context) func(*actor.Context) {
		askProcs(work, via, live)
		if a.opts.Metrics != nil {
			known[""] = true
			maps.Copy(live, a.opts.Metrics())
		}
		return func(*actor.Context) {
			sum = sum.Add(s.counted.add(known, live))
			for _, answer := range s.waiting {
				answer.Reply(sum, nil)
			}
			s.waiting = nil
		}
	})
}

// askProcs adds the answers of procs to their metrics. Procs without an answer stay silent.
func askProcs(ctx context.Context, via *actor.Proc, procs map[subjects.ProcID]agent.MeshMetrics) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	ids := slices.Collect(maps.Keys(procs))
	answers := make([]agent.Metrics, len(ids))
	fanout.Each(maxMetricsCalls, ids, func(i int, id subjects.ProcID) {
		answers[i], _ = agent.GetMetrics.Call(ctx, agent.Of(id).Via(via), actor.None{})
	})
	for i, id := range ids {
		if len(answers[i].Meshes) != 1 {
			continue
		}
		m := answers[i].Meshes[0]
		m.Mesh = procs[id].Mesh
		m.CPUTime = procs[id].CPUTime
		m.Memory = procs[id].Memory
		procs[id] = m
	}
}

// procCounts keep the counters of procs that ended or are silent, as their sum may not fall:
// Prometheus takes a fall for a restart from 0.
type procCounts struct {
	last  map[subjects.ProcID]agent.MeshMetrics // counters of live procs
	ended agent.Metrics                         // counters of ended procs
}

// add returns the sum of live procs and of ended ones. It forgets those of unknown meshes.
func (p *procCounts) add(known map[string]bool, live map[subjects.ProcID]agent.MeshMetrics) agent.Metrics {
	for id, m := range p.last {
		if _, lives := live[id]; !lives {
			p.ended = p.ended.Add(agent.Metrics{Meshes: []agent.MeshMetrics{m}})
		}
	}
	p.ended.Meshes = slices.DeleteFunc(p.ended.Meshes, func(m agent.MeshMetrics) bool { return !known[m.Mesh] })
	sum, last := p.ended, map[subjects.ProcID]agent.MeshMetrics{}
	for id, m := range live {
		if m.Silent > 0 {
			silent := agent.MeshMetrics{Mesh: m.Mesh, Silent: m.Silent, Memory: m.Memory}
			m = p.last[id]
			m.Mesh = silent.Mesh
			sum = sum.Add(agent.Metrics{Meshes: []agent.MeshMetrics{silent}})
		}
		sum = sum.Add(agent.Metrics{Meshes: []agent.MeshMetrics{m}})
		last[id] = m.Counters()
	}
	p.last = last
	return sum
}
