package agent

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
)

// GetMetrics returns the metrics of an agent's process; from a host's agent also those of its
// procs. Hosts and procs serve it.
var GetMetrics = actor.NewEndpoint[Agent, actor.None, Metrics]("metrics")

// Metrics are the counters of a host and of its procs, from their starts. They are added up by the
// name of a mesh, actor type and endpoint: neither ranks nor actors add entries.
type Metrics struct {
	Host   string        `cbor:"1,keyasint,omitempty" json:"host,omitempty"` // its label; "" from a proc
	Meshes []MeshMetrics `cbor:"2,keyasint" json:"meshes"`                   // by name; the host itself is ""
}

// MeshMetrics are the metrics of the procs of one mesh.
type MeshMetrics struct {
	Mesh     string        `cbor:"1,keyasint" json:"mesh"`            // its name
	Ranks    map[Phase]int `cbor:"2,keyasint,omitempty" json:"ranks"` // by phase
	Silent   int           `cbor:"3,keyasint,omitempty" json:"silent"`
	Restarts int           `cbor:"4,keyasint,omitempty" json:"restarts"` // of these ranks
	CPUTime  time.Duration `cbor:"5,keyasint,omitempty" json:"cpu_time"`
	Memory   int64         `cbor:"6,keyasint,omitempty" json:"memory"` // resident bytes
	Stats    actor.Stats   `cbor:"7,keyasint" json:"stats"`
	// connections that the procs' bus made again
	Reconnects uint64        `cbor:"8,keyasint,omitempty" json:"reconnects"`
	Types      []TypeMetrics `cbor:"9,keyasint,omitempty" json:"types"` // by name

	Casts   []cast.KindCount `cbor:"10,keyasint,omitempty" json:"casts"` // made by these procs, by kind
	Leases  LeaseMetrics     `cbor:"11,keyasint,omitzero" json:"leases"`
	Gateway GatewayMetrics   `cbor:"12,keyasint,omitzero" json:"gateway,omitzero"`
	// time from the suspicion of a host to the verdict, by verdict; of the watchers in these procs
	Detections map[string]TimeTotal `cbor:"13,keyasint,omitempty" json:"detections,omitempty"`
	Execs      map[string]uint64    `cbor:"14,keyasint,omitempty" json:"execs,omitempty"` // by outcome
	// messages dropped by the lossy inboxes of the bus, by inbox
	Dropped map[string]uint64 `cbor:"15,keyasint,omitempty" json:"dropped,omitempty"`
}

// LeaseMetrics are the metrics of leases. The lease is the one that ends next on the host.
type LeaseMetrics struct {
	Remaining time.Duration `cbor:"1,keyasint,omitempty" json:"remaining"` // negative: it is overdue
	TTL       time.Duration `cbor:"2,keyasint,omitempty" json:"ttl"`       // 0: there is no lease
	// renewals by owners in these procs that agents did not confirm
	RenewalFailures uint64 `cbor:"3,keyasint,omitempty" json:"renewal_failures"`
	Expired         uint64 `cbor:"4,keyasint,omitempty" json:"expired"` // leases that ended without a renewal
}

// GatewayMetrics are the metrics of gateways.
type GatewayMetrics struct {
	Requests     map[string]uint64 `cbor:"1,keyasint,omitempty" json:"requests"` // that ended, by outcome
	Served       TimeTotal         `cbor:"2,keyasint,omitzero" json:"served"`    // of requests that were not refused
	UnderWay     int               `cbor:"3,keyasint,omitempty" json:"under_way"`
	Unanswerable uint64            `cbor:"4,keyasint,omitempty" json:"unanswerable"` // without a valid reply subject
	// requests of dead gateways that this one answered
	AnsweredForDead uint64 `cbor:"5,keyasint,omitempty" json:"answered_for_dead"`
}

// TimeTotal is a sum of durations and their number.
type TimeTotal struct {
	Count uint64        `cbor:"1,keyasint" json:"count"`
	Sum   time.Duration `cbor:"2,keyasint" json:"sum"`
}

// Add adds up two sums.
func (t TimeTotal) Add(o TimeTotal) TimeTotal { return TimeTotal{t.Count + o.Count, t.Sum + o.Sum} }

// TypeMetrics are the metrics of actors of one type.
type TypeMetrics struct {
	Type   string               `cbor:"1,keyasint" json:"type"`
	Actors map[actor.Status]int `cbor:"2,keyasint" json:"actors"` // by status
	Queued int                  `cbor:"3,keyasint,omitempty" json:"queued"`
	Stuck  int                  `cbor:"4,keyasint,omitempty" json:"stuck"` // in one handler for over a second
	// by name
	Endpoints []actor.EndpointInfo `cbor:"5,keyasint,omitempty" json:"endpoints"`
}

// stuckAfter is the time in one handler after which an actor counts as stuck.
const stuckAfter = time.Second

// ProcMetrics returns the metrics of one proc, without a mesh.
func ProcMetrics(p *actor.Proc) MeshMetrics {
	m := MeshMetrics{Stats: p.Stats()}
	if p.ID().Index == 0 {
		m.Reconnects = p.Bus().Data().ConnectionCount() + p.Bus().Control().ConnectionCount()
		m.Dropped = p.Bus().Dropped()
		m.Casts = cast.CountsOf(p)
		CountersOf(p).addTo(&m)
	} else { // the first proc of a process counts its links and its bus
		m.Stats.Malformed -= m.Stats.Links.Malformed
		m.Stats.Links = actor.Stats{}.Links
		m.Stats.Fenced = 0
		m.Stats.IgnoredReplies = 0
	}
	byType := map[string]*TypeMetrics{}
	for a := range actor.Activities(p) {
		t := byType[a.Type]
		if t == nil {
			t = &TypeMetrics{Type: a.Type, Actors: map[actor.Status]int{}}
			byType[a.Type] = t
		}
		t.Actors[a.Status]++
		t.Queued += a.Queued
		if a.Current != "" && a.RunningFor > stuckAfter {
			t.Stuck++
		}
		t.Endpoints = mergeByKey(t.Endpoints, a.Endpoints, endpointName, addEndpoint)
	}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		m.Types = append(m.Types, *byType[name])
	}
	return m
}

// endpoint returns the counts of an endpoint of an actor type.
func (m MeshMetrics) endpoint(typeName, endpoint string) (none actor.EndpointInfo) {
	for _, t := range m.Types {
		for _, e := range t.Endpoints {
			if t.Type == typeName && e.Name == endpoint {
				return e
			}
		}
	}
	return none
}

// Counters returns the metrics that only grow.
func (m MeshMetrics) Counters() MeshMetrics {
	out := MeshMetrics{
		Mesh: m.Mesh, CPUTime: m.CPUTime, Stats: m.Stats, Reconnects: m.Reconnects, Casts: m.Casts,
		Gateway: m.Gateway, Detections: m.Detections, Execs: m.Execs, Dropped: m.Dropped,
		Leases: LeaseMetrics{RenewalFailures: m.Leases.RenewalFailures, Expired: m.Leases.Expired},
	}
	out.Gateway.UnderWay = 0
	for _, t := range m.Types {
		out.Types = append(out.Types,
			TypeMetrics{Type: t.Type, Actors: map[actor.Status]int{}, Endpoints: t.Endpoints})
	}
	return out
}

// Add adds up the metrics of two groups of procs, by mesh.
func (m Metrics) Add(o Metrics) Metrics {
	return Metrics{
		Host:   cmp.Or(m.Host, o.Host),
		Meshes: mergeByKey(m.Meshes, o.Meshes, func(x MeshMetrics) string { return x.Mesh }, addMesh),
	}
}

func addMesh(a, b MeshMetrics) MeshMetrics {
	return MeshMetrics{
		Mesh: a.Mesh, Ranks: addMaps(a.Ranks, b.Ranks, addInts), Silent: a.Silent + b.Silent,
		Restarts: a.Restarts + b.Restarts, CPUTime: a.CPUTime + b.CPUTime, Memory: a.Memory + b.Memory,
		Stats: a.Stats.Add(b.Stats), Reconnects: a.Reconnects + b.Reconnects,
		Types: mergeByKey(a.Types, b.Types, func(x TypeMetrics) string { return x.Type }, addType),
		Casts: mergeByKey(a.Casts, b.Casts, func(x cast.KindCount) string { return x.Kind }, cast.KindCount.Add),

		Leases: a.Leases.add(b.Leases), Gateway: a.Gateway.add(b.Gateway),
		Detections: addMaps(a.Detections, b.Detections, TimeTotal.Add),
		Execs:      addCounts(a.Execs, b.Execs), Dropped: addCounts(a.Dropped, b.Dropped),
	}
}

// add keeps the lease that ends first.
func (l LeaseMetrics) add(o LeaseMetrics) LeaseMetrics {
	next := l
	if l.TTL == 0 || o.TTL > 0 && cmp.Or(cmp.Compare(o.Remaining, l.Remaining), cmp.Compare(o.TTL, l.TTL)) < 0 {
		next = o
	}
	next.RenewalFailures = l.RenewalFailures + o.RenewalFailures
	next.Expired = l.Expired + o.Expired
	return next
}

func (g GatewayMetrics) add(o GatewayMetrics) GatewayMetrics {
	return GatewayMetrics{
		Requests: addCounts(g.Requests, o.Requests), Served: g.Served.Add(o.Served),
		UnderWay: g.UnderWay + o.UnderWay, Unanswerable: g.Unanswerable + o.Unanswerable,
		AnsweredForDead: g.AnsweredForDead + o.AnsweredForDead,
	}
}

func addInts(a, b int) int { return a + b }

func addCounts(a, b map[string]uint64) map[string]uint64 {
	return addMaps(a, b, func(x, y uint64) uint64 { return x + y })
}

// addMaps adds up two maps by key. It changes neither.
func addMaps[K comparable, V any](a, b map[K]V, add func(a, b V) V) map[K]V {
	if len(a) == 0 {
		return b
	}
	sum := maps.Clone(a)
	for key, v := range b {
		sum[key] = add(sum[key], v)
	}
	return sum
}

func addType(a, b TypeMetrics) TypeMetrics {
	return TypeMetrics{
		Type: a.Type, Actors: addMaps(a.Actors, b.Actors, addInts),
		Queued: a.Queued + b.Queued, Stuck: a.Stuck + b.Stuck,
		Endpoints: mergeByKey(a.Endpoints, b.Endpoints, endpointName, addEndpoint),
	}
}

func endpointName(e actor.EndpointInfo) string { return e.Name }

func addEndpoint(a, b actor.EndpointInfo) actor.EndpointInfo {
	return actor.EndpointInfo{
		Name: a.Name, Handled: a.Handled + b.Handled, Failed: a.Failed + b.Failed,
		Waited: addTiming(a.Waited, b.Waited), Ran: addTiming(a.Ran, b.Ran),
	}
}

func addTiming(a, b actor.Timing) actor.Timing {
	t := actor.Timing{Samples: a.Samples + b.Samples, Max: max(a.Max, b.Max)}
	if t.Samples > 0 {
		weighted := float64(a.Mean)*float64(a.Samples) + float64(b.Mean)*float64(b.Samples)
		t.Mean = time.Duration(weighted / float64(t.Samples))
	}
	return t
}

// mergeByKey merges two lists sorted by key, and adds up entries of one key.
func mergeByKey[T any](a, b []T, key func(T) string, add func(a, b T) T) []T {
	out := make([]T, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		x, y := a[0], b[0]
		order := cmp.Compare(key(x), key(y))
		if order <= 0 {
			a = a[1:]
		}
		if order >= 0 {
			b = b[1:]
		}
		switch order {
		case -1:
			out = append(out, x)
		case 0:
			out = append(out, add(x, y))
		case 1:
			out = append(out, y)
		}
	}
	return append(append(out, a...), b...)
}
