package worlds

import (
	"maps"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/subjects"
)

// restore takes over what an earlier controller has left. Everybody counts as heard now, and every host is
// asked what it has before anything is ordered of it (WORLD-10).
func (st *state) restore(e restored) {
	st.adoptUntil = st.now.Add(e.adopting)
	for _, name := range e.ended {
		st.endedNames[name] = true
	}
	for _, r := range e.records {
		if r.Detached != nil {
			st.restoreDetached(*r.Detached)
			continue
		}
		if r.Reserved != nil {
			st.keepName(*r.Reserved)
			continue
		}
		w := st.open(r.Name)
		w.spec, w.labels = r.Spec, r.Labels
		maps.Copy(w.gens, r.Gens)
		w.mesh, _ = subjects.ParseMeshID(r.Mesh) // none: the zero ID
		for _, x := range r.Hosts {
			s := &seat{world: w, rank: x.Rank, life: x.Life, labels: x.Labels, gen: x.Gen, born: x.Born, unseen: e.follows}
			st.sit(s, x.Host)
			s.assign()
		}
		for _, x := range r.Procs {
			m := st.arrive(w, x.ID, nil)
			m.labels, m.mode = x.Labels, x.Mode
			st.hear(&m.clock, m)
		}
		w.status, w.why = w.is()
		if r.Ending != "" {
			op := &stopOp{deadline: st.now.Add(st.stopWithin), worlds: map[string]*world{w.name: w}}
			st.stops = append(st.stops, op)
			st.end(w, op, r.Ending, st.stopWithin)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(st.hosts), subjects.HostID.Compare) {
		st.do(look{id})
	}
}

// inOrder are the seats of a host, by world.
func (h *host) inOrder() []*seat {
	return slices.SortedFunc(maps.Values(h.seats), func(a, b *seat) int { return strings.Compare(a.world.name, b.world.name) })
}
