package actor

import (
	"slices"
	"weak"
)

// roster knows things that a pool keeps, without keeping them itself. It is not safe for concurrent
// use.
type roster[T any] struct{ all []weak.Pointer[T] }

// add puts something new on the roster, and strikes off what is gone whenever it would grow.
func (r *roster[T]) add(v *T) {
	if len(r.all) == cap(r.all) {
		r.all = slices.DeleteFunc(r.all, func(p weak.Pointer[T]) bool { return p.Value() == nil })
	}
	r.all = append(r.all, weak.Make(v))
}

// each visits what is there.
func (r *roster[T]) each(visit func(*T)) {
	for _, p := range r.all {
		if v := p.Value(); v != nil {
			visit(v)
		}
	}
}
