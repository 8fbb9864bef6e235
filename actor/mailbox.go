package actor

import (
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/link"
)

// mailboxSize is how many messages may wait for one actor before senders are refused, besides those
// it has taken up already.
const (
	mailboxSize = 1024
	maxMailbox  = 1 << 30 // what Unbounded stands for
)

// mailbox is the queue of one actor. Messages come in to the lane of their endpoint, and order
// says whose turn it is. The actor takes up all there is as one batch, handles it without the lock,
// and takes up the next:
//
//	senders ─ lock ─▶ lanes: in  ─ take, lock ─▶ lanes: out ─ claim ─▶ handler
//	                  order                      taken
//
// A message of the batch is claimed before it is handled. Whoever ends the actor meanwhile seizes
// what is not claimed, and answers it at once: nobody waits for a handler that does not return.
type mailbox struct {
	lanes  []*slot       // guarded by the lock
	order  []run         // guarded by the lock: what came in
	queued int           // guarded by the lock: messages in order
	room   chan struct{} // guarded by the lock: closed when there is room again; nil: nobody waits
	pushes uint8         // guarded by the lock: picks the sample
	picked sample        // guarded by the lock: a message that came in
	latest int64         // guarded by the lock: when the last came in, if its sender had looked
	seized uint32        // guarded by the lock: messages of the batch that were claimed when it was seized

	taken     []run  // the batch: changes under the lock, on the turn
	total     uint32 // messages in taken: the same
	claimed   atomic.Uint32
	handled   uint64       // guarded by the lock: messages of batches that are done
	since     atomic.Int64 // when the handler that runs was seen to start, by Proc.now
	interrupt atomic.Bool  // the turn must look at the actor before it claims a message

	claims  uint32  // the turn's own copy of claimed
	at      int     // the turn's: the run of the batch that is handled
	served  int     // the turn's: how many of that run are
	sample  sample  // the turn's: a message of the batch
	asked   bool    // the turn's: somebody waited for an answer of the batch
	gathers bool    // the turn's: answers to other procs wait for the end of the batch, for a moment
	lingers int     // the turn's: how often it lets others run before it rests; several who were answered will ask again
	stamp   int64   // the turn's: the time it was taken up, when that is known
	self    Context // the turn's: of every message that nobody waits for
	taking  taking  // the turn's
}

// slot is a lane and the endpoint it was looked up by last.
type slot struct {
	spec *spec
	lane lane
	full *Error // what a sender is told when there is no room; made once
}

// run is a number of messages of one lane, one after the other.
type run struct {
	*slot
	n int
}

// sample is a message whose way is timed: one in sampleEvery. Times are those of Proc.now.
type sample struct {
	at            uint32 // its place among the messages that come in, or in the batch, from 1
	sent, started int64
}

const (
	sampleEvery = 64 // a power of two: pushes wraps
	stampEvery  = 64 // how many messages of a batch share a look at the clock
	patientFor  = 16 // how many messages wait for the worker of their sender; with more another one starts
)

// find returns the slot of an endpoint, and makes it; nil when the actor has no such endpoint. The
// lock is held.
func (in *instance) find(s *spec) *slot {
	if b := in.box; b != nil {
		for _, known := range b.lanes {
			if known.spec == s {
				return known
			}
		}
	}
	return in.findAnew(s)
}

//go:noinline
func (in *instance) findAnew(s *spec) *slot {
	found := in.findName(s.name)
	if found != nil {
		found.spec = s
	}
	return found
}

func (in *instance) findName(name string) *slot {
	m := in.def.methods[name]
	if m == nil || in.state.terminal() {
		return nil
	}
	if in.box == nil {
		in.box = &mailbox{self: Context{in: in, mail: true}}
	}
	b := in.box
	for _, known := range b.lanes {
		if known.lane.bound() == m {
			return known
		}
	}
	made := &slot{lane: m.newLane()}
	b.lanes = append(b.lanes, made)
	return made
}

// refusal says why a message cannot come in. The lock is held.
//
//go:noinline
func (in *instance) refusal(to *slot, endpoint string) *Error {
	switch {
	case in.refuses():
		return in.why().about(endpoint)
	case to == nil:
		return errorf(CodeNoEndpoint, in.id().String(), endpoint, "actor type %s has no such endpoint; it has %s", in.def.name, in.def.endpointNames())
	case to.full == nil:
		to.full = errorf(CodeMailboxFull, in.id().String(), endpoint, "its mailbox holds %d messages already", in.limit)
	}
	return to.full
}

// arrived puts n messages that were added to a lane in their place, and wakes the actor, on w if
// that is free. The lock is held.
func (in *instance) arrived(at *slot, n int, now int64, w *worker) {
	if in.line(at, n, now) {
		in.proc.turns.startAfter(w, in)
	}
}

// line is arrived for those who wake the actor themselves, when it says so.
func (in *instance) line(at *slot, n int, now int64) (wake bool) {
	b := in.box
	if last := len(b.order) - 1; last >= 0 && b.order[last].slot == at {
		b.order[last].n += n
	} else {
		b.order = append(b.order, run{at, n})
	}
	b.latest = now
	if first := int(-b.pushes % sampleEvery); first < n {
		if now == 0 {
			now = in.proc.now()
		}
		b.picked = sample{at: uint32(b.queued + first + 1), sent: now}
	}
	b.queued += n
	b.pushes += uint8(n)
	if wake = in.phase == resting; wake {
		in.phase = between
	}
	return wake
}

// send puts a message into the mailbox, or says why not. ok is false when the actor takes other
// types than these by that name: the message is to be sent as a Delivery. now is the time when the
// sender has looked, else 0: a look costs more than all the rest.
func send[M, R any](in *instance, s *spec, lt letter[M, R], now int64) (ok bool, why *Error) {
	in.mu.Lock()
	to := in.find(s)
	if to == nil || in.refuses() || in.box.queued >= int(in.limit) {
		why = in.refusal(to, s.name)
		in.mu.Unlock()
		return true, why
	}
	if lt.from != nil && in.box.queued == patientFor {
		lt.from.yield() // more than one worker has use for
	}
	l, ok := to.lane.(*laneOf[M, R])
	if ok {
		l.push(lt)
		var w *worker
		if lt.from != nil && lt.reply == nil { // a sender that waits cannot run it
			w = lt.from.worker.Load()
		}
		in.arrived(to, 1, now, w)
	}
	in.mu.Unlock()
	return ok, nil
}

// deliver is send for everything else.
func (in *instance) deliver(d *Delivery) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	to := in.findName(d.Port)
	if to == nil || in.refuses() || in.box.queued >= int(in.limit) {
		return in.refusal(to, d.Port)
	}
	if d.Reply != "" && to.lane.bound().urgent && !in.proc.process.urged.takes(d) {
		return nil
	}
	to.lane.put(d)
	in.arrived(to, 1, 0, nil)
	return nil
}

// deliverFar is deliver for messages that another process posted, until one is refused, and says how
// many it took. Those that wait for room come in all the same: their link holds their sender back.
func (in *instance) deliverFar(r *farRun, came *link.Inbound) (taken int, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	to := in.findName(r.port)
	if to == nil || in.refuses() {
		return 0, in.refusal(to, r.port)
	}
	for taken < len(came.Letters) && (came.Letters[taken].Wait != 0 || in.box.queued+taken < int(in.limit)) {
		taken++
	}
	if taken > 0 {
		r.keep(came.Data, came.Letters[:taken])
		to.lane.putFar(r)
		in.arrived(to, taken, 0, nil)
	}
	if taken < len(came.Letters) {
		return taken, in.refusal(to, r.port)
	}
	return taken, nil
}

// take makes a batch of all that came in. The lock is held.
func (in *instance) take() {
	b := in.box
	for _, r := range b.order {
		r.lane.take()
	}
	b.taken, b.order = b.order, b.taken[:0]
	b.total, b.queued = uint32(b.queued), 0
	b.makeRoom()
	b.sample, b.picked = b.picked, sample{}
	b.stamp, b.latest = b.latest, 0
	b.claims, b.at, b.served = 0, 0, 0
	b.claimed.Store(0)
}

// done ends a batch that was handled to its end. The lock is held.
func (in *instance) done() {
	b := in.box
	for _, r := range b.taken {
		r.lane.counts().handled += uint64(r.n)
		r.lane.handled()
	}
	b.handled += uint64(b.total)
	if b.asked && b.total > 1 {
		b.lingers = 2
	}
	b.asked = false
	b.taken, b.total = b.taken[:0], 0
	b.claims = 0
	b.claimed.Store(0)
}

// rest gives back what an actor without work has no use for. The lock is held.
func (b *mailbox) rest() {
	for _, s := range b.lanes {
		s.lane.rest()
	}
	if cap(b.taken)+cap(b.order) > smallRoom {
		b.taken, b.order = nil, nil
	}
}

// makeRoom lets those go on who wait for room. The lock is held.
func (b *mailbox) makeRoom() {
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}

// full returns what is closed when there may be room again; nil when there is now.
func (in *instance) full() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	b := in.box
	if b == nil || in.refuses() || b.queued < int(in.limit) {
		return nil
	}
	if b.room == nil {
		b.room = make(chan struct{})
	}
	return b.room
}

// claim takes the next message of the batch for the turn; false when the turn must look at the actor
// first.
func (in *instance) claim() bool {
	b := in.box
	n := b.claims + 1
	b.claimed.Store(n)
	if b.interrupt.Load() {
		return false
	}
	b.claims = n
	if n%stampEvery == 1 || n == b.sample.at {
		in.look(n)
	}
	return true
}

// look notes what time it is when the n-th message of the batch is claimed. The first of a batch
// came just now.
func (in *instance) look(n uint32) {
	b := in.box
	now := b.stamp
	if now == 0 || n > 1 {
		now = in.proc.now()
	}
	b.since.Store(now)
	if n == b.sample.at {
		b.sample.started = now
	}
}

// unclaim gives back the message that claim did not get, unless the mailbox was seized meanwhile. The
// lock is held.
func (in *instance) unclaim() { in.box.claimed.Store(in.box.claims) }

// sampled notes how long the sample of the batch waited and ran.
func (in *instance) sampled(c *counts) {
	now, s := in.proc.now(), in.box.sample
	in.mu.Lock()
	defer in.mu.Unlock()
	c.waited.add(time.Duration(s.started - s.sent))
	c.ran.add(time.Duration(now - s.started))
}
