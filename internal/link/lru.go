package link

import (
	"container/list"

	"github.com/castnet-io/castnet/subjects"
)

// lru holds the state of at most size peers; a new one replaces the one silent longest. It is not
// safe for concurrent use.
type lru struct {
	size  int
	items map[subjects.ProcessID]*list.Element // of *entry
	order list.List                            // front: used last
}

type entry struct {
	id    subjects.ProcessID
	state *Peer
}

func newLRU(size int) *lru {
	return &lru{size: size, items: map[subjects.ProcessID]*list.Element{}}
}

// get returns a peer's state, or nil, and does not count as use.
func (r *lru) get(id subjects.ProcessID) **Peer {
	if e, ok := r.items[id]; ok {
		return &e.Value.(*entry).state
	}
	return nil
}

// touch returns a peer's state, created on first use, and the evicted state, if any.
func (r *lru) touch(id subjects.ProcessID) (state **Peer, forgotten *Peer) {
	e, ok := r.items[id]
	if ok {
		r.order.MoveToFront(e)
		return &e.Value.(*entry).state, forgotten
	}
	if len(r.items) >= r.size {
		last := r.order.Back().Value.(*entry)
		forgotten = last.state
		r.drop(last.id)
	}
	fresh := &entry{id: id}
	r.items[id] = r.order.PushFront(fresh)
	return &fresh.state, forgotten
}

// newest visits at most limit peers, the one used last first, and does not count as use.
func (r *lru) newest(limit int, visit func(*Peer)) {
	for e := r.order.Front(); e != nil && limit > 0; e = e.Next() {
		visit(e.Value.(*entry).state)
		limit--
	}
}

func (r *lru) drop(id subjects.ProcessID) {
	if e, ok := r.items[id]; ok {
		r.order.Remove(e)
		delete(r.items, id)
	}
}
