package actor

import (
	"cmp"
	"math"
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// maxDown bounds how many ends of procs are remembered (DEL-5), those that one event told of as one: the newest. A
// proc that is forgotten is still refused by its link, which it would have to open anew.
const maxDown = 1 << 16

// ends are procs in a row, of one generation, that one event said have ended.
type ends struct {
	mesh             subjects.MeshID
	gen              uint32
	first, count     uint32 // ranks
	seat, perProcess uint32 // of one proc: its seat; of several: how many in a row share a process
	told             *Event
}

// endOf is what an event says has ended.
func endOf(e Event) ends {
	id := e.Proc()
	e.StderrTail = nil // whoever shows it takes it from the event itself
	return ends{
		mesh: id.Mesh, gen: id.Gen, first: id.Rank, count: uint32(min(max(e.Count, 1), maxCount, math.MaxUint32-int(id.Rank))),
		seat: id.Seat, perProcess: uint32(max(e.PerProcess, 1)), told: &e,
	}
}

// end is the rank after the last.
func (n ends) end() uint32 { return n.first + n.count }

func (n ends) proc(rank uint32) subjects.ProcID {
	id := subjects.ProcID{Mesh: n.mesh, Rank: rank, Gen: n.gen, Seat: n.seat}
	if n.told.Count > 1 {
		id.Seat = rank % n.perProcess
	}
	return id
}

func (n ends) has(id subjects.ProcID) bool {
	return id.Mesh == n.mesh && id.Gen == n.gen && id.Rank >= n.first && id.Rank-n.first < n.count && n.proc(id.Rank) == id
}

func (n ends) each(f func(subjects.ProcID)) {
	for rank := n.first; rank != n.end(); rank++ {
		f(n.proc(rank))
	}
}

// event is what was told, as of one proc.
func (n ends) event(id subjects.ProcID) Event {
	e := *n.told
	e.Rank, e.Seat, e.Count = int(id.Rank), int(id.Seat), 0
	return e
}

func (n ends) compare(gen, rank uint32) int {
	return cmp.Or(cmp.Compare(n.gen, gen), cmp.Compare(n.first, rank))
}

// downs are the procs that are known to be dead. They belong to the lock of the proc.
type downs struct {
	of    map[subjects.MeshID][]ends // of each mesh by generation and rank; no two overlap
	order []ends                     // oldest first
}

// find finds what is known of a proc's end.
func (d *downs) find(id subjects.ProcID) (ends, bool) {
	all := d.of[id.Mesh]
	at, found := slices.BinarySearchFunc(all, id, func(n ends, id subjects.ProcID) int { return n.compare(id.Gen, id.Rank) })
	if !found {
		at--
	}
	if at < 0 || !all[at].has(id) {
		return ends{}, false
	}
	return all[at], true
}

// add adds what was not known, and returns it. Of itself a proc believes nothing.
func (d *downs) add(n ends, self subjects.ProcID) (news []ends) {
	all := d.of[n.mesh]
	at, _ := slices.BinarySearchFunc(all, n, func(m, n ends) int { return m.compare(n.gen, n.first) })
	if at > 0 && all[at-1].gen == n.gen && all[at-1].end() > n.first {
		at--
	}
	var known []ends
	for ; at < len(all) && all[at].gen == n.gen && all[at].first < n.end(); at++ {
		known = append(known, all[at])
	}
	if n.has(self) {
		own := n
		own.first, own.count = self.Rank, 1
		known = append(known, own)
		slices.SortFunc(known, func(x, y ends) int { return cmp.Compare(x.first, y.first) })
	}
	next := n.first
	put := func(end uint32) {
		if next < end {
			gap := n
			gap.first, gap.count = next, end-next
			news = append(news, gap)
		}
	}
	for _, m := range known {
		put(m.first)
		next = max(next, m.end())
	}
	put(n.end())
	for _, gap := range news {
		d.insert(gap)
	}
	return news
}

func (d *downs) insert(n ends) {
	if len(d.order) >= maxDown {
		d.drop(d.order[0])
		d.order = d.order[1:]
	}
	if d.of == nil {
		d.of = map[subjects.MeshID][]ends{}
	}
	at, _ := slices.BinarySearchFunc(d.of[n.mesh], n, func(m, n ends) int { return m.compare(n.gen, n.first) })
	d.of[n.mesh] = slices.Insert(d.of[n.mesh], at, n)
	d.order = append(d.order, n)
}

func (d *downs) drop(n ends) {
	all := d.of[n.mesh]
	at, _ := slices.BinarySearchFunc(all, n, func(m, n ends) int { return m.compare(n.gen, n.first) })
	if all = slices.Delete(all, at, at+1); len(all) == 0 {
		delete(d.of, n.mesh)
		return
	}
	d.of[n.mesh] = all
}
