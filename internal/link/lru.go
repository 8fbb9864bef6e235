package link

import (
	"container/list"

	"github.com/castnet-io/castnet/subjects"
)

// lru holds the state of at most size peers; a new one replaces the one silent longest. It is not
// safe for concurrent use.
type lru[T any] struct {
	size  int
	items map[subjects.ProcessID]*list.Element // of *entry[T]
	order list.List                            // front: used last
}

type entry[T any] struct {
	id    subjects.ProcessID
	state T
}

func newLRU[T any](size int) *lru[T] {
	return &lru[T]{size: size, items: map[subjects.ProcessID]*list.Element{}}
}

// get returns a peer's state, or nil, and does not count as use.
func (r *lru[T]) get(id subjects.ProcessID) *T {
	if e, ok := r.items[id]; ok {
		return &e.Value.(*entry[T]).state
	}
	return nil
}

// touch returns a peer's state, created on first use, and the evicted state, if any.
func (r *lru[T]) touch(id subjects.ProcessID) (state *T, forgotten T) {
	e, ok := r.items[id]
	if ok {
		r.order.MoveToFront(e)
		return &e.Value.(*entry[T]).state, forgotten
	}
	if len(r.items) >= r.size {
		last := r.order.Back().Value.(*entry[T])
		forgotten = last.state
		r.drop(last.id)
	}
	fresh := &entry[T]{id: id}
	r.items[id] = r.order.PushFront(fresh)
	return &fresh.state, forgotten
}

// newest visits at most limit peers, the one used last first, and does not count as use.
func (r *lru[T]) newest(limit int, visit func(T)) {
	for e := r.order.Front(); e != nil && limit > 0; e = e.Next() {
		visit(e.Value.(*entry[T]).state)
		limit--
	}
}

func (r *lru[T]) drop(id subjects.ProcessID) {
	if e, ok := r.items[id]; ok {
		r.order.Remove(e)
		delete(r.items, id)
	}
}
