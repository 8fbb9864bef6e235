package agent

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
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
	Mesh     string        `cbor:"1,keyasint" json:"mesh"` // its name
	Ranks    PhaseCount    `cbor:"2,keyasint" json:"ranks"`
	Silent   int           `cbor:"3,keyasint,omitempty" json:"silent"`
	Restarts int           `cbor:"4,keyasint,omitempty" json:"restarts"` // of these ranks
	CPUTime  time.Duration `cbor:"5,keyasint,omitempty" json:"cpu_time"`
	Memory   int64         `cbor:"6,keyasint,omitempty" json:"memory"` // resident bytes
	Stats    actor.Stats   `cbor:"7,keyasint" json:"stats"`
	// connections that the procs' bus made again
	Reconnects uint64        `cbor:"8,keyasint,omitempty" json:"reconnects"`
	Types      []TypeMetrics `cbor:"9,keyasint,omitempty" json:"types"` // by name
}

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
	} else {
		m.Stats.Links = actor.Stats{}.Links // the first proc of a process counts its links
	}
	byType := map[string]*TypeMetrics{}
	for _, a := range p.Actors() {
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

// Counters returns the metrics that only grow.
func (m MeshMetrics) Counters() MeshMetrics {
	out := MeshMetrics{Mesh: m.Mesh, CPUTime: m.CPUTime, Stats: m.Stats, Reconnects: m.Reconnects}
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
	for phase, n := range b.Ranks {
		a.Ranks[phase] += n
	}
	return MeshMetrics{
		Mesh: a.Mesh, Ranks: a.Ranks, Silent: a.Silent + b.Silent,
		Restarts: a.Restarts + b.Restarts, CPUTime: a.CPUTime + b.CPUTime, Memory: a.Memory + b.Memory,
		Stats: a.Stats.Add(b.Stats), Reconnects: a.Reconnects + b.Reconnects,
		Types: mergeByKey(a.Types, b.Types, func(x TypeMetrics) string { return x.Type }, addType),
	}
}

func addType(a, b TypeMetrics) TypeMetrics {
	return TypeMetrics{
		Type: a.Type, Actors: addStatuses(a.Actors, b.Actors),
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

func addStatuses(a, b map[actor.Status]int) map[actor.Status]int {
	sum := maps.Clone(a)
	for status, n := range b {
		sum[status] += n
	}
	return sum
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
