package link

import (
	"container/list"

	"github.com/castnet-io/castnet/subjects"
)

// recent holds the state of at most size peers; the one that was silent longest makes room for a
// new one. It is not safe for concurrent use.
type recent[T any] struct {
	size  int
	items map[subjects.ProcessID]*list.Element // of *entry[T]
	order list.List                            // front: used last
}

type entry[T any] struct {
	id    subjects.ProcessID
	state T
}

func newRecent[T any](size int) *recent[T] {
	return &recent[T]{size: size, items: map[subjects.ProcessID]*list.Element{}}
}

// get returns a peer's state, or nil, and does not count as use.
func (r *recent[T]) get(id subjects.ProcessID) *T {
	if e, ok := r.items[id]; ok {
		return &e.Value.(*entry[T]).state
	}
	return nil
}

// use returns a peer's state, a fresh one for a peer that has none, and the state of the peer that had
// to make room.
func (r *recent[T]) use(id subjects.ProcessID) (state *T, forgotten T) {
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
func (r *recent[T]) newest(limit int, visit func(T)) {
	for e := r.order.Front(); e != nil && limit > 0; e, limit = e.Next(), limit-1 {
		visit(e.Value.(*entry[T]).state)
	}
}

func (r *recent[T]) drop(id subjects.ProcessID) {
	if e, ok := r.items[id]; ok {
		r.order.Remove(e)
		delete(r.items, id)
	}
}
