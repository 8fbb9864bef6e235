package actor

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Bounds of the ended actors that a proc remembers: the newest, and the first that failed, which
// are nearest to the original fault.
const (
	maxEnded  = 1024
	maxPinned = 128
)

// directory holds every actor of a proc by its name, and the recently ended ones.
type directory struct {
	mu       sync.RWMutex // guards the fields below
	byName   map[string]*instance
	peakSize int         // the largest size of byName: a map never shrinks
	ended    []*instance // a ring of the newest
	next     int         // in ended: the oldest, once it is full
	pinned   int         // how many of the failed are kept for good
	closed   *Error      // the reason to refuse new actors; nil: they are accepted

	last atomic.Pointer[instance] // the last found; nil: none, or byName has changed
}

func (d *directory) find(name string) *instance {
	if in := d.last.Load(); in != nil && in.name == name {
		return in
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	in := d.byName[name]
	if in != nil {
		d.last.Store(in)
	}
	return in
}

func (d *directory) all() []*instance {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Collect(maps.Values(d.byName))
}

func (d *directory) add(in *instance) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, taken := d.byName[in.name]
	switch {
	case d.closed != nil:
		return d.closed
	case in.name == clientName:
		return errorf(CodeInvalid, in.id().String(), "",
			"the name is reserved for code that is not an actor: want another")
	case taken && !old.status().Terminal():
		return errorf(CodeInvalid, in.id().String(), "", "an actor with this name exists already")
	case taken:
		in.predecessors = old.predecessors + 1
	}
	d.byName[in.name] = in
	d.last.Store(nil)
	d.peakSize = max(d.peakSize, len(d.byName))
	return nil
}

func (d *directory) remove(in *instance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removeLocked(in)
}

func (d *directory) removeLocked(in *instance) {
	if d.byName[in.name] == in { // not one of the same name after it
		delete(d.byName, in.name)
		d.last.Store(nil)
	}
	if n := len(d.byName); d.peakSize > 16*maxEnded && n < d.peakSize/8 {
		small := make(map[string]*instance, n)
		maps.Copy(small, d.byName)
		d.byName = small
		d.peakSize = n
	}
}

// retire remembers an ended actor, in place of the one that ended longest ago.
func (d *directory) retire(in *instance, failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case failed && d.pinned < maxPinned:
		d.pinned++
	case len(d.ended) < maxEnded:
		d.ended = append(d.ended, in)
	default:
		d.removeLocked(d.ended[d.next])
		d.ended[d.next] = in
		d.next = (d.next + 1) % maxEnded
	}
}

// close refuses every actor from now on, and returns those there are.
func (d *directory) close(why *Error) []*instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = why
	return slices.Collect(maps.Values(d.byName))
}
