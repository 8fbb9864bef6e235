package cast

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Bounds of a process's folds. Answers to casts beyond maxFolds are dropped and logged. The newest
// folds are kept, so that they can take another way when a folder dies.
const (
	maxAggregations  = 4096
	maxEarlyAnswers  = 1024     // answers to a cast that is not here yet
	maxEarlyBytes    = 32 << 20 // bytes of all those
	earlyTimeout     = 500 * time.Millisecond
	maxFinishedBytes = 32 << 20 // bytes
	maxQuickBytes    = 64 << 10 // bytes of answers that fold where the last one arrives
)

// aggregation is one cast that is being folded, or was.
type aggregation struct {
	job   job
	local *resultSlots // of this process's ranks; nil: the cast itself is not here yet
	// nil: the cast itself is not here yet, only answers to it: they travel on other links
	state      *collector
	early      []contribution
	earlyBytes int                // of early, in bytes
	earlyFrom  []subjects.ActorID // of early
	timer      *time.Timer

	// declined: the cast did not arrive within earlyFor; perhaps it was refused. Processes with
	// answers for it send them past this process, which then folds for no other.
	declined bool
	done     bool // what comes now is of ranks that were given up, or came before
	rerouted bool // those below silent nodes, to answer past them

	progressTimer *time.Timer // until the next progress report; nil: none is wanted
	lastReported  int         // in the last progress report

	// Sent values are kept, because their receiver may die.
	values   bodies
	ext      []byte
	sentTo   subjects.ProcID   // the zero ID: home
	bypassed []subjects.ProcID // folders that declined it
}

func (f *aggregation) sentBytes() int {
	n := len(f.ext)
	for _, v := range f.values {
		n += len(v)
	}
	return n
}

// start starts the aggregation with the contributions that came before it.
func (f *aggregation) start(j job) {
	if f.declined {
		j.hi = j.ownEnd
	}
	f.job = j
	f.state = newCollector(j.lo, j.hi, j.ownEnd-j.lo)
	f.state.expect(j.tree.skip.Complement(j.hi))
	f.local = newResultSlots(j.lo, j.ownEnd, j.tree.skip)
	for _, c := range f.early {
		f.state.contribute(c)
	}
	f.early = nil
	f.earlyFrom = nil
	f.earlyBytes = 0
}

// contribute adds a contribution from below.
func (f *aggregation) contribute(c contribution) {
	if f.state != nil {
		f.state.contribute(c)
	} else {
		f.early = append(f.early, c)
	}
}

// drainLocal adds the answers of this process's ranks.
func (f *aggregation) drainLocal() {
	if f.state != nil {
		f.local.drain(f.state.answer)
	}
}

// failProc fails the ranks of a proc that is gone.
func (f *aggregation) failProc(id subjects.ProcID, why error) {
	if gone := f.job.tree.ranksLostWith(id); gone.Count > 0 {
		f.giveUp(gone, why)
	}
}

// giveUp fails ranks that are gone. Answers that came before count.
func (f *aggregation) giveUp(gone shape.RankRun, why error) {
	f.local.giveUp(gone)
	f.drainLocal()
	f.state.fail(shape.Interval(gone.First, gone.Count), failed, why)
}

// aggregations is the folding side of a router.
type aggregations struct {
	p            *actor.Proc
	placement    Placement
	earlyTimeout time.Duration  // for the cast of an early answer
	wg           sync.WaitGroup // goroutines that fold

	mu            sync.Mutex
	active        map[string]*aggregation // by cast
	earlyBytes    int                     // bytes of answers to casts that are not here yet
	finished      []*aggregation          // that are done, oldest first
	finishedBytes int                     // of what they have sent
	closed        bool
}

func newAggregations(p *actor.Proc, place Placement) *aggregations {
	return &aggregations{p: p, placement: place, earlyTimeout: earlyTimeout, active: map[string]*aggregation{}}
}

// receive takes a contribution of another process, on a pump.
func (fs *aggregations) receive(in actor.Incoming) {
	var r replyHeader
	if err := wire.Unmarshal(in.Envelope.Ext, &r); err != nil || r.Cast == "" || !r.Folded {
		return
	}
	if r.Declined {
		fs.handleDeclined(r.Cast, in.From.Proc)
		return
	}
	if r.RerouteRank != 0 {
		fs.handleReroute(r.Cast, r.RerouteRank-1)
		return
	}
	size := len(in.Envelope.Ext) + len(in.Envelope.Body)
	c, err := r.decode(in, MaxRanks)
	if err != nil {
		log := fs.p.Log()
		log.Warn().Err(err).Stringer("from", in.From).Msg("cannot fold an answer")
		return
	}
	fs.update(r.Cast, func(f *aggregation) {
		switch {
		case f.declined:
			fs.sendDeclined(r.Cast, in.From)
		case f.state == nil && (len(f.early) == maxEarlyAnswers || fs.earlyBytes+size > maxEarlyBytes):
			fs.decline(r.Cast, f)
			fs.sendDeclined(r.Cast, in.From)
		case f.state == nil:
			f.earlyFrom = append(f.earlyFrom, in.From)
			f.earlyBytes += size
			fs.earlyBytes += size
			fallthrough
		default:
			f.contribute(c)
		}
	})
}

// decline stops the wait for a cast that has only answers: they go past this process. The lock is
// held.
func (fs *aggregations) decline(cast string, f *aggregation) {
	for _, from := range f.earlyFrom {
		fs.sendDeclined(cast, from)
	}
	fs.earlyBytes -= f.earlyBytes
	f.declined = true
	f.early = nil
	f.earlyFrom = nil
	f.earlyBytes = 0
	fs.setTimer(cast, f, actor.DefaultDeadline)
}

// sendDeclined makes a sender of answers go past this process. The lock is held.
func (fs *aggregations) sendDeclined(cast string, to subjects.ActorID) {
	ext := encodeReply(replyHeader{Cast: cast, Folded: true, Declined: true})
	fs.wg.Go(func() { fs.p.Casts().SendAnswer(routerActor, to.Port(foldPort), actor.Answer{}, ext) })
}

// begin starts a job.
func (fs *aggregations) begin(j job) *aggregation {
	return fs.update(j.castID, func(f *aggregation) {
		if f.state != nil {
			return
		}
		fs.earlyBytes -= f.earlyBytes
		f.start(j)
		d := fs.timeout(j) - f.rerouteWait()
		if d <= 0 {
			d = actor.DefaultDeadline
		}
		fs.setTimer(j.castID, f, d)
		if j.progressEvery > 0 && j.hi-j.lo > 1 {
			f.progressTimer = time.AfterFunc(j.progressEvery, func() { fs.scheduleProgress(f) })
		}
		for _, l := range j.tree.endedRanks(fs.p) { // a proc that died before the cast arrived sends nothing
			f.giveUp(l.ranks, l.err)
		}
	})
}

// addLocal takes the answer of a rank of this process, on any goroutine: mostly on the turn of its
// actor. The last one folds them, if that is quick.
func (fs *aggregations) addLocal(f *aggregation, rank int, a actor.Answer) {
	if f.local == nil || !f.local.put(rank, a) {
		return
	}
	fs.mu.Lock()
	complete := !fs.closed && !f.done && f.isComplete()
	quick := complete && f.isQuick()
	if quick {
		fs.closeLocked(f)
		fs.wg.Add(1)
	} else if complete {
		fs.finishLocked(f)
	}
	fs.mu.Unlock()
	if quick {
		defer fs.wg.Done()
		fs.send(f, fs.combine(f))
	}
}

// update changes a running fold, and finishes it if that completed it.
func (fs *aggregations) update(cast string, change func(*aggregation)) *aggregation {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return &aggregation{}
	}
	f, ok := fs.active[cast]
	if !ok {
		if len(fs.active) >= maxAggregations && len(fs.finished) == 0 {
			log := fs.p.Log()
			log.Warn().Str("cast", cast).Int("folding", maxAggregations).
				Msg("too many casts to fold at a time: answers are dropped")
			return &aggregation{}
		}
		f = &aggregation{}
		fs.active[cast] = f
		fs.evictFinished(maxAggregations)
	}
	if f.done {
		return f
	}
	change(f)
	if f.timer == nil {
		fs.setTimer(cast, f, fs.earlyTimeout)
	}
	if f.isComplete() {
		fs.finishLocked(f)
	}
	return f
}

// setTimer sets the end of the patience with a fold. The lock is held.
func (fs *aggregations) setTimer(cast string, f *aggregation, d time.Duration) {
	if f.timer == nil {
		f.timer = time.AfterFunc(d, func() { fs.expire(cast, f) })
	} else {
		f.timer.Reset(d)
	}
}

// isComplete reports whether nothing is awaited any more. The lock is held.
func (f *aggregation) isComplete() bool {
	f.drainLocal()
	return f.state != nil && f.state.pending == 0
}

// isQuick reports whether a complete fold has only few answers, of this process alone, and needs no
// code of users: neither a reducer nor the encoding of a value. The lock is held.
func (f *aggregation) isQuick() bool {
	if by := f.job.by; by.numbers == nil && by.foldMany == nil || len(f.state.parts) > 0 {
		return false
	}
	size := 0
	for _, a := range f.state.own {
		n, ok := quickSize(a)
		size += n
		if !ok || size > maxQuickBytes {
			return false
		}
	}
	return true
}

// quickSize is the size of an encoded answer in bytes; false: the encoding may be code of users.
func quickSize(a actor.Answer) (size int, ok bool) {
	switch a.Value.(type) {
	case nil: // the rank has failed
		return 0, true
	case int, int64, float64:
		return 9, true
	}
	if !a.IsEncoded() {
		return 0, false
	}
	raw, err := a.Raw()
	return len(raw), err == nil
}

// onUnreachable fails the ranks of a dead proc, and reroutes the answers that it had to fold.
func (fs *aggregations) onUnreachable(id subjects.ProcID, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.active {
		switch {
		case f.done && f.sentTo == id && f.ext != nil:
			fs.wg.Go(func() { fs.forward(f) })
		case f.done, f.state == nil:
		default:
			f.failProc(id, err)
			if f.isComplete() {
				fs.finishLocked(f)
			}
		}
	}
}

// expire ends the patience with a cast, and later forgets it.
func (fs *aggregations) expire(cast string, f *aggregation) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	switch {
	case fs.closed || fs.active[cast] != f:
	case f.done || f.declined && f.state == nil:
		delete(fs.active, cast)
		if i := slices.Index(fs.finished, f); i >= 0 {
			fs.finished = slices.Delete(fs.finished, i, i+1)
			fs.finishedBytes -= f.sentBytes()
		}
	case f.state == nil:
		fs.decline(cast, f)
	case f.canReroute():
		fs.reroute(f)
	default:
		f.drainLocal()
		f.state.expire(&actor.Error{Code: actor.CodeDeadline, Text: "no answer within the deadline"})
		fs.finishLocked(f)
	}
}

// finishLocked sends the fold up. A slow reducer runs on its own goroutine. The lock is held.
func (fs *aggregations) finishLocked(f *aggregation) {
	fs.closeLocked(f)
	fs.wg.Go(func() { fs.send(f, fs.combine(f)) })
}

// closeLocked lets no more answers in. The lock is held.
func (fs *aggregations) closeLocked(f *aggregation) {
	f.done = true
	f.timer.Reset(max(f.job.ttl, time.Second)) // from now on it is only kept
}

// evictFinished drops finished folds, oldest first, down to most.
func (fs *aggregations) evictFinished(most int) {
	for len(fs.finished) > 0 && (len(fs.active) > most || fs.finishedBytes > maxFinishedBytes) {
		f := fs.finished[0]
		fs.finished[0] = nil
		fs.finished = fs.finished[1:]
		fs.finishedBytes -= f.sentBytes()
		f.timer.Stop()
		if fs.active[f.job.castID] == f {
			delete(fs.active, f.job.castID)
		}
	}
}

// send sends a contribution up, and keeps it.
func (fs *aggregations) send(f *aggregation, c contribution) {
	values, ext, err := c.encode(f.job.castID)
	if err != nil { // of values that were folded here: they are no answers
		whole := contribution{failed: append(c.failed,
			failure{f.state.ranksWith(answered), actor.EncodeError(err)})}
		values, ext, _ = whole.encode(f.job.castID)
	}
	fs.mu.Lock()
	f.values = values
	f.ext = ext
	f.state = nil
	if fs.active[f.job.castID] == f { // else it was forgotten while it was folded
		fs.finished = append(fs.finished, f)
		fs.finishedBytes += f.sentBytes()
		fs.evictFinished(maxAggregations)
	}
	fs.mu.Unlock()
	fs.forward(f)
	fs.ackAnswered(f.job, c)
}

// forward sends the fold to the nearest live process above.
func (fs *aggregations) forward(f *aggregation) {
	fs.mu.Lock()
	f.bypassed = append(f.bypassed, f.sentTo)
	f.sentTo = f.job.liveParent(func(id subjects.ProcID) bool {
		return isEnded(fs.p, id) || slices.Contains(f.bypassed, id)
	})
	port := f.job.replyTo
	if f.sentTo.IsValid() {
		port = f.sentTo.Actor(routerActor).Port(foldPort)
	}
	fs.mu.Unlock()
	fs.p.Casts().SendAnswer(routerActor, port, actor.Answer{Value: f.values}, f.ext)
}

// combine folds the answers in rank order (CAST-5). Answers that cannot be folded here go on
// unchanged.
func (fs *aggregations) combine(f *aggregation) contribution {
	by, err := fs.reducerFor(f.job)
	return f.combine(by, err)
}

func (f *aggregation) combine(by untypedReducer, err error) contribution {
	c := contribution{failed: f.state.failures()}
	covered := f.state.ranksWith(answered)
	if covered.IsEmpty() {
		return c
	}
	if err == nil {
		var acc any
		acc, err = by.foldAll(f.state.values())
		if err == nil {
			c.parts = []part{{covered, actor.Answer{Value: acc}}}
			return c
		}
	} else if len(f.state.parts) > 0 && !slices.Contains(f.state.fates[:len(f.state.own)], answered) {
		c.parts = f.state.parts
		return c
	}
	c.failed = append(c.failed, failure{covered, actor.EncodeError(err)})
	return c
}

// reducerFor is the reducer of a job.
func (fs *aggregations) reducerFor(j job) (untypedReducer, error) {
	if j.by.fold != nil {
		return j.by, nil
	}
	answers, err := fs.p.Casts().AnswerType(j.actor, j.endpoint)
	if err != nil {
		return untypedReducer{}, err
	}
	return findReducer(j.reducer, answers)
}

// findReducer finds the reducer of a job, or returns the reason why a cast's answers cannot be
// folded; then no actor handles it. It is nil for an absent actor, too, which gives its own error.
func (fs *aggregations) findReducer(j *job) error {
	if j.mode == modeCollect {
		j.by = packReducer
		return nil
	}
	answers, err := fs.p.Casts().AnswerType(j.actor, j.endpoint)
	if err != nil {
		return nil
	}
	j.by, err = findReducer(j.reducer, answers)
	if err == nil {
		return nil
	}
	return &actor.Error{
		Code: actor.CodeInvalid, Actor: j.actor, Endpoint: j.endpoint,
		Text: fmt.Sprintf("%v, and the endpoint declares none of that name", err),
	}
}

// close gives up everything that is open and waits for running folds.
func (fs *aggregations) close() {
	fs.mu.Lock()
	fs.closed = true
	for _, f := range fs.active {
		f.timer.Stop()
	}
	fs.active = nil
	fs.finished = nil
	fs.mu.Unlock()
	fs.wg.Wait()
}
