package actor

import (
	"slices"
	"weak"
)

// weakSet lists waiters without keeping them alive. It is not safe for concurrent use.
type weakSet struct{ all []weak.Pointer[waiter] }

// add adds a waiter. It removes collected ones whenever the set would grow.
func (r *weakSet) add(v *waiter) {
	if len(r.all) == cap(r.all) {
		r.all = slices.DeleteFunc(r.all, func(p weak.Pointer[waiter]) bool { return p.Value() == nil })
	}
	r.all = append(r.all, weak.Make(v))
}

// each calls visit with each live waiter.
func (r *weakSet) each(visit func(*waiter)) {
	for _, p := range r.all {
		if v := p.Value(); v != nil {
			visit(v)
		}
	}
}
