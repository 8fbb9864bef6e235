package cast

import (
	"errors"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// routes are the regions that a process has cast to. A repeated cast finds its links as the one
// before left them.
type routes struct {
	mu   sync.Mutex // guards the fields below, and what routes say of themselves
	all  map[routeKey]*route
	uses uint64
}

// routeKey is a region of an endpoint.
type routeKey struct {
	mesh            subjects.MeshID
	actor, endpoint string
	region, asked   string
}

// route is the plan by which casts reach a region.
type route struct {
	tree        tree
	packets     []packet
	localFirst  int         // the first rank in the caller's process; -1: none is
	unreachable []lostRanks // nothing is sent to these
	procChanges uint64      // version of the mesh's procs

	lastUsed uint64 // when it was used last
	users    int    // casts that are being sent
	evicted  bool   // another one has its place: it is dropped when nobody uses it
}

// packet is one publish, for some processes.
type packet struct {
	where   string // "": one message each
	members []member
	group   *actor.Group
}

// maxRoutes bounds the kept routes; beyond it the least recently used one is dropped.
const maxRoutes = 64

// acquire finds or makes the route to some ranks of a region. The sender calls release afterwards.
func (rs *routes) acquire(p *actor.Proc, t Target, asked shape.Ranks, endpoint string) (*route, error) {
	some, _ := asked.MarshalBinary() // it has no error
	key := routeKey{t.Placement.Mesh, t.Actor, endpoint, t.Region.String(), string(some)}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.all[key]
	if r == nil || !r.isFresh(p) {
		var err error
		r, err = newRoute(p, t, asked, endpoint)
		if err != nil {
			return nil, err
		}
		rs.insert(key, r)
	}
	rs.uses++
	r.lastUsed = rs.uses
	r.users++
	return r, nil
}

// insert puts a route in its place. The lock is held.
func (rs *routes) insert(key routeKey, r *route) {
	if rs.all == nil {
		rs.all = map[routeKey]*route{}
	}
	out := key
	replaces := rs.all[key] != nil
	if !replaces && len(rs.all) >= maxRoutes {
		for k, other := range rs.all {
			if out == key || other.lastUsed < rs.all[out].lastUsed {
				out = k
			}
		}
	}
	if old := rs.all[out]; old != nil {
		delete(rs.all, out)
		old.evicted = true
		if old.users == 0 {
			old.close()
		}
	}
	rs.all[key] = r
}

// release returns a route after its cast was sent.
func (rs *routes) release(r *route) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.users--
	if r.evicted && r.users == 0 {
		r.close()
	}
}

func newRoute(p *actor.Proc, t Target, asked shape.Ranks, endpoint string) (*route, error) {
	// counted before it is looked at
	r := &route{localFirst: -1, procChanges: p.Members().ChangeCount(t.Placement.Mesh)}
	r.tree = tree{placement: t.Placement, region: t.Region}
	members := r.members(p, asked)
	r.unreachable = r.tree.endedRanks(p)
	pl := planFor(t.Placement, members)
	if p.Sender().Role() == subjects.Observer { // the server would deny it each publication of a cast
		pl = plan{extent: t.Placement.Extent}
	}
	for _, some := range pl.deliveries(members) {
		k := packet{members: some}
		if !pl.direct() {
			k.where = pl.where(some[0].base)
		}
		to := make([]subjects.PortID, len(some))
		for i, m := range some {
			to[i] = m.id.Actor(t.Actor).Port(endpoint)
		}
		var err error
		k.group, err = p.Casts().Group(to)
		if errors.Is(err, actor.ErrProcDead) { // it has died since: without it
			return newRoute(p, t, asked, endpoint)
		} else if err != nil {
			return nil, err
		}
		r.packets = append(r.packets, k)
	}
	return r, nil
}

// members finds the present procs of some ranks of the region (CAST-10): the live processes,
// without the caller's own.
func (r *route) members(p *actor.Proc, asked shape.Ranks) (all []member) {
	t := &r.tree
	var gens runsWriter
	later := false // some proc is not the first of its rank
	end := 0       // of the process before
	for _, run := range asked.Runs() {
		for view := max(run.First, end); view < run.End(); view = end {
			first := t.processStart(view)
			end = t.processEnd(view)
			id := latestProc(p, t.placement.Proc(t.base(first)).Lead())
			if id == p.Lead().ID() {
				r.localFirst = first
			} else if !isEnded(p, id) {
				all = append(all, member{first, t.base(first), id})
			}
			gens.fill(first, 0)
			gens.fill(end, uint64(id.Gen))
			later = later || id.Gen > 0
		}
	}
	if later {
		t.gens = gens.runs()
	}
	return all
}

// isFresh reports whether a route equals a newly made one.
func (r *route) isFresh(p *actor.Proc) bool {
	for _, k := range r.packets {
		if k.group.IsStale() {
			return false
		}
	}
	return r.isCurrent(p)
}

// isCurrent reports whether no proc of the mesh has ended or been replaced since.
func (r *route) isCurrent(p *actor.Proc) bool {
	return r.procChanges == p.Members().ChangeCount(r.tree.placement.Mesh)
}

func (r *route) close() {
	for _, k := range r.packets {
		k.group.Drop()
	}
}

// prevs maps the links' preceding numbers for the members of a packet to the ranks of the region.
func (r *route) prevs(k packet, members []link.Run) runs {
	t := r.tree
	var out runsWriter
	i := 0 // a member
	for _, m := range members {
		for end := i + m.Count; i < end; {
			out.fill(k.members[i].view, link.NotIncluded)
			last := k.lastAdjacent(t, i, end)
			out.fill(t.processEnd(k.members[last].view), m.Prev)
			i = last + 1
		}
	}
	out.fill(t.region.NumRanks(), link.NotIncluded)
	return out.runs()
}

// lastAdjacent is the last member from i on, before end, with adjacent ranks.
func (k packet) lastAdjacent(t tree, i, end int) int {
	if t.placement.PerProcess <= 1 && k.members[end-1].view-k.members[i].view == end-1-i {
		return end - 1 // one rank each: no more ranks fit between them
	}
	for i+1 < end && t.processEnd(k.members[i].view) == k.members[i+1].view {
		i++
	}
	return i
}
