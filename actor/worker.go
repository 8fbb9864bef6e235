package actor

import (
	"sync"
	"sync/atomic"
	"time"
)

// worker is a goroutine that runs actors, one after the other, while there is work. If a handler
// wakes an actor by a Send, the same worker runs it after the handler. That needs no new goroutine,
// and reuses the grown stack. If the handler is slow, other workers take the waiting actor
// (stealStalled).
//
// Actors without a waiting sender form a queue. A worker that takes one of them has a second worker
// made ready, the standby. Go runs the standby as soon as a processor has nothing else to do, and
// thus when the handler of the first one blocks. No clock is involved.
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

var (
	// noInstance is the next actor of a worker without one.
	noInstance = new(instance)
	// standby makes a worker take the first actor of the queue.
	standby = new(instance)
)

const (
	// stallCheckInterval is the interval of the check for actors behind a slow handler. They wait
	// twice as long at most.
	stallCheckInterval = 100 * time.Microsecond
	// workerIdleTimeout is the least idle time of a kept worker; the most is twice that. A process
	// gets mail less often the busier its machine is. If workers then ended between two messages,
	// each message would also cost a goroutine and the growth of its stack (0108).
	workerIdleTimeout = time.Second
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

	queue   []*instance // actors for any worker
	head    int         // of queue
	standby bool        // a worker was made ready for the queue, and has not run yet
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

// startQueued queues actors without a waiting sender. Few workers run them, one after another, as
// long as their handlers do not block.
func (ws *workers) startQueued(all ...*instance) {
	if len(all) == 0 {
		return
	}
	ws.mu.Lock()
	ws.queue = append(ws.queue, all...)
	ws.backlog.Store(true)
	wanted := ws.wantsStandby()
	ws.mu.Unlock()
	if wanted {
		ws.start(standby)
	}
}

// wantsStandby reports whether the queue needs a standby. The caller then starts it, once it has
// released the lock.
func (ws *workers) wantsStandby() bool {
	wanted := !ws.standby && ws.head < len(ws.queue)
	ws.standby = ws.standby || wanted
	return wanted
}

// takeQueued takes the first actor of the queue, and keeps a standby for the others; nil: it is
// empty.
func (ws *workers) takeQueued(isStandby bool) *instance {
	ws.mu.Lock()
	if isStandby {
		ws.standby = false
	}
	in := ws.dequeue()
	wanted := ws.wantsStandby()
	ws.mu.Unlock()
	if wanted {
		ws.start(standby)
	}
	return in
}

// dequeue takes the first actor of the queue; nil: it is empty. The lock is held.
func (ws *workers) dequeue() *instance {
	if ws.head == len(ws.queue) {
		ws.queue = ws.queue[:0]
		ws.head = 0
		if cap(ws.queue) > maxQueueCap {
			ws.queue = nil
		}
		ws.backlog.Store(false)
		return nil
	}
	in := ws.queue[ws.head]
	ws.queue[ws.head] = nil
	ws.head++
	if ws.head > len(ws.queue)/2 { // a queue that is never empty must not grow without bound
		n := copy(ws.queue, ws.queue[ws.head:])
		clear(ws.queue[n:])
		ws.queue = ws.queue[:n]
		ws.head = 0
	}
	return in
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
		if in == standby {
			in = ws.takeQueued(true)
		}
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
	return ws.takeQueued(false)
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

// stealStalled starts the actors stalled by the same handler since the last check.
func (ws *workers) stealStalled() {
	ws.checkScheduled.Store(false) // before the check: a later actor schedules its own
	waiting := false
	var stolen []*instance
	ws.mu.Lock()
	for w := range ws.busy {
		held := w.next.Load()
		hops := w.runs.Load()
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
