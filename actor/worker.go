package actor

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// worker is a goroutine that runs actors, one after the other, while there is work. If a handler
// wakes an actor by a Send, the same worker runs it after the handler. That needs no new goroutine,
// and reuses the grown stack. If the handler is slow, other workers take the waiting actor
// (stealStalled).
//
// An idle worker is kept for a moment, because waking is cheaper than starting a goroutine.
type worker struct {
	next atomic.Pointer[instance] // the actor to run next; noInstance: none
	runs atomic.Uint64            // how many actors it has run
	wake chan *instance           // holds one: the actor to run after a rest; nil: exit

	sawWaiting  bool   // the last check found a waiting actor; guarded by the lock of workers
	sawRuns     uint64 // and hops was this
	idleAtSweep bool   // it was idle at the last look already; the same lock
}

// noInstance is the next actor of a worker without one.
var noInstance = new(instance)

const (
	// stallCheckInterval is the interval of the check for actors behind a slow handler. They wait
	// twice as long at most.
	stallCheckInterval = 100 * time.Microsecond
	// workerIdleTimeout is the least idle time of a kept worker; the most is twice that.
	workerIdleTimeout = 10 * time.Millisecond
	// maxQueueCap is the capacity kept of an empty queue.
	maxQueueCap = 4096
)

// workers holds the goroutines that run the actors of a proc, and their tasks.
type workers struct {
	taskGroup
	checkScheduled atomic.Bool                // a look is due
	labels         atomic.Pointer[turnLabels] // nil: turns have none

	mu             sync.Mutex // guards the fields below
	labelUsers     int        // callers of LabelTurns
	busy           map[*worker]struct{}
	idle           []*worker // the last to rest is the first to be woken
	stallTimer     *time.Timer
	sweepTimer     *time.Timer
	sweepScheduled bool // a sweep is due
	retired        bool // no worker rests any more

	queue       []*instance // actors for idle workers
	head        int         // of queue
	draining    bool        // workers were started to empty the queue
	dequeued    uint64      // how many have left the queue
	sawDequeued uint64      // passed, at the last look
	// how many workers the next look starts when nothing moves; 0: nothing was in the queue
	helpers int
	backlog atomic.Bool // there may be something in the queue; written under the lock
}

// start runs an actor on an idle worker, or a new one.
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

// startQueued queues an actor without a waiting sender. If the queue is slow, more workers help
// (stealStalled).
func (ws *workers) startQueued(in *instance) {
	ws.mu.Lock()
	if !ws.draining {
		ws.draining = true
		ws.backlog.Store(true) // this worker checks the queue when it is done
		ws.mu.Unlock()
		ws.start(in)
		return
	}
	ws.queue = append(ws.queue, in)
	ws.backlog.Store(true)
	ws.mu.Unlock()
	if !ws.checkScheduled.Load() {
		ws.scheduleCheck()
	}
}

// dequeue takes the next from the queue; nil: it is empty. The lock is held.
func (ws *workers) dequeue() *instance {
	if ws.head == len(ws.queue) {
		ws.queue = ws.queue[:0]
		ws.head = 0
		ws.helpers = 0
		if cap(ws.queue) > maxQueueCap {
			ws.queue = nil
		}
		ws.draining = false
		ws.backlog.Store(false)
		return nil
	}
	in := ws.queue[ws.head]
	ws.queue[ws.head] = nil
	ws.dequeued++
	ws.head++
	if ws.head > len(ws.queue)/2 { // a queue that is never empty must not grow without bound
		n := copy(ws.queue, ws.queue[ws.head:])
		clear(ws.queue[n:])
		ws.queue = ws.queue[:n]
		ws.head = 0
	}
	return in
}

// startMany runs actors on few workers, one after another. When they take long, more workers come
// to help (workers.look).
func (ws *workers) startMany(all []*instance) {
	now := all
	if few := runtime.GOMAXPROCS(0); len(all) > few {
		now = all[:few]
		ws.mu.Lock()
		ws.queue = append(ws.queue, all[few:]...)
		ws.draining = true
		ws.backlog.Store(true)
		ws.mu.Unlock()
	}
	for _, in := range now {
		ws.start(in)
	}
	if len(now) < len(all) && !ws.checkScheduled.Load() {
		ws.scheduleCheck()
	}
}

// startAfter runs an actor on a worker after its current one, if its place is free; else on another
// worker.
func (ws *workers) startAfter(w *worker, in *instance) {
	if w == nil || !w.next.CompareAndSwap(nil, in) {
		ws.start(in)
	} else if !ws.checkScheduled.Load() {
		ws.scheduleCheck()
	}
}

// work is the life of a worker.
func (ws *workers) work(w *worker, in *instance) {
	defer ws.exit(w)
	for ; in != nil; in = <-w.wake {
		w.next.Store(nil)
		for ; in != nil; in = ws.nextFor(w) {
			w.runs.Add(1)
			in.worker.Store(w)
			for in.step() {
			}
		}
		in = w.next.Swap(noInstance)
		if in != nil { // put there at the last moment
			w.wake <- in
		} else if !ws.park(w) {
			return
		}
	}
}

// nextFor returns the next actor for a worker; nil if there is none.
func (ws *workers) nextFor(w *worker) *instance {
	if in := w.next.Swap(nil); in != nil || !ws.backlog.Load() {
		return in
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.dequeue()
}

// park lets a worker wait for work; false: it is to end.
func (ws *workers) park(w *worker) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.retired {
		return false
	}
	w.idleAtSweep = false
	ws.idle = append(ws.idle, w)
	if !ws.sweepScheduled {
		ws.sweepScheduled = true
		if ws.sweepTimer == nil {
			ws.sweepTimer = time.AfterFunc(workerIdleTimeout, ws.sweep)
		} else {
			ws.sweepTimer.Reset(workerIdleTimeout)
		}
	}
	return true
}

// sweep ends the workers idle since the last sweep.
func (ws *workers) sweep() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	n := 0
	for ; n < len(ws.idle) && ws.idle[n].idleAtSweep; n++ {
		ws.idle[n].wake <- nil
	}
	ws.idle = append(ws.idle[:0], ws.idle[n:]...)
	for _, w := range ws.idle {
		w.idleAtSweep = true
	}
	ws.sweepScheduled = len(ws.idle) > 0
	if ws.sweepScheduled {
		ws.sweepTimer.Reset(workerIdleTimeout)
	}
}

// exit ends a worker, including one whose goroutine was ended by a handler.
func (ws *workers) exit(w *worker) {
	ws.mu.Lock()
	delete(ws.busy, w)
	ws.mu.Unlock()
	if left := w.next.Swap(noInstance); left != nil && left != noInstance {
		ws.start(left)
	}
	ws.taskGroup.done()
}

// yield starts the actors behind a handler that is about to wait.
func (in *instance) yield() {
	w := in.worker.Load()
	if w == nil {
		return
	}
	if held := w.next.Load(); held != nil && held != noInstance && w.next.CompareAndSwap(held, nil) {
		in.proc.workers.start(held)
	}
}

// scheduleCheck schedules a stall check.
func (ws *workers) scheduleCheck() {
	if !ws.checkScheduled.CompareAndSwap(false, true) {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.stallTimer == nil {
		ws.stallTimer = time.AfterFunc(stallCheckInterval, ws.stealStalled)
	} else {
		ws.stallTimer.Reset(stallCheckInterval)
	}
}

// stealStalled starts the actors stalled by the same handler since the last check, and some of a
// queue that has not moved. It doubles their number each time, so thousands of waiting handlers run
// within milliseconds.
func (ws *workers) stealStalled() {
	ws.checkScheduled.Store(false) // before the check: a later actor schedules its own
	waiting := false
	var stolen []*instance
	ws.mu.Lock()
	for w := range ws.busy {
		held, hops := w.next.Load(), w.runs.Load()
		switch {
		case held == nil || held == noInstance:
			w.sawWaiting = false
		case w.sawWaiting && w.sawRuns == hops && w.next.CompareAndSwap(held, nil):
			w.sawWaiting = false
			stolen = append(stolen, held)
		default:
			w.sawWaiting = true
			w.sawRuns = hops
			waiting = true
		}
	}
	if ws.head < len(ws.queue) {
		waiting = true
		if ws.helpers > 0 && ws.sawDequeued == ws.dequeued {
			for range min(ws.helpers, len(ws.queue)-ws.head) {
				stolen = append(stolen, ws.dequeue())
			}
			ws.helpers *= 2
		} else {
			ws.helpers = 1
		}
		ws.sawDequeued = ws.dequeued
	}
	ws.mu.Unlock()
	for _, in := range stolen {
		ws.start(in)
	}
	if waiting {
		ws.scheduleCheck()
	}
}

// retire ends the idle workers, and lets none become idle any more.
func (ws *workers) retire() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.retired = true
	for _, w := range ws.idle {
		w.wake <- nil
	}
	ws.idle = nil
	for _, t := range []*time.Timer{ws.stallTimer, ws.sweepTimer} {
		if t != nil {
			t.Stop()
		}
	}
}
