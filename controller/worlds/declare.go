package worlds

import (
	"maps"
	"slices"
)

// upsert declares a world, as a whole or not at all (WORLD-4).
func (st *state) upsert(e upsert) {
	change, err := st.judge(e)
	if err != nil {
		st.answer(e.from, nil, err)
		return
	}
	if st.parks(e.Spec.Name, e.from, e) {
		return
	}
	if e.Dry {
		out := Upserted{World: e.Spec.Name, Change: change}
		if known, ok := st.worlds[e.Spec.Name]; ok {
			out.Mesh, out.Status = known.mesh.String(), known.status
		}
		st.answer(e.from, out, nil)
		return
	}
	w := st.open(e.Spec.Name)
	if change != Nothing {
		w.labels, _ = merged("", w.labels, e.Spec.Labels) // judged before
	}
	if change == Creates {
		spec := e.Spec
		w.spec = &spec
		if !w.mesh.IsValid() {
			w.mesh = e.mesh
		}
		for _, s := range w.seats {
			st.place(s)
		}
	}
	if change != Nothing {
		st.do(save{w.record()})
	}
	status, _ := w.is()
	st.answer(e.from, Upserted{World: w.name, Mesh: w.mesh.String(), Status: status, Change: change}, nil)
	st.settle(w)
	if change == Creates {
		st.watch(w)
		for _, rank := range slices.Sorted(maps.Keys(w.seats)) {
			st.order(w.seats[rank])
		}
	}
}

// judge says what a declaration would change, or why it cannot be.
func (st *state) judge(e upsert) (Change, error) {
	if err := e.Spec.Check(); err != nil {
		return "", err
	}
	if err := st.admits(e.Spec.Name); err != nil {
		return "", err
	}
	w := st.worlds[e.Spec.Name]
	if w == nil {
		return Creates, nil
	}
	labels, err := merged("world "+w.name, w.labels, e.Spec.Labels)
	if err != nil {
		return "", err
	}
	if w.spec == nil {
		return Creates, nil
	}
	same, err := w.spec.same(e.Spec)
	switch {
	case err != nil:
		return "", err
	case !same:
		return "", &ExistsError{World: w.name, Shape: w.spec.Shape.String(), PerHost: w.spec.PerHost, Command: w.spec.Command.Path}
	case !maps.Equal(labels, w.labels):
		return Labels, nil
	}
	return Nothing, nil
}
