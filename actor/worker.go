package actor

import (
	"sync"
	"sync/atomic"
	"time"
)

// worker is a goroutine that runs actors, one after the other, while there is work. What a handler
// wakes by a Post is run by its own worker when the handler has returned: that costs no goroutine,
// and finds the stack as large as the last actor needed it. A handler that does not return soon loses
// what it holds up (workers.look).
type worker struct {
	next atomic.Pointer[instance] // to be run next; nobody: nothing any more
	hops atomic.Uint64            // how many actors it has run

	waits bool   // the last look found somebody waiting, guarded by the lock of workers
	seen  uint64 // and hops was this
}

// nobody stands in the place of the next actor of a worker that has ended.
var nobody = new(instance)

// lookEvery is how often somebody looks after actors whose worker does not come to them. They wait
// twice as long at most.
const lookEvery = 100 * time.Microsecond

// workers are the goroutines that run the actors of a proc, and their tasks.
type workers struct {
	group
	pool  sync.Pool   // of workers that have ended
	awake atomic.Bool // a look is due

	mu    sync.Mutex // guards the fields below
	known roster[worker]
	alarm *time.Timer
}

// start runs an actor on a new goroutine.
func (ws *workers) start(in *instance) {
	ws.n.Add(1)
	go ws.work(in)
}

// startAfter runs an actor on a worker that is busy with another one, when it is free for it; else
// on a new goroutine.
func (ws *workers) startAfter(w *worker, in *instance) {
	if w == nil || !w.next.CompareAndSwap(nil, in) {
		ws.start(in)
	} else if !ws.awake.Load() {
		ws.lookSoon()
	}
}

// work is the life of a worker.
func (ws *workers) work(in *instance) {
	w, _ := ws.pool.Get().(*worker)
	if w == nil {
		w = &worker{}
		ws.mu.Lock()
		ws.known.add(w)
		ws.mu.Unlock()
	}
	w.next.Store(nil)
	defer ws.end(w)
	for h := uint64(1); in != nil; h++ {
		w.hops.Store(h)
		in.worker.Store(w)
		for in.step() {
		}
		in = w.next.Swap(nil)
	}
}

// end ends a worker, also one whose goroutine a handler has ended.
func (ws *workers) end(w *worker) {
	if left := w.next.Swap(nobody); left != nil {
		ws.start(left)
	}
	ws.pool.Put(w)
	ws.done()
}

// yield starts what waits for a handler that is about to wait itself.
func (in *instance) yield() {
	w := in.worker.Load()
	if w == nil {
		return
	}
	if held := w.next.Load(); held != nil && held != nobody && w.next.CompareAndSwap(held, nil) {
		in.proc.turns.start(held)
	}
}

// lookSoon sees to it that somebody looks.
func (ws *workers) lookSoon() {
	if !ws.awake.CompareAndSwap(false, true) {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.alarm == nil {
		ws.alarm = time.AfterFunc(lookEvery, ws.look)
	} else {
		ws.alarm.Reset(lookEvery)
	}
}

// look starts those who waited for the same handler at the last look already.
func (ws *workers) look() {
	ws.awake.Store(false) // before looking: who comes later looks himself
	waiting := false
	ws.mu.Lock()
	ws.known.each(func(w *worker) {
		held, hops := w.next.Load(), w.hops.Load()
		switch {
		case held == nil || held == nobody:
			w.waits = false
		case w.waits && w.seen == hops && w.next.CompareAndSwap(held, nil):
			w.waits = false
			ws.start(held)
		default:
			w.waits, w.seen, waiting = true, hops, true
		}
	})
	ws.mu.Unlock()
	if waiting {
		ws.lookSoon()
	}
}

// close ends the alarm of workers that have all ended.
func (ws *workers) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.alarm != nil {
		ws.alarm.Stop()
	}
}
