package actor

import (
	"cmp"
	"math"
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// maxDeathRanges bounds the remembered ends of procs (DEL-5): the newest. One event about many
// ranks counts once. The link still refuses a forgotten proc, which would have to open a new one.
const maxDeathRanges = 1 << 16

// deathRange is a range of procs of one generation that ended with one event.
type deathRange struct {
	mesh                  subjects.MeshID
	gen                   uint32
	first, count          uint32 // ranks
	procIndex, perProcess uint32 // of one proc: its index; of several: the procs per process
	source                *Event
}

// deathRangeOf returns the range of an event.
func deathRangeOf(e Event) deathRange {
	id := e.Proc()
	e.StderrTail = nil // available from the event itself
	return deathRange{
		mesh: id.Mesh, gen: id.Gen, first: id.Rank, count: uint32(min(max(e.Count, 1), maxCount,
			math.MaxUint32-int(id.Rank))),
		procIndex: id.Index, perProcess: uint32(max(e.PerProcess, 1)), source: &e,
	}
}

// afterLast is the rank after the last.
func (n deathRange) afterLast() uint32 { return n.first + n.count }

func (n deathRange) proc(rank uint32) subjects.ProcID {
	id := subjects.ProcID{Mesh: n.mesh, Rank: rank, Gen: n.gen, Index: n.procIndex}
	if n.source.Count > 1 {
		id.Index = rank % n.perProcess
	}
	return id
}

func (n deathRange) contains(id subjects.ProcID) bool {
	return id.Mesh == n.mesh && id.Gen == n.gen && id.Rank >= n.first && id.Rank-n.first < n.count &&
		n.proc(id.Rank) == id
}

func (n deathRange) each(f func(subjects.ProcID)) {
	for rank := n.first; rank != n.afterLast(); rank++ {
		f(n.proc(rank))
	}
}

// event returns the event as if it were about one proc.
func (n deathRange) event(id subjects.ProcID) Event {
	e := *n.source
	e.Rank = int(id.Rank)
	e.ProcIndex = int(id.Index)
	e.Count = 0
	return e
}

func (n deathRange) compare(gen, rank uint32) int {
	return cmp.Or(cmp.Compare(n.gen, gen), cmp.Compare(n.first, rank))
}

// deadProcs holds the procs known to be dead. The proc's lock guards it.
type deadProcs struct {
	byMesh map[subjects.MeshID]*meshEnds
	order  []deathRange // oldest first
}

// meshEnds are those of one mesh.
type meshEnds struct {
	all   []deathRange // by generation and rank; no two overlap
	ranks int          // in all of them
	room  int          // the bound above which ends of superseded generations are dropped
}

// minEnds is the number of ends kept of any mesh, regardless of their generations.
const minEnds = 64

func (d *deadProcs) all(mesh subjects.MeshID) []deathRange {
	if m := d.byMesh[mesh]; m != nil {
		return m.all
	}
	return nil
}

// find returns the death of a proc, if known.
func (d *deadProcs) find(id subjects.ProcID) (deathRange, bool) {
	n, ok := d.before(id)
	return n, ok && n.contains(id)
}

// before returns the last range that begins at the rank of id or before it.
func (d *deadProcs) before(id subjects.ProcID) (deathRange, bool) {
	all := d.all(id.Mesh)
	at, found := slices.BinarySearchFunc(all, id,
		func(n deathRange, id subjects.ProcID) int { return n.compare(id.Gen, id.Rank) })
	if !found {
		at--
	}
	if at < 0 {
		return deathRange{}, false
	}
	return all[at], true
}

// cover reports whether the latest known procs of the first ranks of a mesh have ended.
func (d *deadProcs) cover(mesh subjects.MeshID, ranks int, newest *generations) bool {
	if m := d.byMesh[mesh]; m == nil || m.ranks < ranks {
		return false
	}
	for rank := range uint32(ranks) {
		id := subjects.ProcID{Mesh: mesh, Rank: rank}
		if e, later := newest.successor(id); later {
			id.Gen = uint32(e.Gen)
		}
		n, ok := d.before(id)
		if !ok || n.gen != id.Gen || rank >= n.afterLast() {
			return false
		}
	}
	return true
}

// forget forgets a mesh.
func (d *deadProcs) forget(mesh subjects.MeshID) {
	delete(d.byMesh, mesh)
	d.order = slices.DeleteFunc(d.order, func(n deathRange) bool { return n.mesh == mesh })
}

// add adds deaths and returns the new ones. It ignores the proc's own death. newest reports whether
// a proc has its rank, as far as known: any peer can invent the end of a generation that never
// existed.
func (d *deadProcs) add(n deathRange, self subjects.ProcID,
	newest func(subjects.ProcID) bool) (news []deathRange) {
	all := d.all(n.mesh)
	at, _ := slices.BinarySearchFunc(all, n, func(m, n deathRange) int { return m.compare(n.gen, n.first) })
	if at > 0 && all[at-1].gen == n.gen && all[at-1].afterLast() > n.first {
		at--
	}
	var known []deathRange
	for ; at < len(all) && all[at].gen == n.gen && all[at].first < n.afterLast(); at++ {
		known = append(known, all[at])
	}
	if n.contains(self) {
		own := n
		own.first = self.Rank
		own.count = 1
		known = append(known, own)
		slices.SortFunc(known, func(x, y deathRange) int { return cmp.Compare(x.first, y.first) })
	}
	next := n.first
	put := func(end uint32) {
		if next < end {
			gap := n
			gap.first = next
			gap.count = end - next
			news = append(news, gap)
		}
	}
	for _, m := range known {
		put(m.first)
		next = max(next, m.afterLast())
	}
	put(n.afterLast())
	for _, gap := range news {
		d.insert(gap, newest)
	}
	return news
}

func (d *deadProcs) insert(n deathRange, newest func(subjects.ProcID) bool) {
	if len(d.order) >= maxDeathRanges {
		d.drop(d.order[0])
		d.order = d.order[1:]
	}
	if d.byMesh == nil {
		d.byMesh = map[subjects.MeshID]*meshEnds{}
	}
	m := d.byMesh[n.mesh]
	if m == nil {
		m = &meshEnds{room: minEnds}
		d.byMesh[n.mesh] = m
	}
	if len(m.all) >= m.room {
		d.sift(n.mesh, newest)
		m.room = max(minEnds, 2*len(m.all))
	}
	at, _ := slices.BinarySearchFunc(m.all, n, func(m, n deathRange) int { return m.compare(n.gen, n.first) })
	m.all = slices.Insert(m.all, at, n)
	m.ranks += int(n.count)
	d.order = append(d.order, n)
}

// sift drops the ends of procs without a rank: a later generation has it, or no host confirmed that
// they ran. At most one end per rank remains.
func (d *deadProcs) sift(mesh subjects.MeshID, newest func(subjects.ProcID) bool) {
	useless := func(n deathRange) bool {
		for rank := n.first; rank != n.afterLast(); rank++ {
			if newest(n.proc(rank)) {
				return false
			}
		}
		return true
	}
	m := d.byMesh[mesh]
	m.all = slices.DeleteFunc(m.all, useless)
	m.ranks = 0
	for _, n := range m.all {
		m.ranks += int(n.count)
	}
	d.order = slices.DeleteFunc(d.order, func(n deathRange) bool { return n.mesh == mesh && useless(n) })
}

func (d *deadProcs) drop(n deathRange) {
	m := d.byMesh[n.mesh]
	at, _ := slices.BinarySearchFunc(m.all, n, func(m, n deathRange) int { return m.compare(n.gen, n.first) })
	m.all = slices.Delete(m.all, at, at+1)
	m.ranks -= int(n.count)
	if len(m.all) == 0 {
		delete(d.byMesh, n.mesh)
	}
}
