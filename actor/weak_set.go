package actor

import (
	"slices"
	"weak"
)

// weakSet lists pooled objects without keeping them alive. It is not safe for concurrent use.
type weakSet[T any] struct{ all []weak.Pointer[T] }

// add adds an object. It removes collected ones whenever the set would grow.
func (r *weakSet[T]) add(v *T) {
	if len(r.all) == cap(r.all) {
		r.all = slices.DeleteFunc(r.all, func(p weak.Pointer[T]) bool { return p.Value() == nil })
	}
	r.all = append(r.all, weak.Make(v))
}

// each calls visit with each live object.
func (r *weakSet[T]) each(visit func(*T)) {
	for _, p := range r.all {
		if v := p.Value(); v != nil {
			visit(v)
		}
	}
}
