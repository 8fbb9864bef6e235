package worlds

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

const (
	// adoptWithin is how long a bucket counts as new: a world that hosts run and that has no record in a new bucket is
	// adopted. In an older bucket such a world has been stopped.
	adoptWithin = 10 * time.Minute
	// surveyWithin bounds the survey of all hosts before a term, which has the lease while it begins.
	surveyWithin = time.Second
)

// adopting is how long worlds without a record are adopted from now on; 0: they are not.
func (r records) adopting() time.Duration {
	if r.made.IsZero() { // nothing is kept: procs have a lease, and end
		return 0
	}
	return max(0, adoptWithin-max(0, time.Since(r.made)))
}

// survey asks all hosts what they have of worlds. A host that does not answer in time is asked when it joins. floor is the
// latest epoch that a host has heard of.
func survey(
	ctx context.Context, p *actor.Proc, quiet time.Duration,
) (found []inventory, floor uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, surveyWithin)
	defer cancel()
	hosts, err := agent.ListedHosts(ctx, p.Bus(), p.Space(), quiet)
	if err != nil {
		return nil, 0, err
	}
	said := make([]*inventory, len(hosts))
	var wg sync.WaitGroup
	slots := make(chan struct{}, hostsAtOnce)
	for i, h := range hosts {
		floor = max(floor, h.Epoch)
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if now, _, err := lookAtHost(ctx, agent.Of(h.ID.Proc()).Via(p), sight{}); err == nil {
				said[i] = &inventory{host: h.ID, life: now.life, has: now.has}
			}
		})
	}
	wg.Wait()
	for _, e := range said {
		if e != nil && len(e.has) > 0 {
			found = append(found, *e)
		}
	}
	return found, floor, nil
}

// adopts reports whether a world of that name is adopted when hosts run it and it has no record.
func (st *state) adopts(name string) bool {
	return st.now.Before(st.adoptUntil) && !st.endedNames[name] && st.going == "" && st.detached[name] == nil
}

// adoptShare gives a host a seat for the share that it runs of a world whose record is lost, and takes over the world when
// there is none (WORLD-18); nil: the share is not to be adopted.
func (st *state) adoptShare(e inventory, x held) *seat {
	name := x.mesh.Label()
	spec, ok := specOf(x)
	live := slices.ContainsFunc(x.now, func(r agent.Run) bool { return !r.Status.Phase.Terminal() })
	if !ok || !live || !st.adopts(name) {
		return nil
	}
	w, rank := st.worlds[name], x.described.World.First/spec.PerHost
	var s *seat
	lost := w == nil
	if w != nil {
		lost = w.spec == nil && (!w.mesh.IsValid() || w.mesh == x.mesh)
		s = w.seats[rank]
		h := st.hosts[e.host]
		elsewhere := h != nil && h.seats[name] != nil && h.seats[name] != s
		if w.ending != nil || elsewhere || !lost && (w.mesh != x.mesh || s == nil && w.gens[rank] > x.gen) {
			return nil
		}
	}
	if s != nil && (s.host.id != e.host || s.life != e.life || s.gen > x.gen) {
		return nil
	}
	if lost {
		if r := st.reserved[name]; r != nil { // given before anything was heard of the world
			st.unreserve(r)
		}
		w = st.open(name)
		w.spec, w.mesh = &spec, x.mesh
		for _, rank := range slices.Sorted(maps.Keys(w.seats)) {
			other := w.seats[rank]
			st.place(other)
			st.do(look{other.host.id})
		}
	}
	if s == nil {
		s = &seat{world: w, rank: rank, life: e.life}
		st.sit(s, e.host)
	}
	s.assign()
	s.gen, s.born, s.unseen = x.gen, e.life, false
	w.gens[rank] = max(w.gens[rank], x.gen+1)
	st.do(save{w.record()})
	st.watch(w)
	return s
}

// specOf is the world of a share, as its host describes it. The host does not know the labels of the world.
func specOf(x held) (Spec, bool) {
	m := x.described
	if m == nil || m.World == nil {
		return Spec{}, false
	}
	s := Spec{
		Name: m.World.World, Shape: m.Extent, PerHost: m.PerHost, Command: m.Command, Limits: m.Limits, Keep: m.Keep,
	}
	if s.Check() != nil || s.Name != x.mesh.Label() || m.ID != x.mesh {
		return Spec{}, false
	}
	first, count := share(s.Shape.NumRanks(), s.PerHost, m.World.First/s.PerHost)
	return s, count > 0 && first == m.World.First && count == m.World.Count
}
