package link

import (
	"container/list"

	"github.com/castnet-io/castnet/subjects"
)

// maxPeers bounds how many peers a side of a link remembers (LINK-5).
const maxPeers = 1 << 20

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

// use returns a peer's state, a fresh one for a peer that has none.
func (r *recent[T]) use(id subjects.ProcessID) *T {
	e, ok := r.items[id]
	if ok {
		r.order.MoveToFront(e)
		return &e.Value.(*entry[T]).state
	}
	if len(r.items) >= r.size {
		r.drop(r.order.Back().Value.(*entry[T]).id)
	}
	fresh := &entry[T]{id: id}
	r.items[id] = r.order.PushFront(fresh)
	return &fresh.state
}

// newest visits at most limit peers, the one used last first, and does not count as use.
func (r *recent[T]) newest(limit int, visit func(subjects.ProcessID, *T)) {
	for e := r.order.Front(); e != nil && limit > 0; e, limit = e.Next(), limit-1 {
		at := e.Value.(*entry[T])
		visit(at.id, &at.state)
	}
}

func (r *recent[T]) drop(id subjects.ProcessID) {
	if e, ok := r.items[id]; ok {
		r.order.Remove(e)
		delete(r.items, id)
	}
}
