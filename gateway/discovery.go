package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/internal/micro"
	"github.com/castnet-io/castnet/mesh"
)

const (
	serviceName = "castnet-gateway"
	// discoveryTimeout bounds a query of all meshes for discovery.
	discoveryTimeout = 2 * time.Second
	// maxListed bounds the endpoints of an INFO, so that it fits into one message.
	maxListed = 1000
	// maxInfos bounds the waiters for an INFO; requests beyond it get no answer.
	maxInfos = 64
)

// catalog is the list of castable endpoints at the last request.
type catalog struct {
	mu      sync.Mutex // guards all, and is held by who looks
	at      time.Time
	entries []micro.Endpoint

	waiting atomic.Int32 // for an INFO
}

// discover makes the gateway a micro service.
func (g *Gateway) discover() error {
	return micro.Serve(g.proc.Foreign().Service(g.data, micro.Inbox), micro.Service{
		Name: serviceName, ID: g.ID().String(), Version: g.version,
		Description: "casts to meshes for any NATS client",
		Metadata:    map[string]string{"host": g.label, "namespace": g.space.Namespace()},
		Info:        g.answerInfo,
		Stats:       g.stats,
	})
}

// answerInfo answers an INFO once the catalog is complete.
func (g *Gateway) answerInfo(answer func([]micro.Endpoint)) {
	n := &g.catalog.waiting
	if n.Add(1) > maxInfos || !g.spawn(func(ctx context.Context) {
		defer n.Add(-1)
		answer(g.endpoints(ctx))
	}) {
		n.Add(-1)
	}
}

// endpoints lists every endpoint of every live actor mesh.
func (g *Gateway) endpoints(ctx context.Context) []micro.Endpoint {
	c := &g.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < entryMaxAge/5 {
		return c.entries
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	inv, err := g.net.Inventory(ctx)
	all := inv.Meshes
	if err != nil {
		g.sampledLog.Warn().Err(err).Msg("cannot list the endpoints")
		return c.entries
	}
	rosters := make([]mesh.ActorList, len(all))
	schemas := make([]map[string]map[string]agent.Schema, len(all))
	fanout.Each(maxLookups, all, func(i int, m mesh.MeshState) {
		if m.Alive() {
			rosters[i], _ = m.Procs.ListActors(ctx) // one that does not answer is not listed
			schemas[i], _ = m.Procs.Schemas(ctx)
		}
	})
	var out []micro.Endpoint
	for i, m := range all {
		out = append(out, g.listing(m.Procs, rosters[i], schemas[i])...)
	}
	slices.SortFunc(out, func(a, b micro.Endpoint) int { return strings.Compare(a.Subject, b.Subject) })
	c.at = time.Now()
	c.entries = out[:min(len(out), maxListed)]
	return c.entries
}

// listing is the endpoints of one mesh.
func (g *Gateway) listing(procs mesh.ProcMesh, r mesh.ActorList, schemas map[string]map[string]agent.Schema) (
	out []micro.Endpoint) {
	id := procs.ID()
	for full, info := range r.Actors {
		if !info.Managed { // the proc's own
			continue
		}
		for _, text := range info.Endpoints {
			name, types, _ := strings.Cut(text, "(")
			in, answer := splitTypes(types)
			e := micro.Endpoint{
				Name: micro.Name(id.Label(), full, name), Subject: g.space.GatewayTo(id.String(), full, name),
				Group: queueGroup,
				Metadata: map[string]string{
					"mesh": id.String(), "actor": full, "endpoint": name, "type": info.Type,
					"shape": procs.Extent().String(), "in": in, "out": answer,
					"reducers": strings.Join(info.Reducers[name], ","), "direction": agent.Direction(answer),
				},
			}
			if s, ok := schemas[full][name]; ok {
				e.Metadata["in-schema"], e.Metadata["out-schema"] = s.In, s.Out
			}
			out = append(out, e)
		}
	}
	return out
}

// splitTypes reads `in) out`. The types may have parentheses themselves.
func splitTypes(types string) (in, out string) {
	depth := 1
	for i, c := range types {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
			if depth == 0 {
				return types[:i], strings.TrimSpace(types[i+1:])
			}
		}
	}
	return types, ""
}

// stats is the gateway's statistics as one endpoint: one subject covers all its casts. Their data
// are the metrics of the gateway.
func (g *Gateway) stats() []micro.Stats {
	_, m := g.Metrics()
	s := micro.Stats{
		Name: "cast", Subject: g.space.Gateways(), Group: queueGroup,
		Requests:       g.counts.requests.Load(),
		Errors:         m.Gateway.Requests[outcomeFailed] + m.Gateway.Requests[outcomeRefused],
		ProcessingTime: m.Gateway.Served.Sum, Data: m,
	}
	if text := g.counts.lastError.Load(); text != nil {
		s.LastError = *text
	}
	if served := m.Gateway.Served; served.Count > 0 {
		s.AverageTime = served.Sum / time.Duration(served.Count)
	}
	return []micro.Stats{s}
}
