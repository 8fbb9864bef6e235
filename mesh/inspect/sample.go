package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
)

// Sample is a sample of all counters. Its JSON names are stable.
type Sample struct {
	At    time.Time      `json:"at"`
	Hosts []HostCounters `json:"hosts"`
	Procs []ProcCounters `json:"procs"`

	Missing error `json:"-"` // names hosts without an answer
}

// HostCounters sums up the procs of a host.
type HostCounters struct {
	Host    string  `json:"host"`
	ID      string  `json:"id"`
	Procs   int     `json:"procs"`
	Queued  int     `json:"queued"`
	Handled uint64  `json:"handled"`
	Rate    float64 `json:"rate"` // messages handled per second since the last sample

	State   string        `json:"state"`             // alive, suspect, unknown or dead
	Silence time.Duration `json:"silence,omitempty"` // of a silent host: since its last heartbeat
}

// ProcCounters sums up the actors of a proc, without its agent.
type ProcCounters struct {
	Mesh    string  `json:"mesh"`
	Rank    int     `json:"rank"`
	Point   string  `json:"point"`
	Host    string  `json:"host"`
	Gen     int     `json:"gen,omitempty"`
	Status  string  `json:"status"`
	Silent  bool    `json:"silent,omitempty"` // no answer about its actors
	Actors  int     `json:"actors"`           // live actors
	Queued  int     `json:"queued"`
	Handled uint64  `json:"handled"`
	Rate    float64 `json:"rate"`
	Busy    string  `json:"busy,omitempty"` // an actor and the endpoint of its running handler
}

// Sampler takes repeated samples.
type Sampler struct {
	Net      *mesh.Net
	Timeout  time.Duration // bounds a sample
	previous map[counterKey]handledCount
}

// counterKey identifies a proc: each generation counts from 0.
type counterKey struct {
	mesh      string
	rank, gen int
}

// handledCount is the handled messages of a proc at a time.
type handledCount struct {
	at      time.Time
	handled uint64
}

// Sample asks all live procs for their statistics.
func (t *Sampler) Sample(ctx context.Context) (Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	inv, err := t.Net.Inventory(ctx)
	if err != nil {
		return Sample{}, err
	}
	meshes := slices.DeleteFunc(inv.Meshes, func(m mesh.MeshState) bool { return !m.Alive() })
	asked := make([][]ProcCounters, len(meshes))
	askEach(meshes, func(i int, m mesh.MeshState) { asked[i] = countProcs(ctx, m) })
	l := Sample{
		At: time.Now(), Hosts: []HostCounters{}, Procs: append([]ProcCounters{}, slices.Concat(asked...)...),
		Missing: inv.Err(),
	}
	t.computeRates(&l)
	l.addHosts(inv.Hosts)
	l.sort()
	return l, ctx.Err()
}

// countProcs returns the live procs of a mesh.
func countProcs(ctx context.Context, m mesh.MeshState) (out []ProcCounters) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all, _ := m.Procs.Actors(ctx) // procs without an answer are silent
	said := map[int][]agent.State{}
	for rank, states := range all.Values() {
		said[rank] = states
	}
	for _, s := range m.States {
		if s.Status.Phase.Terminal() {
			continue
		}
		p := ProcCounters{
			Mesh: s.ID, Rank: s.Rank, Point: Point(
				m.Procs.Extent(), s.Rank,
			), Gen: s.Gen, Status: s.Status.Phase.String(), Silent: len(said[s.Rank]) == 0,
		}
		if h, err := m.Procs.Host(s.Rank); err == nil {
			p.Host = h.String()
		}
		for _, x := range said[s.Rank] {
			p.add(x)
		}
		out = append(out, p)
	}
	return out
}

// add counts an actor other than the proc's agent.
func (p *ProcCounters) add(s agent.State) {
	if s.Actor == nil || s.ID == agent.Name {
		return
	}
	if !s.Status.Phase.Terminal() {
		p.Actors++
	}
	p.Queued += s.Actor.Queued
	p.Handled += s.Actor.Handled
	if s.Actor.Current != "" && p.Busy == "" {
		p.Busy = text.Label(s.ID) + "." + s.Actor.Current
	}
}

// computeRates compares a sample with the one before.
func (t *Sampler) computeRates(l *Sample) {
	now := map[counterKey]handledCount{}
	for i := range l.Procs {
		p := &l.Procs[i]
		if p.Silent {
			continue
		}
		key := counterKey{p.Mesh, p.Rank, p.Gen}
		now[key] = handledCount{l.At, p.Handled}
		if was, known := t.previous[key]; known && p.Handled >= was.handled && l.At.After(was.at) {
			p.Rate = float64(p.Handled-was.handled) / l.At.Sub(was.at).Seconds()
		}
	}
	t.previous = now
}

// addHosts sums up the procs of each host.
func (l *Sample) addHosts(hosts []mesh.HostState) {
	at := map[string]int{}
	for i, h := range hosts {
		at[h.ID.String()] = i
		l.Hosts = append(
			l.Hosts,
			HostCounters{Host: h.Label, ID: h.ID.String(), Procs: h.Procs, State: h.State, Silence: h.Silence},
		)
	}
	for _, p := range l.Procs {
		if i, is := at[p.Host]; is {
			h := &l.Hosts[i]
			h.Queued += p.Queued
			h.Handled += p.Handled
			h.Rate += p.Rate
		}
	}
}

// sort puts silent procs first, then by rate, then by queue length.
func (l *Sample) sort() {
	answers := func(h HostCounters) int {
		if h.State == agent.HostAlive {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(l.Hosts, func(a, b HostCounters) int {
		return cmp.Or(
			cmp.Compare(answers(a), answers(b)), cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Queued, a.Queued),
			cmp.Compare(b.Handled, a.Handled),
		)
	})
	slices.SortStableFunc(l.Procs, func(a, b ProcCounters) int {
		return cmp.Or(
			cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Queued, a.Queued), cmp.Compare(b.Handled, a.Handled),
		)
	})
}
