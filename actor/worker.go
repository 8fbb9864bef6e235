package actor

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// worker is a goroutine that runs actors, one after the other, while there is work. What a handler
// wakes by a Post is run by its own worker when the handler has returned: that costs no goroutine,
// and finds the stack as large as the last actor needed it. A handler that does not return soon loses
// what it holds up (workers.look). A worker without work is kept for a moment: to wake it is cheaper
// than to start another one.
type worker struct {
	next atomic.Pointer[instance] // to be run next; nobody: it has nothing to run
	hops atomic.Uint64            // how many actors it has run
	wake chan *instance           // holds one: what to run after a rest; nil: nothing any more

	waits  bool   // the last look found somebody waiting, guarded by the lock of workers
	seen   uint64 // and hops was this
	rested bool   // it was idle at the last look already; the same lock
}

// nobody stands in the place of the next actor of a worker that has none.
var nobody = new(instance)

const (
	// lookEvery is how often somebody looks after actors whose worker does not come to them. They
	// wait twice as long at most.
	lookEvery = 100 * time.Microsecond
	// restFor is how long a worker without work is kept, and twice that at most.
	restFor = 10 * time.Millisecond
	// maxSpare is how many places of its queue are kept when that is empty.
	maxSpare = 4096
)

// workers are the goroutines that run the actors of a proc, and their tasks.
type workers struct {
	group
	awake atomic.Bool // a look is due

	mu    sync.Mutex // guards the fields below
	busy  map[*worker]struct{}
	idle  []*worker // the last to rest is the first to be woken
	alarm *time.Timer
	sweep *time.Timer
	swept bool // a sweep is due
	over  bool // nobody rests any more

	queue   []*instance // those that a worker runs that has nothing else
	head    int         // of queue
	drained bool        // workers were started that see to the queue until it is empty
	passed  uint64      // how many have left the queue
	seen    uint64      // passed, at the last look
	help    int         // how many workers the next look starts when nothing moves; 0: nothing was in the queue
	backlog atomic.Bool // there may be something in the queue; written under the lock
}

// start runs an actor on a worker that rests, or a new one.
func (ws *workers) start(in *instance) {
	ws.mu.Lock()
	if last := len(ws.idle) - 1; last >= 0 {
		w := ws.idle[last]
		ws.idle = ws.idle[:last]
		ws.mu.Unlock()
		w.wake <- in
		return
	}
	w := &worker{wake: make(chan *instance, 1)}
	if ws.busy == nil {
		ws.busy = map[*worker]struct{}{}
	}
	ws.busy[w] = struct{}{}
	ws.mu.Unlock()
	ws.n.Add(1)
	go ws.work(w, in)
}

// startSoon runs an actor that nobody waits for, one after another. When they take long, more workers
// come to help (workers.look).
func (ws *workers) startSoon(in *instance) {
	ws.mu.Lock()
	if !ws.drained {
		ws.drained = true
		ws.backlog.Store(true) // so that this one looks into the queue when it is done
		ws.mu.Unlock()
		ws.start(in)
		return
	}
	ws.queue = append(ws.queue, in)
	ws.backlog.Store(true)
	ws.mu.Unlock()
	if !ws.awake.Load() {
		ws.lookSoon()
	}
}

// unqueue takes the next from the queue; nil: it is empty. The lock is held.
func (ws *workers) unqueue() *instance {
	if ws.head == len(ws.queue) {
		if ws.queue, ws.head, ws.help = ws.queue[:0], 0, 0; cap(ws.queue) > maxSpare {
			ws.queue = nil
		}
		ws.drained = false
		ws.backlog.Store(false)
		return nil
	}
	in := ws.queue[ws.head]
	ws.queue[ws.head] = nil
	ws.passed++
	if ws.head++; ws.head > len(ws.queue)/2 { // a queue that is never empty does not grow for ever
		n := copy(ws.queue, ws.queue[ws.head:])
		clear(ws.queue[n:])
		ws.queue, ws.head = ws.queue[:n], 0
	}
	return in
}

// startMany runs actors on few workers, one after another. When they take long, more workers come to help
// (workers.look).
func (ws *workers) startMany(all []*instance) {
	now := all
	if few := runtime.GOMAXPROCS(0); len(all) > few {
		now = all[:few]
		ws.mu.Lock()
		ws.queue = append(ws.queue, all[few:]...)
		ws.drained = true
		ws.backlog.Store(true)
		ws.mu.Unlock()
	}
	for _, in := range now {
		ws.start(in)
	}
	if len(now) < len(all) && !ws.awake.Load() {
		ws.lookSoon()
	}
}

// startAfter runs an actor on a worker that is busy with another one, when it is free for it; else
// on another.
func (ws *workers) startAfter(w *worker, in *instance) {
	if w == nil || !w.next.CompareAndSwap(nil, in) {
		ws.start(in)
	} else if !ws.awake.Load() {
		ws.lookSoon()
	}
}

// work is the life of a worker.
func (ws *workers) work(w *worker, in *instance) {
	defer ws.end(w)
	for ; in != nil; in = <-w.wake {
		w.next.Store(nil)
		for ; in != nil; in = ws.following(w) {
			w.hops.Add(1)
			in.worker.Store(w)
			for in.step() {
			}
		}
		if in = w.next.Swap(nobody); in != nil { // put there at the last moment
			w.wake <- in
		} else if !ws.rest(w) {
			return
		}
	}
}

// following is whom a worker runs next; nil: nobody.
func (ws *workers) following(w *worker) *instance {
	if in := w.next.Swap(nil); in != nil || !ws.backlog.Load() {
		return in
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.unqueue()
}

// rest lets a worker wait for work; false: it is to end.
func (ws *workers) rest(w *worker) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.over {
		return false
	}
	w.rested = false
	ws.idle = append(ws.idle, w)
	if !ws.swept {
		ws.swept = true
		if ws.sweep == nil {
			ws.sweep = time.AfterFunc(restFor, ws.thin)
		} else {
			ws.sweep.Reset(restFor)
		}
	}
	return true
}

// thin ends the workers that have rested since the last time.
func (ws *workers) thin() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	n := 0
	for ; n < len(ws.idle) && ws.idle[n].rested; n++ {
		ws.idle[n].wake <- nil
	}
	ws.idle = append(ws.idle[:0], ws.idle[n:]...)
	for _, w := range ws.idle {
		w.rested = true
	}
	if ws.swept = len(ws.idle) > 0; ws.swept {
		ws.sweep.Reset(restFor)
	}
}

// end ends a worker, also one whose goroutine a handler has ended.
func (ws *workers) end(w *worker) {
	ws.mu.Lock()
	delete(ws.busy, w)
	ws.mu.Unlock()
	if left := w.next.Swap(nobody); left != nil && left != nobody {
		ws.start(left)
	}
	ws.group.done()
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

// look starts those who waited for the same handler at the last look already, and some of those in the
// queue when that has not moved on: twice as many each time, so that thousands of handlers that wait are
// running within milliseconds.
func (ws *workers) look() {
	ws.awake.Store(false) // before looking: who comes later looks himself
	waiting := false
	var stolen []*instance
	ws.mu.Lock()
	for w := range ws.busy {
		held, hops := w.next.Load(), w.hops.Load()
		switch {
		case held == nil || held == nobody:
			w.waits = false
		case w.waits && w.seen == hops && w.next.CompareAndSwap(held, nil):
			w.waits = false
			stolen = append(stolen, held)
		default:
			w.waits, w.seen, waiting = true, hops, true
		}
	}
	if ws.head < len(ws.queue) {
		waiting = true
		if ws.help > 0 && ws.seen == ws.passed {
			for range min(ws.help, len(ws.queue)-ws.head) {
				stolen = append(stolen, ws.unqueue())
			}
			ws.help *= 2
		} else {
			ws.help = 1
		}
		ws.seen = ws.passed
	}
	ws.mu.Unlock()
	for _, in := range stolen {
		ws.start(in)
	}
	if waiting {
		ws.lookSoon()
	}
}

// retire ends the workers that rest, and lets none rest any more: no actor will need them.
func (ws *workers) retire() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.over = true
	for _, w := range ws.idle {
		w.wake <- nil
	}
	ws.idle = nil
	for _, t := range []*time.Timer{ws.alarm, ws.sweep} {
		if t != nil {
			t.Stop()
		}
	}
}
