package cast

import (
	"errors"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/subjects"
)

// routes are the regions that a process has cast to: a cast to the same one finds its links as the one
// before has left them.
type routes struct {
	mu   sync.Mutex // guards the fields below, and what routes say of themselves
	all  map[routeKey]*route
	uses uint64
}

// routeKey is a region of an endpoint.
type routeKey struct {
	mesh            subjects.MeshID
	actor, endpoint string
	region          string
}

// route is how casts reach a region.
type route struct {
	tree    tree
	packets []packet
	here    int    // the first rank in the caller's process; -1: none is
	gone    []lost // nothing is sent to these
	changes uint64 // how often the procs of the mesh had changed

	last  uint64 // when it was used last
	users int    // casts that are being sent
	over  bool   // another one has its place: it is dropped when nobody uses it
}

// packet is what leaves as one, for some processes.
type packet struct {
	where   string // "": each is told alone
	members []member
	group   *actor.Group
}

// maxRoutes bounds what is kept; then the one that was used longest ago makes room for another.
const maxRoutes = 64

// to finds the way to a region, or makes it out. Who has sent calls done.
func (rs *routes) to(p *actor.Proc, t Target, endpoint string) (*route, error) {
	key := routeKey{t.Placement.Mesh, t.Actor, endpoint, t.Region.String()}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.all[key]
	if r == nil || !r.fresh(p) {
		var err error
		if r, err = newRoute(p, t, endpoint); err != nil {
			return nil, err
		}
		rs.keep(p, key, r)
	}
	rs.uses++
	r.last = rs.uses
	r.users++
	return r, nil
}

// keep puts a route in its place. The lock is held.
func (rs *routes) keep(p *actor.Proc, key routeKey, r *route) {
	if rs.all == nil {
		rs.all = map[routeKey]*route{}
	}
	out, replaces := key, rs.all[key] != nil
	if !replaces && len(rs.all) >= maxRoutes {
		for k, other := range rs.all {
			if out == key || other.last < rs.all[out].last {
				out = k
			}
		}
	}
	if old := rs.all[out]; old != nil {
		delete(rs.all, out)
		if old.over = true; old.users == 0 {
			old.drop(p)
		}
	}
	rs.all[key] = r
}

// done says that a cast has been sent.
func (rs *routes) done(p *actor.Proc, r *route) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r.users--; r.over && r.users == 0 {
		r.drop(p)
	}
}

func newRoute(p *actor.Proc, t Target, endpoint string) (*route, error) {
	r := &route{here: -1, changes: p.Changes(t.Placement.Mesh)} // counted before it is looked at
	r.tree = tree{place: t.Placement, region: t.Region}
	members := r.members(p)
	r.gone = r.tree.ended(p)
	pl := planFor(t.Placement, members)
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
		if k.group, err = p.Group(to); errors.Is(err, actor.ErrProcDead) { // it has died since: without it
			return newRoute(p, t, endpoint)
		} else if err != nil {
			return nil, err
		}
		r.packets = append(r.packets, k)
	}
	return r, nil
}

// members finds who has the ranks of the region now (CAST-10): the processes that live, but the caller's own.
func (r *route) members(p *actor.Proc) (all []member) {
	t := &r.tree
	for view, end := 0, 0; view < t.region.NumRanks(); view = end {
		end = t.processEnd(view)
		id := latest(p, t.folder(view))
		if id == p.First().ID() {
			r.here = view
		} else if !over(p, id) {
			all = append(all, member{view, t.base(view), id})
		}
		if len(t.gens) > 0 || id.Gen > 0 {
			if len(t.gens) == 0 {
				t.gens = withRun(nil, view, 0)
			}
			t.gens = withRun(t.gens, end-view, uint64(id.Gen))
		}
	}
	return all
}

// fresh reports whether a route is as one that would be made now.
func (r *route) fresh(p *actor.Proc) bool {
	for _, k := range r.packets {
		if k.group.Stale() {
			return false
		}
	}
	return r.changes == p.Changes(r.tree.place.Mesh)
}

func (r *route) drop(p *actor.Proc) {
	for _, k := range r.packets {
		p.Drop(k.group)
	}
}

// prevs spreads what the links to the members of a packet have in front over the ranks of the region.
func (r *route) prevs(k packet, members []link.Run) (out []run) {
	t := r.tree
	at, i := 0, 0 // a rank, and a member
	for _, m := range members {
		for end := i + m.Count; i < end; {
			out = withRun(out, k.members[i].view-at, link.Left)
			last := k.inRow(t, i, end)
			at = t.processEnd(k.members[last].view)
			out = withRun(out, at-k.members[i].view, m.Prev)
			i = last + 1
		}
	}
	return withRun(out, t.region.NumRanks()-at, link.Left)
}

// inRow is the last of the members from one on, before another one, whose ranks follow each other.
func (k packet) inRow(t tree, i, end int) int {
	most := max(t.place.PerProcess, 1)
	if gap := k.members[end-1].view - k.members[i].view; gap == (end-1-i)*most && t.processEnd(k.members[i].view)-k.members[i].view == most {
		return end - 1 // all are whole: no more ranks fit between them
	}
	for i+1 < end && t.processEnd(k.members[i].view) == k.members[i+1].view {
		i++
	}
	return i
}
