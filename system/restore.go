package system

import (
	"maps"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/subjects"
)

// restore loads the state of an earlier controller. All members count as alive now, and every host
// is asked for its inventory before any order (WORLD-2).
func (st *state) restore(e restored) {
	st.adoptUntil = st.now.Add(e.adopting)
	for _, name := range e.ended {
		st.endedNames[name] = true
	}
	for _, r := range e.records {
		if r.Detached != nil {
			st.detached.restore(*r.Detached)
			continue
		}
		if r.Reserved != nil {
			st.reserved.add(*r.Reserved)
			continue
		}
		w := st.worldNamed(r.Name)
		w.spec = r.Spec
		w.labels = r.Labels
		maps.Copy(w.gens, r.Gens)
		w.mesh, _ = subjects.ParseMeshID(r.Mesh) // the zero ID if there is none
		for _, x := range r.Hosts {
			s := &assignment{
				world: w, rank: x.Rank, incarnation: x.Incarnation, labels: x.Labels, gen: x.Gen,
				orderedIn: x.OrderedIn, unconfirmed: e.directSuccessor,
			}
			st.assignHost(s, x.Host)
			s.computeShare()
		}
		for _, x := range r.Procs {
			m := st.addProc(w, x.ID, nil)
			m.labels = x.Labels
			m.mode = x.Mode
			st.resetTimer(m)
		}
		w.status, w.statusReason = w.deriveStatus()
		if r.StoppingReason != "" {
			op := &stopOp{deadline: st.now.Add(st.stopWithin), worlds: map[string]*world{w.name: w}}
			st.stops = append(st.stops, op)
			st.beginStop(w, op, r.StoppingReason, st.stopWithin)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(st.hosts), subjects.HostID.Compare) {
		st.emit(fetchInventory{id})
	}
}

// sortedAssignments returns the assignments of a host, by world.
func (h *host) sortedAssignments() []*assignment {
	return slices.SortedFunc(maps.Values(h.assignments), func(a, b *assignment) int {
		return strings.Compare(a.world.name, b.world.name)
	})
}
