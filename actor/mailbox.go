package actor

import (
	"github.com/castnet-io/castnet/internal/wire"
	"sync/atomic"
	"time"
)

// mailboxSize limits the messages that wait for one actor before senders are refused, besides those
// it has taken up already.
const (
	mailboxSize = 1024
	maxMailbox  = 1 << 30 // the size of an Unbounded mailbox
)

// mailbox is the queue of one actor. Messages enter the queue of their endpoint, and order keeps
// their sequence. The actor takes all of them as one batch, handles it without the lock, and takes
// the next:
//
//	senders ─ lock ─▶ queues: in  ─ take, lock ─▶ queues: out ─ claim ─▶ handler
//	                  order                       batch
//
// The actor claims each message of the batch before handling it. To end the actor, drain takes the
// unclaimed messages and answers them at once. So no sender waits for a stuck handler.
// Senders write the first fields, and the turn uses the last ones: a cache line lies between.
type mailbox struct {
	queues      []*slot // guarded by the lock
	order       []run   // guarded by the lock: incoming messages
	queued      int     // guarded by the lock: messages in order
	credited    int     // guarded by the lock: of these, those of SendWait from other procs
	nextSample  sample  // guarded by the lock: an incoming message
	lastArrival int64   // guarded by the lock: when the last came in, if its sender had looked
	pushes      uint8   // guarded by the lock: picks the sample

	claimedAtDrain uint32        // guarded by the lock: messages of the batch claimed before the drain
	handled        uint64        // guarded by the lock: messages of finished batches
	roomFreed      chan struct{} // guarded by the lock: closed when they are taken up; nil: no waiter
	// the turn's: yields to other goroutines before it rests; answered callers often send again
	lingerSteps int
	sendCtx     Context  // the turn's, except its origin: of messages without caller and trace
	tracedCtx   *Context // the turn's: the same for the latest trace; nil: there was none
	span        Span     // the turn's: of the running handler; nil: it has none

	batch         []run  // the batch: changes under the lock, on the turn
	batchSize     uint32 // messages in batch: the same
	claimed       atomic.Uint32
	handlingSince atomic.Int64 // start of the current handler as sampled, by Proc.now
	interrupt     atomic.Bool  // the turn must look at the actor before it claims a message
	answeredCalls bool         // the turn's: a caller waited for an answer of the batch
	// the turn's: answers to other procs wait for the end of the batch, for a moment
	batchesReplies bool
	turnClaims     uint32 // the turn's own copy of claimed
	batchPos       int    // the turn's: the current run of the batch
	servedOfRun    int    // the turn's: handled messages of that run
	sample         sample // the turn's: a message of the batch
	batchTime      int64  // the turn's: the time it was taken up, when known
}

// slot is an endpoint queue and the endpoint of its last lookup.
type slot struct {
	method    *method
	spec      *endpointSpec
	queue     endpointQueue
	fullError *Error // the error of a full mailbox; made once
}

// run is a number of consecutive messages of one endpoint queue.
type run struct {
	*slot
	n int
}

// sample is a timed message: one in sampleEvery. Times are those of Proc.now.
type sample struct {
	pos           uint32 // its place among the incoming messages, or in the batch, from 1
	sent, started int64
}

const (
	sampleEvery = 64 // a power of two: pushes wraps
	stampEvery  = 64 // how many messages of a batch share a look at the clock
	// how many messages wait for the worker of their sender; with more another one starts
	maxHeldForSender = 16
)

// slotFor returns the slot of an endpoint, creating it on first use; nil if the actor has no such
// endpoint. The lock is held.
func (in *instance) slotFor(s *endpointSpec) *slot {
	if b := in.mailbox; b != nil {
		for _, known := range b.queues {
			if known.spec == s {
				return known
			}
		}
	}
	return in.slotForSlow(s)
}

//go:noinline
func (in *instance) slotForSlow(s *endpointSpec) *slot {
	found := in.slotByName(s.name)
	if found != nil {
		found.spec = s
	}
	return found
}

func (in *instance) slotByName(name string) *slot {
	if b := in.mailbox; b != nil {
		for _, known := range b.queues {
			if known.method.name == name {
				return known
			}
		}
	}
	m := in.def.methods[name]
	if m == nil || in.state.terminal() {
		return nil
	}
	if in.mailbox == nil {
		in.mailbox = &mailbox{sendCtx: Context{origin: origin{in: in}, local: true}}
	}
	made := &slot{method: m, queue: m.newQueue()}
	in.mailbox.queues = append(in.mailbox.queues, made)
	return made
}

// refusal returns the reason why the mailbox refuses a message. The lock is held.
//
//go:noinline
func (in *instance) refusal(to *slot, endpoint string) *Error {
	switch {
	case in.refuses():
		return in.endError().withEndpoint(endpoint)
	case to == nil:
		return errorf(CodeNoEndpoint, in.id().String(), endpoint,
			"actor type %s has no such endpoint; it has %s", in.def.name, in.def.endpointNames())
	case to.fullError == nil:
		to.fullError = errorf(CodeMailboxFull, in.id().String(), endpoint,
			"its mailbox holds %d messages already", in.limit)
	}
	return to.fullError
}

// appendRun records n messages added to a queue. The caller starts the actor if wake is true. The
// lock is held.
func (in *instance) appendRun(at *slot, n int, now int64) (wake bool) {
	b := in.mailbox
	if last := len(b.order) - 1; last >= 0 && b.order[last].slot == at {
		b.order[last].n += n
	} else {
		b.order = append(b.order, run{at, n})
	}
	b.lastArrival = now
	if first := int(-b.pushes % sampleEvery); first < n {
		if now == 0 {
			now = in.proc.now()
		}
		b.nextSample = sample{pos: uint32(b.queued + first + 1), sent: now}
	}
	b.queued += n
	b.pushes += uint8(n)
	wake = in.phase == phaseIdle
	if wake {
		in.phase = phaseBetween
	}
	return wake
}

// send puts a message into the mailbox, or returns the reason of its refusal. ok is false if the
// actor's endpoint has other types: send the message as a Delivery. now is the time if the sender
// has it, else 0, because reading the clock costs more than the rest.
func send[M, R any](in *instance, s *endpointSpec, lt queuedMessage[M, R], now int64) (ok bool, why *Error) {
	in.mu.Lock()
	to := in.slotFor(s)
	if to == nil || in.refuses() || in.mailbox.counted() >= int(in.limit) {
		why = in.refusal(to, s.name)
		in.mu.Unlock()
		return true, why
	}
	if lt.from != nil && in.mailbox.queued == maxHeldForSender {
		lt.from.yield() // more than one worker has use for
	}
	l, ok := to.queue.(*typedQueue[M, R])
	if ok {
		push(l, lt)
		var w *worker
		if lt.from != nil && lt.reply == nil { // a waiting sender cannot run it
			w = lt.from.worker.Load()
		}
		if in.appendRun(to, 1, now) {
			in.proc.workers.startAfter(w, in)
		}
	}
	in.mu.Unlock()
	return ok, nil
}

// enqueue puts the messages of a Delivery into the mailbox up to the first refusal, and returns
// their number. q is its request at this actor; nil if it has bodies. The caller starts the actor
// if wake is true.
func (in *instance) enqueue(d *Delivery, q *request) (taken int, wake bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	to := in.slotByName(d.Port)
	if to == nil || in.refuses() {
		return 0, false, in.refusal(to, d.Port)
	}
	all := d.count()
	taken = all
	if d.credited {
		in.mailbox.credited += all
	} else {
		taken = min(all, max(0, int(in.limit)-in.mailbox.counted()))
	}
	if taken > 0 {
		if to.method.urgent && d.Reply != "" && !d.shared && !in.proc.process.urgents.accept(q) {
			return taken, false, nil
		}
		to.queue.pushDelivery(d, q, taken)
		wake = in.appendRun(to, taken, 0)
	}
	if taken < all {
		return taken, wake, in.refusal(to, d.Port)
	}
	return taken, wake, nil
}

// takeBatch makes a batch of all incoming messages. The lock is held.
func (b *mailbox) takeBatch() {
	for _, r := range b.order {
		r.queue.swap()
	}
	b.batch, b.order = b.order, b.batch[:0]
	b.batchSize = uint32(b.queued)
	b.queued = 0
	b.credited = 0
	b.signalRoom()
	b.sample = b.nextSample
	b.nextSample = sample{}
	b.batchTime = b.lastArrival
	b.lastArrival = 0
	b.turnClaims = 0
	b.batchPos = 0
	b.servedOfRun = 0
	b.claimed.Store(0)
}

// contextFor is the Context of a message without a waiting caller. A kept Context keeps its trace,
// so messages share one only as long as they have the same.
func (b *mailbox) contextFor(trace *wire.Trace) *Context {
	if trace == nil {
		return &b.sendCtx
	}
	return b.contextForTraced(trace)
}

//go:noinline
func (b *mailbox) contextForTraced(trace *wire.Trace) *Context {
	if b.tracedCtx == nil || b.tracedCtx.trace != trace {
		b.tracedCtx = &Context{origin: origin{in: b.sendCtx.in, trace: trace}, local: true}
	}
	return b.tracedCtx
}

// finishBatch ends a fully handled batch. The lock is held.
func (b *mailbox) finishBatch() {
	for _, r := range b.batch {
		r.queue.counts().handled += uint64(r.n)
		r.queue.clearBatch()
	}
	b.handled += uint64(b.batchSize)
	if b.answeredCalls && b.batchSize > 1 {
		b.lingerSteps = 2
	}
	b.answeredCalls = false
	b.batch = b.batch[:0]
	b.batchSize = 0
	b.turnClaims = 0
	b.claimed.Store(0)
}

// shrink releases the buffers and the last message of an idle actor. The lock is held.
func (b *mailbox) shrink() {
	for _, s := range b.queues {
		s.queue.shrink()
	}
	b.tracedCtx = nil
	b.sendCtx.from = nil
	b.sendCtx.delivery = nil
	if cap(b.batch)+cap(b.order) > smallBuf {
		b.batch, b.order = nil, nil
	}
}

// counted is the number of messages that count for the limit. The lock is held.
func (b *mailbox) counted() int { return b.queued - b.credited }

// signalRoom wakes senders waiting for room. The lock is held.
func (b *mailbox) signalRoom() {
	if b.roomFreed != nil {
		close(b.roomFreed)
		b.roomFreed = nil
	}
}

// roomSignal returns a channel that is closed when the actor takes up its incoming messages. It is
// nil if there is room now; for a request for credit, if there are no messages.
func (in *instance) roomSignal(credit bool) <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	b := in.mailbox
	if b == nil || in.refuses() || b.queued == 0 || !credit && b.counted() < int(in.limit) {
		return nil
	}
	if b.roomFreed == nil {
		b.roomFreed = make(chan struct{})
	}
	return b.roomFreed
}

// claim takes the next message of the batch for the turn; false when the turn must look at the
// actor first.
func (b *mailbox) claim() bool {
	n := b.turnClaims + 1
	b.claimed.Store(n)
	if b.interrupt.Load() {
		return false
	}
	b.turnClaims = n
	if n%stampEvery == 1 || n == b.sample.pos {
		b.noteTime(n)
	}
	return true
}

// noteTime records the time when the n-th message of the batch is claimed. The first of a batch
// arrived just now.
func (b *mailbox) noteTime(n uint32) {
	now := b.batchTime
	if now == 0 || n > 1 {
		now = b.sendCtx.in.proc.now()
	}
	b.handlingSince.Store(now)
	if n == b.sample.pos {
		b.sample.started = now
	}
}

// unclaim reverts a failed claim, unless the mailbox was drained meanwhile. The lock is held.
func (b *mailbox) unclaim() { b.claimed.Store(b.turnClaims) }

// recordSample notes how long the sample of the batch waited and ran.
func (in *instance) recordSample(c *endpointStats) {
	now := in.proc.now()
	s := in.mailbox.sample
	in.mu.Lock()
	defer in.mu.Unlock()
	c.waited.add(time.Duration(s.started - s.sent))
	c.ran.add(time.Duration(now - s.started))
}

// drain permanently removes all unclaimed messages from the mailbox; nil has none. The returned
// function notifies their senders of why. The lock is held; call the function without it.
func (b *mailbox) drain(why *Error) (tell func()) {
	if b == nil {
		return func() {}
	}
	b.interrupt.Store(true) // before claimed is read: the turn gives up later claims
	b.claimedAtDrain = b.claimed.Load()
	parts := append(unhandledRanges(b.batch, int(b.claimedAtDrain), outSide),
		unhandledRanges(b.order, 0, inSide)...)
	b.order = nil
	b.queued = 0
	b.credited = 0
	b.signalRoom() // to be refused
	return func() {
		for _, part := range parts {
			part.reject(b.sendCtx.in.proc, why)
		}
	}
}

// rejectLeftover notifies the sender of a message that the turn had claimed before drain and then
// gave up. It runs on the turn, after the drain.
func (b *mailbox) rejectLeftover(why *Error) {
	if b != nil && b.claimedAtDrain == b.turnClaims+1 {
		one := unhandledRanges(b.batch, int(b.turnClaims), outSide)[0]
		one.to = one.from + 1
		one.reject(b.sendCtx.in.proc, why)
	}
}

// messageRange is some messages of a pile.
type messageRange struct {
	side     queueSide
	from, to int
}

func (t messageRange) reject(p *Proc, why *Error) { t.side.reject(p, t.from, t.to, why) }

// unhandledRanges lists the messages of runs after the first skip, in order.
func unhandledRanges(runs []run, skip int, side func(endpointQueue) queueSide) []messageRange {
	var parts []messageRange
	next := map[*slot]int{}
	for _, r := range runs {
		from := next[r.slot]
		next[r.slot] += r.n
		left := min(skip, r.n)
		skip -= left
		if left < r.n {
			parts = append(parts, messageRange{side(r.queue), from + left, from + r.n})
		}
	}
	return parts
}

func inSide(l endpointQueue) queueSide {
	in, _ := l.sides()
	return in
}

func outSide(l endpointQueue) queueSide {
	_, out := l.sides()
	return out
}
