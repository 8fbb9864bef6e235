package system

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

const (
	// adoptWindow is the age up to which a bucket counts as new. The controller adopts a world
	// that hosts run if a new bucket lacks its record. If an older bucket lacks it, the world was
	// stopped.
	adoptWindow = 10 * time.Minute
	// surveyTimeout bounds the survey of all hosts before a term, during which the controller holds
	// the lease.
	surveyTimeout = time.Second
)

// adoptTimeLeft is the remaining time in which worlds without a record are adopted; 0: none.
func (r records) adoptTimeLeft() time.Duration {
	if r.made.IsZero() { // without a store, leases end the procs
		return 0
	}
	return max(0, adoptWindow-max(0, time.Since(r.made)))
}

// survey asks all hosts for their shares of worlds. A host that is silent now is asked when it
// joins. floor is the latest epoch known to a host.
func survey(
	ctx context.Context, p *actor.Proc, quiet time.Duration,
) (found []inventory, floor uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	hosts, _, err := agent.DiscoverListedHosts(ctx, p.Bus(), p.Space(), quiet)
	if err != nil {
		return nil, 0, err
	}
	said, _ := askHosts(hosts, func(h agent.HostInfo) (hostInventory, error) {
		now, _, err := queryInventory(ctx, agent.Of(h.ID.Proc()).Via(p), hostInventory{})
		return now, err
	})
	for i, now := range said {
		floor = max(floor, hosts[i].Epoch)
		if len(now.shares) > 0 {
			found = append(found, inventory{hosts[i].ID, now.incarnation, now.shares})
		}
	}
	return found, floor, nil
}

// mayAdopt reports whether a world of that name without a record is adopted from its hosts.
func (st *state) mayAdopt(name string) bool {
	return st.now.Before(st.adoptUntil) && !st.endedNames[name] &&
		st.shutdownReason == "" && st.detached.byName[name] == nil
}

// adoptShare assigns a host the share that it runs of a world with a lost record, and creates the
// world if there is none (WORLD-14); nil: the share is not adopted.
func (st *state) adoptShare(e inventory, x heldShare) *assignment {
	name := x.mesh.Label()
	spec, ok := specOf(x)
	if !ok || !x.isAlive() || !st.mayAdopt(name) {
		return nil
	}
	w := st.worlds[name]
	rank := x.described.World.First / spec.PerHost
	var s *assignment
	lost := w == nil
	if w != nil {
		lost = w.spec == nil && (!w.mesh.IsValid() || w.mesh == x.mesh)
		s = w.assignments[rank]
		h := st.hosts[e.host]
		elsewhere := h != nil && h.assignments[name] != nil && h.assignments[name] != s
		if w.stopping != nil || elsewhere || !lost && (w.mesh != x.mesh || s == nil && w.gens[rank] > x.gen) {
			return nil
		}
	}
	if s != nil && (s.host.id != e.host || s.incarnation != e.incarnation || s.gen > x.gen) {
		return nil
	}
	if lost {
		if r := st.reserved.byName[name]; r != nil { // it was made before the controller knew of the world
			st.reserved.drop(r)
		}
		w = st.worldNamed(name)
		w.spec = &spec
		w.mesh = x.mesh
		for _, rank := range slices.Sorted(maps.Keys(w.assignments)) {
			other := w.assignments[rank]
			st.beginGeneration(other)
			st.emit(fetchInventory{other.host.id})
		}
	}
	if s == nil {
		s = &assignment{world: w, rank: rank, incarnation: e.incarnation}
		st.assignHost(s, e.host)
	}
	s.computeShare()
	s.gen = x.gen
	s.orderedIn = e.incarnation
	s.unconfirmed = false
	w.gens[rank] = max(w.gens[rank], x.gen+1)
	st.emit(saveRecord{w.record()})
	st.updateTimer(w)
	return s
}

// specOf returns the Spec of a share's world, as its host describes it. The host does not know the
// labels of the world.
func specOf(x heldShare) (Spec, bool) {
	m := x.described
	if m == nil || m.World == nil {
		return Spec{}, false
	}
	s := Spec{
		Name: m.World.World, Shape: m.Extent, PerHost: m.PerHost, Command: m.Command,
		Limits: m.Limits, Keep: m.Keep,
	}
	if s.Check() != nil || s.Name != x.mesh.Label() || m.ID != x.mesh {
		return Spec{}, false
	}
	first, count := share(s.Shape.NumRanks(), s.PerHost, m.World.First/s.PerHost)
	return s, count > 0 && first == m.World.First && count == m.World.Count
}
