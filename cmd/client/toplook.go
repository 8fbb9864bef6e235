package main

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
)

// topLook is what was done until one moment; its JSON names are stable.
type topLook struct {
	At    time.Time `json:"at"`
	Hosts []topHost `json:"hosts"`
	Procs []topProc `json:"procs"`

	missing error // names the hosts that did not answer
}

// topHost is the procs of a host.
type topHost struct {
	Host    string  `json:"host"`
	ID      string  `json:"id"`
	Procs   int     `json:"procs"`
	Queued  int     `json:"queued"`
	Handled uint64  `json:"handled"`
	Rate    float64 `json:"rate"` // messages handled in a second, since the look before

	State   string        `json:"state"`             // alive, suspect, unknown or dead
	Silence time.Duration `json:"silence,omitempty"` // of a host that does not answer: since it was heard
}

// topProc is the actors of a proc, without its agent.
type topProc struct {
	Mesh    string  `json:"mesh"`
	Rank    int     `json:"rank"`
	Point   string  `json:"point"`
	Host    string  `json:"host"`
	Gen     int     `json:"gen,omitempty"`
	Status  string  `json:"status"`
	Silent  bool    `json:"silent,omitempty"` // it did not say what its actors do
	Actors  int     `json:"actors"`           // that live
	Queued  int     `json:"queued"`
	Handled uint64  `json:"handled"`
	Rate    float64 `json:"rate"`
	Busy    string  `json:"busy,omitempty"` // an actor and the endpoint whose handler runs
}

// top looks again and again.
type top struct {
	net    *mesh.Net
	within time.Duration // bounds a look
	before map[topKey]counted
}

// topKey is one proc: another generation counts from 0.
type topKey struct {
	mesh      string
	rank, gen int
}

// counted is how many messages a proc had handled at some time.
type counted struct {
	at      time.Time
	handled uint64
}

// asksAtOnce bounds how many meshes are asked at a time.
const asksAtOnce = 8

// look asks all procs that live what they do.
func (t *top) look(ctx context.Context) (topLook, error) {
	ctx, cancel := context.WithTimeout(ctx, t.within)
	defer cancel()
	inv, err := t.net.Inventory(ctx)
	if err != nil {
		return topLook{}, err
	}
	meshes := slices.DeleteFunc(inv.Meshes, func(m mesh.MeshState) bool { return !m.Alive() })
	asked := make([][]topProc, len(meshes))
	var wg sync.WaitGroup
	slots := make(chan struct{}, asksAtOnce)
	for i, m := range meshes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			asked[i] = topProcs(ctx, m)
		})
	}
	wg.Wait()
	l := topLook{At: time.Now(), Hosts: []topHost{}, Procs: append([]topProc{}, slices.Concat(asked...)...), missing: inv.Err()}
	t.rates(&l)
	l.sum(inv.Hosts)
	l.sort()
	return l, ctx.Err()
}

// topProcs are the procs of a mesh that live.
func topProcs(ctx context.Context, m mesh.MeshState) (out []topProc) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	all, _ := m.Procs.Actors(ctx) // those that do not answer are silent
	said := map[int][]agent.State{}
	for rank, states := range all.Values() {
		said[rank] = states
	}
	for _, s := range m.States {
		if s.Status.Phase.Terminal() {
			continue
		}
		p := topProc{
			Mesh: s.ID, Rank: s.Rank, Point: pointOf(m.Procs.Extent(), s.Rank), Gen: s.Gen, Status: s.Status.Phase.String(), Silent: len(said[s.Rank]) == 0,
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

// add counts an actor, unless it is the proc's agent.
func (p *topProc) add(s agent.State) {
	if s.Actor == nil || s.ID == agent.Name {
		return
	}
	if !s.Status.Phase.Terminal() {
		p.Actors++
	}
	p.Queued += s.Actor.Queued
	p.Handled += s.Actor.Handled
	if s.Actor.Current != "" && p.Busy == "" {
		p.Busy = labelOf(s.ID) + "." + s.Actor.Current
	}
}

// rates compares a look with the one before.
func (t *top) rates(l *topLook) {
	now := map[topKey]counted{}
	for i := range l.Procs {
		p := &l.Procs[i]
		if p.Silent {
			continue
		}
		key := topKey{p.Mesh, p.Rank, p.Gen}
		now[key] = counted{l.At, p.Handled}
		if was, known := t.before[key]; known && p.Handled >= was.handled && l.At.After(was.at) {
			p.Rate = float64(p.Handled-was.handled) / l.At.Sub(was.at).Seconds()
		}
	}
	t.before = now
}

// sum adds up the procs of each host.
func (l *topLook) sum(hosts []mesh.HostState) {
	at := map[string]int{}
	for i, h := range hosts {
		at[h.ID.String()] = i
		l.Hosts = append(l.Hosts, topHost{Host: h.Label, ID: h.ID.String(), Procs: h.Procs, State: h.State, Silence: h.Silence})
	}
	for _, p := range l.Procs {
		if i, is := at[p.Host]; is {
			h := &l.Hosts[i]
			h.Queued, h.Handled, h.Rate = h.Queued+p.Queued, h.Handled+p.Handled, h.Rate+p.Rate
		}
	}
}

// sort puts those first that do not answer, then those that do most, and then those where most waits.
func (l *topLook) sort() {
	answers := func(h topHost) int {
		if h.State == agent.HostAlive {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(l.Hosts, func(a, b topHost) int {
		return cmp.Or(cmp.Compare(answers(a), answers(b)), cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Queued, a.Queued), cmp.Compare(b.Handled, a.Handled))
	})
	slices.SortStableFunc(l.Procs, func(a, b topProc) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Queued, a.Queued), cmp.Compare(b.Handled, a.Handled))
	})
}
