package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
)

// metric is one metric with its value for the procs of a mesh.
type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

func counter[T any](name, help string, labels []string, value func(T) float64) metric[T] {
	return metric[T]{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue, value}
}

func gauge[T any](name, help string, labels []string, value func(T) float64) metric[T] {
	return metric[T]{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, value}
}

// send sends the sample of one metric.
func (m metric[T]) send(to chan<- prometheus.Metric, of T, labels ...string) {
	to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(of), labels...)
}

// number converts a count.
func number[N int | int64 | uint64](n N) float64 { return float64(n) }

// descriptions are all metrics.
type descriptions struct {
	ranks, actors metric[int]
	meshes        []metric[agent.MeshMetrics]
	types         []metric[agent.TypeMetrics]
	endpoints     []metric[actor.EndpointInfo]
	waited, ran   *prometheus.Desc

	casts       metric[uint64]
	castRanks   []metric[cast.KindCount]
	castTime    *prometheus.Desc
	leases      []metric[agent.LeaseMetrics]
	detections  *prometheus.Desc
	execs       metric[uint64]
	dropped     metric[uint64]
	gateway     []metric[agent.GatewayMetrics]
	requests    metric[uint64]
	requestTime *prometheus.Desc
}

func describe() descriptions {
	mesh := []string{"host", "mesh"}
	byType := []string{"host", "mesh", "type"}
	byEndpoint := []string{"host", "mesh", "type", "endpoint"}
	byKind := []string{"host", "mesh", "kind"}
	perMesh := func(name, help string, value func(agent.MeshMetrics) float64) metric[agent.MeshMetrics] {
		return counter(name, help, mesh, value)
	}
	return descriptions{
		ranks: gauge("castnet_ranks", "Ranks on the host, by phase.",
			[]string{"host", "mesh", "phase"}, number[int]),
		actors: gauge("castnet_actors", "Actors, by status; ended ones until they are forgotten.",
			[]string{"host", "mesh", "type", "status"}, number[int]),
		meshes: []metric[agent.MeshMetrics]{
			gauge("castnet_silent_procs", "Live procs that did not answer this scrape.", mesh,
				func(m agent.MeshMetrics) float64 { return number(m.Silent) }),
			gauge("castnet_generations", "Restarts of the ranks that are on the host now.", mesh,
				func(m agent.MeshMetrics) float64 { return number(m.Restarts) }),
			gauge("castnet_procs_resident_memory_bytes", "Resident memory of the procs' processes.", mesh,
				func(m agent.MeshMetrics) float64 { return number(m.Memory) }),
			perMesh("castnet_procs_cpu_seconds_total", "Processor time of the procs' processes.",
				func(m agent.MeshMetrics) float64 { return m.CPUTime.Seconds() }),
			perMesh("castnet_bus_reconnects_total", "Connections to the bus that were made again.",
				func(m agent.MeshMetrics) float64 { return number(m.Reconnects) }),
			perMesh("castnet_messages_malformed_total", "Received messages that nobody could decode.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Malformed) }),
			perMesh("castnet_messages_undeliverable_total", "Received messages without a mailbox for them.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Undeliverable) }),
			perMesh("castnet_messages_bounced_total", "Sent messages that came back.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Bounced) }),
			perMesh("castnet_messages_foreign_total", "Messages from plain NATS clients.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Foreign) }),
			perMesh("castnet_messages_fenced_total", "Packets from dead processes, refused.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Fenced) }),
			perMesh("castnet_messages_indeterminate_total", "Sent messages with an unknown outcome.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Links.Indeterminate) }),
			perMesh("castnet_messages_denied_total", "Publications that the server did not permit.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Links.Denied) }),
			perMesh("castnet_messages_unknown_total", "Received messages with fields of a later build.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Unknown) }),
			perMesh("castnet_bus_replies_ignored_total", "Replies to requests that were no answers.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.IgnoredReplies) }),
			perMesh("castnet_lease_renewal_failures_total", "Leases that an agent did not renew for its owner here.",
				func(m agent.MeshMetrics) float64 { return number(m.Leases.RenewalFailures) }),
			perMesh("castnet_leases_expired_total", "Leases that ended without a renewal.",
				func(m agent.MeshMetrics) float64 { return number(m.Leases.Expired) }),
			perMesh("castnet_answers_late_total", "Answers that no caller waited for any more.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Late) }),
			perMesh("castnet_link_packets_sent_total", "Packets sent to other processes.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Links.Sent) }),
			perMesh("castnet_link_packets_received_total", "Packets received in order.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Links.Delivered) }),
			perMesh("castnet_link_packets_retransmitted_total", "Packets sent again.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Links.Retransmitted) }),
			perMesh("castnet_link_gaps_total", "Gaps in the order of received packets.",
				func(m agent.MeshMetrics) float64 { return number(m.Stats.Links.Gaps) }),
		},
		types: []metric[agent.TypeMetrics]{
			gauge("castnet_mailbox_messages", "Messages in mailboxes.", byType,
				func(t agent.TypeMetrics) float64 { return number(t.Queued) }),
			gauge("castnet_stuck_actors", "Actors in one handler for more than a second.", byType,
				func(t agent.TypeMetrics) float64 { return number(t.Stuck) }),
		},
		endpoints: []metric[actor.EndpointInfo]{
			counter("castnet_messages_handled_total", "Messages whose handler was called.", byEndpoint,
				func(e actor.EndpointInfo) float64 { return number(e.Handled) }),
			counter("castnet_messages_failed_total", "Messages whose handler returned an error.", byEndpoint,
				func(e actor.EndpointInfo) float64 { return number(e.Failed) }),
		},
		waited: prometheus.NewDesc("castnet_message_wait_seconds",
			"Time of a message in the mailbox, of one message in 64.", byEndpoint, nil),
		ran: prometheus.NewDesc("castnet_message_run_seconds",
			"Time of a message in its handler, of one message in 64.", byEndpoint, nil),

		casts: counter("castnet_casts_total", "Casts that the procs made, at their ends.",
			[]string{"host", "mesh", "kind", "outcome"}, number[uint64]),
		castRanks: []metric[cast.KindCount]{
			counter("castnet_cast_ranks_asked_total", "Ranks that casts asked.", byKind,
				func(c cast.KindCount) float64 { return number(c.RanksAsked) }),
			counter("castnet_cast_ranks_failed_total", "Ranks with an error, or known to be gone.", byKind,
				func(c cast.KindCount) float64 { return number(c.RanksFailed) }),
			counter("castnet_cast_ranks_missing_total", "Ranks without an answer at the deadline.", byKind,
				func(c cast.KindCount) float64 { return number(c.RanksMissing) }),
		},
		castTime: prometheus.NewDesc("castnet_cast_seconds", "Time of a cast at its caller.", byKind, nil),
		leases: []metric[agent.LeaseMetrics]{
			gauge("castnet_lease_remaining_seconds", "Time left of the lease that ends next.", mesh,
				func(l agent.LeaseMetrics) float64 { return l.Remaining.Seconds() }),
			gauge("castnet_lease_ttl_seconds", "Time of that lease after a renewal.", mesh,
				func(l agent.LeaseMetrics) float64 { return l.TTL.Seconds() }),
		},
		detections: prometheus.NewDesc("castnet_detection_seconds",
			"Time from the suspicion of a host to the verdict.", []string{"host", "mesh", "verdict"}, nil),
		execs: counter("castnet_execs_total", "Commands that the host ran or refused.",
			[]string{"host", "mesh", "outcome"}, number[uint64]),
		dropped: counter("castnet_bus_messages_dropped_total", "Messages without room in a lossy inbox.",
			[]string{"host", "mesh", "inbox"}, number[uint64]),
		gateway: []metric[agent.GatewayMetrics]{
			gauge("castnet_gateway_requests_active", "Requests under way at the gateway.", mesh,
				func(g agent.GatewayMetrics) float64 { return number(g.UnderWay) }),
			counter("castnet_gateway_requests_unanswerable_total", "Requests without a valid reply subject.", mesh,
				func(g agent.GatewayMetrics) float64 { return number(g.Unanswerable) }),
			counter("castnet_gateway_requests_of_dead_total", "Requests of dead gateways, answered here.", mesh,
				func(g agent.GatewayMetrics) float64 { return number(g.AnsweredForDead) }),
		},
		requests: counter("castnet_gateway_requests_total", "Requests to the gateway, at their ends.",
			[]string{"host", "mesh", "outcome"}, number[uint64]),
		requestTime: prometheus.NewDesc("castnet_gateway_request_seconds",
			"Time of a request at the gateway, unless it was refused.", mesh, nil),
	}
}

// collector has the samples of one scrape, by the labels of hosts.
type collector map[string]agent.Metrics

// newCollector adds up hosts with one label: each series may come once.
func newCollector(hosts []agent.Metrics) collector {
	c := collector{}
	for _, h := range hosts {
		c[h.Host] = c[h.Host].Add(h)
	}
	return c
}

// Describe sends nothing: which series exist depends on the scrape.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends every sample.
func (c collector) Collect(to chan<- prometheus.Metric) {
	all := describe()
	for _, h := range c {
		for _, m := range h.Meshes {
			all.collect(to, h.Host, m)
		}
	}
}

func (d descriptions) collect(to chan<- prometheus.Metric, host string, m agent.MeshMetrics) {
	for phase, n := range m.Ranks {
		d.ranks.send(to, n, host, m.Mesh, phase.String())
	}
	for _, one := range d.meshes {
		one.send(to, m, host, m.Mesh)
	}
	for _, t := range m.Types {
		for status, n := range t.Actors {
			d.actors.send(to, n, host, m.Mesh, t.Type, string(status))
		}
		for _, one := range d.types {
			one.send(to, t, host, m.Mesh, t.Type)
		}
		for _, e := range t.Endpoints {
			labels := []string{host, m.Mesh, t.Type, e.Name}
			for _, one := range d.endpoints {
				one.send(to, e, labels...)
			}
			sendTiming(to, d.waited, e.Waited, labels)
			sendTiming(to, d.ran, e.Ran, labels)
		}
	}
	d.collectRare(to, host, m)
}

// collectRare sends the counts of events that are rarer than messages. A label value without an
// event has no series yet.
func (d descriptions) collectRare(to chan<- prometheus.Metric, host string, m agent.MeshMetrics) {
	for _, c := range m.Casts {
		for _, by := range []struct {
			outcome string
			n       uint64
		}{{"complete", c.Complete}, {"partial", c.Partial}, {"failed", c.Failed}, {"abandoned", c.Abandoned}} {
			d.casts.send(to, by.n, host, m.Mesh, c.Kind, by.outcome)
		}
		for _, one := range d.castRanks {
			one.send(to, c, host, m.Mesh, c.Kind)
		}
		sendTotal(to, d.castTime, agent.TimeTotal{Count: c.Casts(), Sum: c.Duration}, host, m.Mesh, c.Kind)
	}
	if m.Leases.TTL > 0 {
		for _, one := range d.leases {
			one.send(to, m.Leases, host, m.Mesh)
		}
	}
	for verdict, t := range m.Detections {
		sendTotal(to, d.detections, t, host, m.Mesh, verdict)
	}
	for outcome, n := range m.Execs {
		d.execs.send(to, n, host, m.Mesh, outcome)
	}
	for inbox, n := range m.Dropped {
		d.dropped.send(to, n, host, m.Mesh, inbox)
	}
	if m.Gateway.Requests == nil {
		return // there is no gateway
	}
	for outcome, n := range m.Gateway.Requests {
		d.requests.send(to, n, host, m.Mesh, outcome)
	}
	for _, one := range d.gateway {
		one.send(to, m.Gateway, host, m.Mesh)
	}
	sendTotal(to, d.requestTime, m.Gateway.Served, host, m.Mesh)
}

// sendTotal sends a summary without quantiles.
func sendTotal(to chan<- prometheus.Metric, desc *prometheus.Desc, t agent.TimeTotal, labels ...string) {
	to <- prometheus.MustNewConstSummary(desc, t.Count, t.Sum.Seconds(), nil, labels...)
}

// sendTiming sends a summary without quantiles: the sum and the number of sampled durations.
func sendTiming(to chan<- prometheus.Metric, desc *prometheus.Desc, t actor.Timing, labels []string) {
	sendTotal(to, desc, agent.TimeTotal{Count: t.Samples, Sum: t.Mean * time.Duration(t.Samples)}, labels...)
}
