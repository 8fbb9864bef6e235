package system

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/subjects"
)

// The functions below only read.

// snapshot returns the worlds and procs that match a filter (WORLD-12).
func (st *state) snapshot(f Filter) []WorldState {
	out := []WorldState{}
	for _, name := range slices.Sorted(maps.Keys(st.worlds)) {
		w := st.worlds[name]
		if (len(f.Worlds) == 0 || slices.Contains(f.Worlds, name)) && hasLabels(w.labels, f.WorldLabels) {
			out = append(out, st.worldState(w, f.ProcLabels))
		}
	}
	return out
}

// hasLabels reports whether labels contain all of want, with the same values.
func hasLabels(labels, want map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func (st *state) worldState(w *world, procs map[string]string) WorldState {
	out := WorldState{
		Name: w.name, Status: w.status, Reason: w.statusReason, StatusAge: st.now.Sub(w.since),
		Mesh: w.mesh.String(), Labels: w.labels, Hosts: []HostState{}, Procs: []ProcState{},
		Left: maps.Clone(w.left),
	}
	if w.spec != nil {
		out.Shape = &w.spec.Shape
		out.PerHost = w.spec.PerHost
	}
	if w.stopping != nil {
		out.StoppingReason = w.stopping.why
	}
	if w.unhealthyTimer != nil {
		due := st.afterHearing(w.unhealthyTimer.Value.(timerEntry).at.Add(st.eviction))
		out.EvictionIn = max(1, due.Sub(st.now))
	}
	for _, rank := range slices.Sorted(maps.Keys(w.assignments)) {
		s := w.assignments[rank]
		out.Hosts = append(out.Hosts, HostState{
			Rank: rank, ID: s.host.id, First: s.first, Count: s.count, Lost: s.host.lost, Labels: s.labels,
		})
	}
	for _, rank := range slices.Sorted(maps.Keys(w.procs)) {
		if m := w.procs[rank]; hasLabels(m.labels, procs) {
			out.Procs = append(out.Procs, m.procState())
		}
	}
	return out
}

func (m *member) procState() ProcState {
	p := ProcState{ID: m.id, Health: m.health, Reason: m.healthReason, Failed: slices.Clone(m.failed),
		Labels: m.labels}
	if m.assignment != nil {
		p.Host = m.assignment.host.id.String()
	}
	return p
}

// unhealthy returns the unhealthy procs of a world; nil: there is no world of that name.
func (st *state) unhealthy(name string) *WorldHealth {
	w := st.worlds[name]
	if w == nil {
		return nil
	}
	out := &WorldHealth{Unhealthy: []ProcState{}}
	for _, rank := range slices.Sorted(maps.Keys(w.unhealthy)) {
		out.Unhealthy = append(out.Unhealthy, w.unhealthy[rank].procState())
	}
	return out
}

// locate finds a rank: by the ID of any of its procs, or as world/rank.
func (st *state) locate(text string) (Location, error) {
	name, rankText, ok := strings.Cut(text, "/")
	var w *world
	rank, err := strconv.ParseUint(rankText, 10, 32)
	switch {
	case !ok:
		return Location{}, fmt.Errorf("cannot locate %q: want world/rank, or the ID of a proc", text)
	case err == nil:
		w = st.worlds[name]
	default:
		id, err := subjects.ParseProcID(text)
		if err != nil {
			return Location{}, fmt.Errorf("cannot locate %q: want world/rank, or the ID of a proc: %w", text, err)
		}
		rank = uint64(id.Rank)
		if named := st.worlds[id.Mesh.Label()]; named != nil && named.mesh == id.Mesh {
			w = named
		}
	}
	if w == nil {
		return Location{}, &NotFoundError{text}
	}
	m := w.procs[uint32(rank)]
	if m == nil {
		return Location{}, &NotFoundError{text}
	}
	shown := m.procState()
	return Location{
		World: w.name, Proc: m.id, Host: shown.Host, Health: m.health,
		Reason: cmp.Or(m.healthReason, strings.Join(m.failed, ", ")),
	}, nil
}

// NotFoundError reports that a world, a proc in it, or a detached mesh does not exist.
type NotFoundError struct{ What string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("%s: not found", e.What) }
