package system

import (
	"maps"
	"slices"
)

// upsert declares a world, as a whole or not at all (WORLD-3).
func (st *state) upsert(e upsert) {
	change, err := st.planUpsert(e)
	if err == nil {
		var waits bool
		waits, err = st.checkName(e.Spec.Name, e)
		if waits {
			return
		}
	}
	if err != nil {
		st.answer(e.from, nil, err)
		return
	}
	if e.DryRun {
		out := UpsertResponse{World: e.Spec.Name, Change: change}
		if known, ok := st.worlds[e.Spec.Name]; ok {
			out.Mesh = known.mesh.String()
			out.Status = known.status
		}
		st.answer(e.from, out, nil)
		return
	}
	w := st.worldNamed(e.Spec.Name)
	if change != ChangeNone {
		w.labels, _ = mergeLabels("", w.labels, e.Spec.Labels) // planUpsert has checked them
	}
	if change == ChangeCreate {
		spec := e.Spec
		w.spec = &spec
		if !w.mesh.IsValid() {
			w.mesh = e.mesh
		}
		for _, s := range w.assignments {
			st.beginGeneration(s)
		}
	}
	if change != ChangeNone {
		st.emit(saveRecord{w.record()})
	}
	status, _ := w.deriveStatus()
	out := UpsertResponse{World: w.name, Mesh: w.mesh.String(), Status: status, Change: change}
	st.answer(e.from, out, nil)
	st.updateStatus(w)
	if change == ChangeCreate {
		st.updateTimer(w)
		for _, rank := range slices.Sorted(maps.Keys(w.assignments)) {
			st.orderShare(w.assignments[rank])
		}
	}
}

// planUpsert returns the change that a declaration would make, or an error.
func (st *state) planUpsert(e upsert) (Change, error) {
	if err := e.Spec.Check(); err != nil {
		return "", err
	}
	if err := st.checkAccepting(e.Spec.Name); err != nil {
		return "", err
	}
	w := st.worlds[e.Spec.Name]
	if w == nil {
		return ChangeCreate, nil
	}
	labels, err := mergeLabels("world "+w.name, w.labels, e.Spec.Labels)
	if err != nil {
		return "", err
	}
	if w.spec == nil {
		return ChangeCreate, nil
	}
	changes, err := w.spec.changes(e.Spec)
	switch {
	case err != nil:
		return "", err
	case len(changes) > 0:
		return "", &ExistsError{
			World: w.name, Shape: w.spec.Shape.String(), PerHost: w.spec.PerHost, Command: w.spec.Command.Path,
			Changes: changes,
		}
	case !maps.Equal(labels, w.labels):
		return ChangeLabels, nil
	}
	return ChangeNone, nil
}
