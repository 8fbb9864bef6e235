package actor

import "sync"

// Values holds the state that other packages of castnet attach to a proc, each under a key of a
// private type.
type Values struct {
	mu  sync.Mutex // guards all
	all map[any]any
}

// Values returns what packages have attached to the proc.
func (p *Proc) Values() *Values { return &p.values }

// Set attaches a value, in place of the one before.
func (v *Values) Set(key, value any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all[key] = value
}

// Get returns the attached value; nil without one.
func (v *Values) Get(key any) any {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.all[key]
}

// GetOr is Get. If there is no value, it attaches the result of newValue first.
func (v *Values) GetOr(key any, newValue func() any) any {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all[key] == nil {
		v.all[key] = newValue()
	}
	return v.all[key]
}
