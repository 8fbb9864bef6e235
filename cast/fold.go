package cast

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Bounds of what a process folds. Answers to casts beyond maxFolds are dropped, and logged; of those that
// are folded the newest are kept, so that they can take another way when a folder dies.
const (
	maxFolds  = 4096
	maxEarly  = 1024     // answers to a cast that is not here yet
	earlySize = 32 << 20 // bytes of all those
	earlyFor  = 500 * time.Millisecond
	maxKept   = 32 << 20 // bytes
)

// fold is one cast that is being folded, or was.
type fold struct {
	job   job
	own   *sheaf   // of this process's ranks; nil: the cast itself is not here yet
	st    *folding // nil: the cast itself is not here yet, only answers to it: they travel on other links
	early []contribution
	size  int                // of early, in bytes
	from  []subjects.ActorID // of early
	timer *time.Timer

	// The cast did not come for earlyFor: perhaps it was refused. Who has answers for it sends them past
	// this process, which folds for nobody then.
	declined bool
	done     bool // what comes now is of ranks that were given up, or came before
	asked    bool // those below silent nodes, to answer past them

	telling *time.Timer // until the next word of how far it is; nil: nobody wants to know
	told    int         // how far it was, the last time

	// What was sent up is kept, for who has it may die.
	values bodies
	ext    []byte
	to     subjects.ProcID   // the zero ID: home
	past   []subjects.ProcID // who did not take it
}

func (f *fold) bytes() int {
	n := len(f.ext)
	for _, v := range f.values {
		n += len(v)
	}
	return n
}

// begin starts it, with what has come before.
func (f *fold) begin(j job) {
	if f.declined {
		j.hi = j.below
	}
	f.job, f.st, f.own = j, newFolding(j.lo, j.below, j.hi, j.tree.skip), newSheaf(j.lo, j.below, j.tree.skip)
	for _, c := range f.early {
		f.st.put(c)
	}
	f.early, f.from, f.size = nil, nil, 0
}

// take takes what came from below.
func (f *fold) take(c contribution) {
	if f.st != nil {
		f.st.put(c)
	} else {
		f.early = append(f.early, c)
	}
}

// gather takes in what this process's ranks have answered.
func (f *fold) gather() {
	if f.st != nil {
		f.own.drain(f.st.answer)
	}
}

// lost fails the ranks of a proc that is gone.
func (f *fold) lost(id subjects.ProcID, why []byte) {
	if gone := f.job.tree.of(id); gone.Count > 0 {
		f.st.fail(failure{ranks{gone}, why})
	}
}

// folds is the folding side of a router.
type folds struct {
	p     *actor.Proc
	place Placement
	wait  time.Duration  // for the cast of an early answer
	wg    sync.WaitGroup // goroutines that fold

	mu     sync.Mutex
	open   map[string]*fold // by cast
	early  int              // bytes of answers to casts that are not here yet
	kept   []*fold          // that are done, oldest first
	size   int              // of what they have sent
	closed bool
}

func newFolds(p *actor.Proc, place Placement) *folds {
	return &folds{p: p, place: place, wait: earlyFor, open: map[string]*fold{}}
}

// receive takes a contribution of another process, on a pump.
func (fs *folds) receive(in actor.Incoming) {
	var r rest
	if err := wire.Unmarshal(in.Envelope.Ext, &r); err != nil || r.Home == "" || !r.Folded {
		return
	}
	switch {
	case r.Declined:
		fs.declinedBy(r.Home, in.From.Proc)
		return
	case r.Around != 0:
		fs.around(r.Home, r.Around-1)
		return
	}
	size := len(in.Envelope.Ext) + len(in.Envelope.Body)
	c, err := r.decode(in, fs.place.Extent.NumRanks())
	if err != nil {
		log := fs.p.Log()
		log.Warn().Err(err).Stringer("from", in.From).Msg("an answer that cannot be folded")
		return
	}
	fs.change(r.Home, func(f *fold) {
		switch {
		case f.declined:
			fs.decline(r.Home, in.From)
		case f.st == nil && (len(f.early) == maxEarly || fs.early+size > earlySize):
			fs.refuse(r.Home, f)
			fs.decline(r.Home, in.From)
		case f.st == nil:
			f.from, f.size = append(f.from, in.From), f.size+size
			fs.early += size
			fallthrough
		default:
			f.take(c)
		}
	})
}

// refuse gives up waiting for a cast that answers came to: they go past this process. The lock is held.
func (fs *folds) refuse(cast string, f *fold) {
	for _, from := range f.from {
		fs.decline(cast, from)
	}
	fs.early -= f.size
	f.declined, f.early, f.from, f.size = true, nil, nil, 0
	f.timer.Reset(actor.DefaultDeadline)
}

// decline sends who answered past this process. The lock is held.
func (fs *folds) decline(cast string, to subjects.ActorID) {
	ext := encode(rest{Home: cast, Folded: true, Declined: true})
	fs.wg.Go(func() { fs.p.AnswerWith(routerActor, to.Port(foldPort), actor.Answer{}, ext) })
}

// expect starts a job.
func (fs *folds) expect(j job) *fold {
	return fs.change(j.cast, func(f *fold) {
		if f.st != nil {
			return
		}
		fs.early -= f.size
		f.begin(j)
		if d := fs.patience(j) - f.laps(); d > 0 {
			f.timer.Reset(d)
		} else {
			f.timer.Reset(actor.DefaultDeadline)
		}
		if j.tell > 0 && j.hi-j.lo > 1 {
			f.telling = time.AfterFunc(j.tell, func() { fs.tell(f) })
		}
		for _, l := range j.tree.ended(fs.p) { // who died before the cast was here sends nothing any more
			f.st.fail(failure{ranks{l.ranks}, actor.EncodeError(l.err)})
		}
	})
}

// contribute takes the answer of a rank of this process.
func (fs *folds) contribute(f *fold, rank int, a actor.Answer) {
	if f.own != nil && f.own.put(rank, a) {
		fs.change(f.job.cast, func(*fold) {}) // it is gathered
	}
}

// change changes a fold that is not done, and finishes it when that completed it.
func (fs *folds) change(cast string, change func(*fold)) *fold {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return &fold{}
	}
	f, ok := fs.open[cast]
	if !ok {
		if len(fs.open) >= maxFolds && len(fs.kept) == 0 {
			log := fs.p.Log()
			log.Warn().Str("cast", cast).Int("folding", maxFolds).Msg("too many casts to fold at a time: answers are dropped")
			return &fold{}
		}
		f = &fold{}
		f.timer = time.AfterFunc(fs.wait, func() { fs.expire(cast, f) })
		fs.open[cast] = f
		fs.forget(maxFolds)
	}
	if f.done {
		return f
	}
	change(f)
	fs.look(f)
	return f
}

// look finishes a fold when that is complete.
func (fs *folds) look(f *fold) {
	if f.gather(); f.st != nil && f.st.open == 0 {
		fs.finishLocked(f)
	}
}

// unreachable fails what waits for a proc that is gone, and sends what it had to fold another way.
func (fs *folds) unreachable(id subjects.ProcID, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.open {
		switch {
		case f.done && f.to == id && f.ext != nil:
			fs.wg.Go(func() { fs.pass(f) })
		case f.done, f.st == nil:
		default:
			f.lost(id, actor.EncodeError(err))
			fs.look(f)
		}
	}
}

// expire ends the patience with a cast, and later forgets it.
func (fs *folds) expire(cast string, f *fold) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	switch {
	case fs.closed || fs.open[cast] != f:
	case f.done || f.declined && f.st == nil:
		delete(fs.open, cast)
		if i := slices.Index(fs.kept, f); i >= 0 {
			fs.kept, fs.size = slices.Delete(fs.kept, i, i+1), fs.size-f.bytes()
		}
	case f.st == nil:
		fs.refuse(cast, f)
	case f.asks():
		fs.ask(f)
	default:
		f.gather()
		f.st.expire(actor.EncodeError(&actor.Error{Code: actor.CodeDeadline, Text: "no answer within the deadline"}))
		fs.finishLocked(f)
	}
}

// finishLocked sends what there is up. A reducer may take its time: it runs on a goroutine of its own.
func (fs *folds) finishLocked(f *fold) {
	f.done = true
	f.timer.Reset(max(f.job.ttl, time.Second)) // from now on it is only kept
	fs.wg.Go(func() { fs.send(f, fs.combine(f)) })
}

// forget drops what is done, the oldest first, until there are at most so many.
func (fs *folds) forget(most int) {
	for len(fs.kept) > 0 && (len(fs.open) > most || fs.size > maxKept) {
		f := fs.kept[0]
		fs.kept[0], fs.kept = nil, fs.kept[1:]
		fs.size -= f.bytes()
		f.timer.Stop()
		if fs.open[f.job.cast] == f {
			delete(fs.open, f.job.cast)
		}
	}
}

// send sends a contribution up, and keeps it.
func (fs *folds) send(f *fold, c contribution) {
	values, ext, err := c.encode(f.job.cast)
	if err != nil { // of values that were folded here: they are no answers
		whole := contribution{failed: append(c.failed, failure{f.st.answered(), actor.EncodeError(err)})}
		values, ext, _ = whole.encode(f.job.cast)
	}
	fs.mu.Lock()
	f.values, f.ext, f.st = values, ext, nil
	if fs.open[f.job.cast] == f { // else it was forgotten while it was folded
		fs.kept, fs.size = append(fs.kept, f), fs.size+f.bytes()
		fs.forget(maxFolds)
	}
	fs.mu.Unlock()
	fs.pass(f)
	fs.answered(f.job, c)
}

// pass gives what was folded to the next above who lives.
func (fs *folds) pass(f *fold) {
	fs.mu.Lock()
	f.past = append(f.past, f.to)
	f.to = f.job.above(func(id subjects.ProcID) bool {
		return over(fs.p, id) || slices.Contains(f.past, id)
	})
	port := f.job.home
	if f.to.IsValid() {
		port = f.to.Actor(routerActor).Port(foldPort)
	}
	fs.mu.Unlock()
	fs.p.AnswerWith(routerActor, port, actor.Answer{Value: f.values}, f.ext)
}

// combine folds what there is in rank order (CAST-5). What cannot be folded here goes on as it is.
func (fs *folds) combine(f *fold) contribution {
	by, err := fs.reducing(f.job)
	return f.combine(by, err)
}

func (f *fold) combine(by reducing, err error) contribution {
	c := contribution{failed: f.st.failures()}
	answered := f.st.answered()
	if len(answered) == 0 {
		return c
	}
	if err == nil {
		var acc any
		if acc, err = by.each(f.st.values()); err == nil {
			c.parts = []part{{answered, actor.Answer{Value: acc}}}
			return c
		}
	} else if len(f.st.parts) > 0 && !f.st.here() {
		c.parts = f.st.parts
		return c
	}
	c.failed = append(c.failed, failure{answered, actor.EncodeError(err)})
	return c
}

// reducing is the reducer of a job.
func (fs *folds) reducing(j job) (reducing, error) {
	if j.mode == modeCollect {
		return collecting, nil
	}
	answers, err := fs.answers(j)
	if err != nil {
		return reducing{}, err
	}
	return reducerOf(j.reducer, answers)
}

// answers describes what is to be folded.
func (fs *folds) answers(j job) (answers actor.Answers, err error) {
	err = errors.New("the process has closed") // when it has no procs any more
	for _, p := range fs.p.Neighbours() {      // of which one, perhaps, runs the actor
		if answers, err = p.AnswersOf(j.actor, j.endpoint); err == nil {
			break
		}
	}
	return answers, err
}

// refuses says why a cast whose answers could not be folded is not handled; nil when they can, and when
// there is nobody to handle it, which he says.
func (fs *folds) refuses(j job) error {
	if j.mode != modeFold {
		return nil
	}
	answers, err := fs.answers(j)
	if err != nil {
		return nil
	}
	if _, err = reducerOf(j.reducer, answers); err == nil {
		return nil
	}
	return &actor.Error{
		Code: actor.CodeInvalid, Actor: j.actor, Endpoint: j.endpoint,
		Text: fmt.Sprintf("%v, and the endpoint declares none of that name", err),
	}
}

// close gives up everything that is open and waits for what is being folded.
func (fs *folds) close() {
	fs.mu.Lock()
	fs.closed = true
	for _, f := range fs.open {
		f.timer.Stop()
	}
	fs.open, fs.kept = nil, nil
	fs.mu.Unlock()
	fs.wg.Wait()
}
