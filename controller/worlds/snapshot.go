package worlds

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/subjects"
)

// What follows only reads: whoever asks does a tick first, so that it is how things are now.

// snapshot is everything that a filter matches (WORLD-12).
func (st *state) snapshot(f Filter) []WorldState {
	out := []WorldState{}
	for _, name := range slices.Sorted(maps.Keys(st.worlds)) {
		w := st.worlds[name]
		if (len(f.Worlds) == 0 || slices.Contains(f.Worlds, name)) && has(w.labels, f.WorldLabels) {
			out = append(out, st.show(w, f.ProcLabels))
		}
	}
	return out
}

// has reports whether labels have every one of some, with that value.
func has(labels, want map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func (st *state) show(w *world, procs map[string]string) WorldState {
	out := WorldState{
		Name: w.name, Status: w.status, Reason: w.why, For: st.now.Sub(w.since), Mesh: w.mesh.String(), Labels: w.labels,
		Hosts: []HostState{}, Procs: []ProcState{},
	}
	if w.spec != nil {
		out.Shape, out.PerHost = &w.spec.Shape, w.spec.PerHost
	}
	if w.ending != nil {
		out.Ending = w.ending.why
	}
	for _, rank := range slices.Sorted(maps.Keys(w.seats)) {
		s := w.seats[rank]
		out.Hosts = append(out.Hosts, HostState{Rank: rank, ID: s.host.id, First: s.first, Count: s.count, Lost: s.host.lost, Labels: s.labels})
	}
	for _, rank := range slices.Sorted(maps.Keys(w.procs)) {
		if m := w.procs[rank]; has(m.labels, procs) {
			out.Procs = append(out.Procs, m.show())
		}
	}
	return out
}

func (m *member) show() ProcState {
	p := ProcState{ID: m.id, Health: m.health, Reason: m.why, Failed: slices.Clone(m.failed), Labels: m.labels}
	if m.seat != nil {
		p.Host = m.seat.host.id.String()
	}
	return p
}

// unhealthy are the procs of a world that are not healthy; false: there is no such world.
func (st *state) unhealthy(name string) ([]ProcState, bool) {
	w, ok := st.worlds[name]
	if !ok {
		return nil, false
	}
	out := []ProcState{}
	for _, rank := range slices.Sorted(maps.Keys(w.unhealthy)) {
		out = append(out, w.unhealthy[rank].show())
	}
	return out, true
}

// where finds a rank: by the ID of any of its procs, or as world/rank.
func (st *state) where(text string) (Whereabouts, error) {
	name, rankText, ok := strings.Cut(text, "/")
	var w *world
	rank, err := strconv.ParseUint(rankText, 10, 32)
	switch {
	case !ok:
		return Whereabouts{}, fmt.Errorf("where is %q: want world/rank, or the ID of a proc", text)
	case err == nil:
		w = st.worlds[name]
	default:
		id, err := subjects.ParseProcID(text)
		if err != nil {
			return Whereabouts{}, fmt.Errorf("where is %q: want world/rank, or the ID of a proc: %w", text, err)
		}
		rank = uint64(id.Rank)
		if w = st.worlds[id.Mesh.Label()]; w != nil && w.mesh != id.Mesh {
			w = nil
		}
	}
	if w == nil {
		return Whereabouts{}, &NotFoundError{text}
	}
	m := w.procs[uint32(rank)]
	if m == nil {
		return Whereabouts{}, &NotFoundError{text}
	}
	shown := m.show()
	return Whereabouts{World: w.name, Proc: m.id, Host: shown.Host, Health: m.health, Reason: cmp.Or(m.why, strings.Join(m.failed, ", "))}, nil
}

// NotFoundError says that there is no such world, or no such proc in it.
type NotFoundError struct{ What string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("%s: no world has it", e.What) }
