package page

import (
	"math"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

// maxAsked is the number of procs that a sample asks. Of more, it asks some in turn (PAGE-3).
const maxAsked = 4096

// rankKey identifies a rank.
type rankKey struct {
	mesh string
	rank int
}

// turn goes through a list in samples.
type turn struct{ next int }

// take returns at most n items, from where the last call has come to. It goes half as far as it
// takes, so that two samples in a row ask a rank, and its rate is known.
func (t *turn) take(all []rankKey, n int) []rankKey {
	if len(all) <= n {
		return all
	}
	from := t.next % len(all)
	t.next = (from + (n+1)/2) % len(all)
	end := from + n
	return slices.Concat(all[from:min(end, len(all))], all[:max(0, end-len(all))])
}

// choice is the part of a castnet that a partial sample asks for messages.
type choice struct {
	ranks map[rankKey]bool
	hosts map[string]bool // by ID
}

// choose selects what a partial sample asks: the ranks of the regions under inspection, then others
// of the watched meshes in turn, and the hosts of an overview.
func (t *sampling) choose(inv mesh.Inventory, watched []interest) choice {
	c := choice{ranks: map[rankKey]bool{}, hosts: map[string]bool{}}
	if slices.Contains(watched, interest{}) {
		hosts := firstRows(inv.Hosts, func(h mesh.HostState) bool { return h.State == agent.HostAlive })
		for _, h := range hosts.Shown {
			c.hosts[h.ID.String()] = true
		}
	}
	var first, others []rankKey
	for _, m := range inv.Meshes {
		id := m.Procs.ID().String()
		regions, watches := regionsOf(watched, id, m.Procs.Extent())
		if !watches {
			continue
		}
		live := make([]bool, m.Procs.Extent().NumRanks())
		for _, s := range m.States {
			live[s.Rank] = live[s.Rank] || !s.Status.Phase.Terminal()
		}
		for rank, lives := range live {
			switch {
			case !lives:
			case slices.ContainsFunc(regions, func(r shape.Region) bool { return r.Contains(rank) }):
				first = append(first, rankKey{id, rank})
			default:
				others = append(others, rankKey{id, rank})
			}
		}
	}
	taken := t.first.take(first, t.MaxAsked)
	for _, of := range [][]rankKey{taken, t.others.take(others, t.MaxAsked-len(taken))} {
		for _, rank := range of {
			c.ranks[rank] = true
		}
	}
	return c
}

// regionsOf returns the regions of a mesh under inspection, and whether somebody watches the mesh.
func regionsOf(watched []interest, id string, extent shape.Extent) (regions []shape.Region, watches bool) {
	for _, w := range watched {
		if w.mesh != id {
			continue
		}
		watches = true
		if w.region == "" {
			continue
		}
		if r, err := shape.Select(extent, w.region); err == nil { // the mesh may have changed
			regions = append(regions, r)
		}
	}
	return regions, watches
}

// part is what the samples so far have asked of a mesh.
type part struct {
	Asked int `json:"asked"` // ranks in the last sample
	Live  int `json:"live"`  // ranks that run
	// Oldest is the age of the oldest answer that still shows.
	Oldest time.Duration `json:"oldest"`
}

// answer is the last one of a rank about its messages.
type answer struct {
	at      time.Time
	gen     int
	queued  int
	latency time.Duration
	rate    float64 // not a number: it was asked once
}

// restore gives a rank its last answer.
func (a answer) restore(p *inspect.ProcCounters) {
	p.Unasked = false
	p.Queued = a.queued
	p.Latency = a.latency
	p.Rate = a.rate
}

// recall keeps the answers of a partial sample, and gives the ranks of watched meshes that it did
// not ask their last ones. It returns the part of each mesh that was asked.
func (t *sampling) recall(l *inspect.Sample, watched []interest) map[string]part {
	if !l.Partial {
		t.answers = nil
		return nil
	}
	kept := map[string]map[int]answer{}
	for _, w := range watched {
		kept[w.mesh] = t.answers[w.mesh]
		if kept[w.mesh] == nil {
			kept[w.mesh] = map[int]answer{}
		}
	}
	t.answers = kept
	parts := map[string]part{}
	for i := range l.Procs {
		p := &l.Procs[i]
		answers, watches := t.answers[p.Mesh]
		if !watches || inspect.Ended(p.Status) {
			continue
		}
		of := parts[p.Mesh]
		of.Live++
		last, known := answers[p.Rank]
		if !known || last.gen != p.Gen {
			last = answer{rate: math.NaN()}
			known = false
		}
		if !p.Unasked {
			of.Asked++
			if !known || !last.at.Equal(t.asked) {
				p.Rate = last.rate // one sample has none
			}
			if !p.Silent {
				answers[p.Rank] = answer{l.At, p.Gen, p.Queued, p.Latency, p.Rate}
			}
		} else if known {
			last.restore(p)
			of.Oldest = max(of.Oldest, l.At.Sub(last.at))
		}
		parts[p.Mesh] = of
	}
	t.asked = l.At
	return parts
}
