package actor

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// callbacks holds functions that others have registered.
type callbacks[F any] struct {
	some atomic.Bool // there are some

	mu  sync.Mutex // guards all
	all map[*F]struct{}
}

// add registers a function until cancel is called.
func (c *callbacks[F]) add(f F) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*F]struct{}{}
	}
	c.all[&f] = struct{}{}
	c.some.Store(true)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, &f)
		c.some.Store(len(c.all) > 0)
	}
}

// list returns the present functions, to be called without the lock.
func (c *callbacks[F]) list() []*F {
	if !c.some.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.all))
}
