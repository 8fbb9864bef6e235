package inspect

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// Sample is a sample of all counters. Its JSON names are stable.
type Sample struct {
	At    time.Time      `json:"at"`
	Hosts []HostCounters `json:"hosts"`
	Procs []ProcCounters `json:"procs"`

	Missing error                   `json:"-"` // names hosts without an answer
	Extents map[string]shape.Extent `json:"-"` // of the meshes of Procs
	Partial bool                    `json:"-"` // only selected procs were asked for their actors
}

// Counters are of a proc, or of all procs of a host.
type Counters struct {
	Queued  int     `json:"queued"`
	Handled uint64  `json:"handled"`
	Rate    float64 `json:"rate"`   // messages handled per second since the last sample
	CPU     float64 `json:"cpu"`    // percent of one CPU since the last sample
	Memory  int64   `json:"memory"` // resident bytes; 0: unknown
}

func (c *Counters) add(o Counters) {
	c.Queued += o.Queued
	c.Handled += o.Handled
	c.Rate += o.Rate
	c.CPU += o.CPU
	c.Memory += o.Memory
}

// HostCounters sums up the procs of a host.
type HostCounters struct {
	Host  string `json:"host"`
	ID    string `json:"id"`
	Procs int    `json:"procs"`
	Counters

	State   string        `json:"state"`             // alive, suspect, unknown or dead
	Silence time.Duration `json:"silence,omitempty"` // of a silent host: since its last heartbeat
}

// ProcCounters sums up the actors of a proc, without its agent.
type ProcCounters struct {
	Mesh   string `json:"mesh"`
	Rank   int    `json:"rank"`
	Point  string `json:"point"`
	Host   string `json:"host"`
	Gen    int    `json:"gen,omitempty"`
	Status string `json:"status"`
	Silent bool   `json:"silent,omitempty"` // no answer about its actors
	Actors int    `json:"actors"`           // live actors
	Counters
	CPUTime time.Duration `json:"cpu_time,omitempty"`
	// Latency is the largest mean of an actor, from the mailbox to the end of the handler.
	Latency time.Duration `json:"latency,omitempty"`
	Busy    string        `json:"busy,omitempty"` // an actor and the endpoint of its running handler

	ActorCounters []ActorCounters `json:"-"` // by name
	Unasked       bool            `json:"-"` // its actors are unknown because of Sampler.MaxAsked
}

// ActorCounters are the counters of one actor of a proc.
type ActorCounters struct {
	Actor
	Rate    float64       // messages handled per second since the last sample
	Latency time.Duration // mean, from the mailbox to the end of the handler
}

// Sampler takes repeated samples.
type Sampler struct {
	Net     *mesh.Net
	Timeout time.Duration                    // bounds a sample
	Only    func(mesh string, rank int) bool // these procs; nil: all
	Ended   bool                             // also ended ranks of live meshes

	// MaxAsked is the number of live procs above which a sample is Partial; 0: none is. A partial
	// sample asks the procs and hosts that Wanted and WantedHost select.
	MaxAsked   int
	Wanted     func(mesh string, rank int) bool
	WantedHost func(id string) bool

	previous      map[counterKey]pastCount
	previousHosts map[string]pastCount // by ID, of a partial sample
}

// counterKey identifies a proc: each generation counts from 0.
type counterKey struct {
	mesh      string
	rank, gen int
}

// pastCount is what a proc had handled and used at a time.
type pastCount struct {
	at      time.Time
	handled uint64
	cpu     time.Duration
	silent  bool // handled is unknown
	actors  map[string]uint64
}

// Sample asks all live procs for their statistics.
func (t *Sampler) Sample(ctx context.Context) (Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	inv, err := t.Net.Inventory(ctx)
	if err != nil {
		return Sample{}, err
	}
	return t.SampleOf(ctx, inv)
}

// SampleOf is Sample with an Inventory that is known already.
func (t *Sampler) SampleOf(ctx context.Context, inv mesh.Inventory) (Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	meshes := slices.DeleteFunc(slices.Clone(inv.Meshes), func(m mesh.MeshState) bool { return !m.Alive() })
	asked := make([][]ProcCounters, len(meshes))
	partial := t.Partial(inv)
	var used map[counterKey]agent.ProcInfo
	var sums map[string]Counters
	var measuring sync.WaitGroup
	measuring.Go(func() { used = measure(ctx, t.Net, inv) })
	if partial {
		measuring.Go(func() { sums = t.sumHosts(ctx, inv.Hosts) })
	}
	askEach(meshes, func(i int, m mesh.MeshState) { asked[i] = t.countProcs(ctx, m, partial) })
	measuring.Wait()
	l := Sample{
		At: time.Now(), Hosts: []HostCounters{}, Procs: append([]ProcCounters{}, slices.Concat(asked...)...),
		Missing: inv.Err(), Extents: map[string]shape.Extent{}, Partial: partial,
	}
	for _, m := range meshes {
		l.Extents[m.Procs.ID().String()] = m.Procs.Describe().Extent
	}
	if t.Only != nil {
		l.Procs = slices.DeleteFunc(l.Procs, func(p ProcCounters) bool { return !t.Only(p.Mesh, p.Rank) })
	}
	for i := range l.Procs {
		p := &l.Procs[i]
		of := used[counterKey{p.Mesh, p.Rank, p.Gen}]
		p.CPUTime = of.CPUTime
		p.Memory = of.Memory
	}
	t.computeRates(&l)
	l.addHosts(inv.Hosts)
	t.computeHostRates(&l, sums)
	if t.Only != nil {
		l.Hosts = slices.DeleteFunc(l.Hosts, func(h HostCounters) bool {
			return !slices.ContainsFunc(l.Procs, func(p ProcCounters) bool { return p.Host == h.ID })
		})
	}
	return l, ctx.Err()
}

// measure asks the answering hosts what their procs use.
func measure(ctx context.Context, conn *mesh.Net, inv mesh.Inventory) map[counterKey]agent.ProcInfo {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	states := make([][]agent.State, len(inv.Hosts))
	askEach(inv.Hosts, func(i int, h mesh.HostState) {
		if h.State == agent.HostAlive { // without an answer the use is unknown
			states[i], _ = agent.Get.Call(ctx, agent.Of(h.ID.Proc()).Via(conn.Proc()), agent.GetRequest{Usage: true})
		}
	})
	used := map[counterKey]agent.ProcInfo{}
	for _, s := range slices.Concat(states...) {
		if s.Proc != nil {
			used[counterKey{s.ID, s.Rank, s.Gen}] = *s.Proc
		}
	}
	return used
}

// Measure asks the answering hosts of an Inventory what its procs use.
func Measure(ctx context.Context, conn *mesh.Net, inv mesh.Inventory) {
	used := measure(ctx, conn, inv)
	for _, m := range inv.Meshes {
		for i, s := range m.States {
			if p, is := used[counterKey{s.ID, s.Rank, s.Gen}]; is {
				m.States[i].Proc = &p
			}
		}
	}
}

// countProcs returns the live procs of a mesh; with t.Ended also those that ended last.
func (t *Sampler) countProcs(ctx context.Context, m mesh.MeshState, partial bool) (out []ProcCounters) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	asks := func(int) bool { return true }
	if partial {
		asks = func(rank int) bool { return t.Wanted(m.Procs.ID().String(), rank) }
	}
	said := askActors(ctx, m, partial, asks)
	newest := newestStates(m.States)
	for _, s := range m.States {
		if over := s.Status.Phase.Terminal(); over && (!t.Ended || newest[s.Rank].Gen != s.Gen) {
			continue
		}
		p := ProcCounters{
			Mesh: s.ID, Rank: s.Rank, Point: Point(
				m.Procs.Extent(), s.Rank,
			), Gen: s.Gen, Status: s.Status.Phase.String(), Unasked: !asks(s.Rank),
		}
		p.Silent = !p.Unasked && len(said[s.Rank]) == 0
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
	p.Latency = max(p.Latency, s.Actor.Latency)
	p.ActorCounters = append(p.ActorCounters, ActorCounters{
		Actor: newActor(s, p.Rank, p.Point), Latency: s.Actor.Latency,
	})
	if s.Actor.Current != "" && p.Busy == "" {
		p.Busy = text.Label(s.ID) + "." + s.Actor.Current
	}
}

// computeRates compares a sample with the one before.
func (t *Sampler) computeRates(l *Sample) {
	now := map[counterKey]pastCount{}
	for i := range l.Procs {
		p := &l.Procs[i]
		key := counterKey{p.Mesh, p.Rank, p.Gen}
		was, known := t.previous[key]
		is := pastCount{l.At, p.Handled, p.CPUTime, p.Silent || p.Unasked, map[string]uint64{}}
		since := l.At.Sub(was.at)
		for i := range p.ActorCounters {
			a := &p.ActorCounters[i]
			is.actors[a.Actor.Actor] = a.Handled
			if had, compared := was.actors[a.Actor.Actor]; compared && since > 0 && a.Handled >= had {
				a.Rate = float64(a.Handled-had) / since.Seconds()
			}
		}
		now[key] = is
		if known && since > 0 && !is.silent && !was.silent && p.Handled >= was.handled {
			p.Rate = float64(p.Handled-was.handled) / since.Seconds()
		}
		if known && since > 0 && p.CPUTime > was.cpu && was.cpu > 0 {
			p.CPU = 100 * float64(p.CPUTime-was.cpu) / float64(since)
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
			h.add(p.Counters)
		}
	}
}

// SortKeys are the keys of Sample.Sort.
func SortKeys() []string { return []string{"rate", "cpu", "mem", "queued", "handled", "name"} }

// Sort puts silent hosts first, then the largest by a key, then by the other counters.
func (l *Sample) Sort(key string) {
	value := map[string]func(Counters) float64{
		"rate": func(c Counters) float64 { return c.Rate }, "cpu": func(c Counters) float64 { return c.CPU },
		"mem":     func(c Counters) float64 { return float64(c.Memory) },
		"queued":  func(c Counters) float64 { return float64(c.Queued) },
		"handled": func(c Counters) float64 { return float64(c.Handled) },
	}[key]
	larger := func(a, b Counters) int {
		if value == nil {
			return 0
		}
		return cmp.Or(cmp.Compare(value(b), value(a)), cmp.Compare(b.Rate, a.Rate),
			cmp.Compare(b.Queued, a.Queued), cmp.Compare(b.Handled, a.Handled))
	}
	answers := func(h HostCounters) int {
		if h.State == agent.HostAlive {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(l.Hosts, func(a, b HostCounters) int {
		return cmp.Or(
			cmp.Compare(answers(a), answers(b)), larger(a.Counters, b.Counters), cmp.Compare(a.Host, b.Host),
		)
	})
	slices.SortStableFunc(l.Procs, func(a, b ProcCounters) int {
		return cmp.Or(larger(a.Counters, b.Counters), cmp.Compare(a.Mesh, b.Mesh), cmp.Compare(a.Rank, b.Rank))
	})
}
