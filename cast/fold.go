package cast

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// maxFolds bounds how many casts one proc folds at a time; answers to more are dropped, and logged.
const maxFolds = 4096

// job is what a folder has to do for one cast.
type job struct {
	home            subjects.PortID
	actor, endpoint string
	reducer         string
	ranks           []int // whose answers, ascending view ranks
	region          shape.Region
	ttl             time.Duration
}

// folding is one cast being folded. Answers may come before the cast itself: they travel on other
// links.
type folding struct {
	job   job
	known bool // the job is set
	got   map[int]actor.Answer
	timer *time.Timer
}

// put keeps the first answer of a rank that is meant; before that is known, of at most so many.
func (f *folding) put(rank int, a actor.Answer, most int) {
	_, dup := f.got[rank]
	if meant := slices.Contains(f.job.ranks, rank); !dup && (meant || !f.known && len(f.got) < most) {
		f.got[rank] = a
	}
}

// complete reports whether every answer is there.
func (f *folding) complete() bool {
	if !f.known {
		return false
	}
	for _, r := range f.job.ranks {
		if _, ok := f.got[r]; !ok {
			return false
		}
	}
	return true
}

// folds is the folding side of a router.
type folds struct {
	p     *actor.Proc
	place Placement
	wg    sync.WaitGroup // goroutines that fold

	mu     sync.Mutex
	open   map[string]*folding // by home
	closed bool
}

func newFolds(p *actor.Proc, place Placement) *folds {
	return &folds{p: p, place: place, open: map[string]*folding{}}
}

// receive takes an answer from another proc of this host, on a pump.
func (fs *folds) receive(in actor.Incoming) {
	var r rest
	if err := wire.Unmarshal(in.Envelope.Ext, &r); err != nil || r.Home == "" {
		return
	}
	fs.contribute(r.Home, r.Rank, in.Answer())
}

// expect starts a job, or completes one whose first answers came before it.
func (fs *folds) expect(j job) {
	fs.update(j.home.String(), func(f *folding) {
		f.job, f.known = j, true
		if d := patience(j.ttl); d > 0 {
			f.timer.Reset(d)
		}
		for _, rank := range j.ranks { // who died before the cast was here sends nothing any more
			if base, err := j.region.BaseRank(rank); err == nil {
				if e, dead := fs.p.Down(fs.place.Proc(base)); dead {
					f.put(rank, actor.Answer{Err: gone(e)}, 0)
				}
			}
		}
	})
}

// patience is how long a folder waits: less than the caller does, so that what there is gets home
// in time.
func patience(ttl time.Duration) time.Duration {
	return ttl - min(ttl/5, 250*time.Millisecond)
}

func (fs *folds) contribute(home string, rank int, a actor.Answer) {
	fs.update(home, func(f *folding) { f.put(rank, a, fs.place.PerHost) })
}

// unreachable fails what waits for a proc that is gone.
func (fs *folds) unreachable(id subjects.ProcID, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for home, f := range fs.open {
		if view, in := fs.place.view(f.job.region, id); f.known && in {
			f.put(view, actor.Answer{Err: err}, 0)
			if f.complete() {
				fs.finishLocked(home, f)
			}
		}
	}
}

// update changes one folding and finishes it when that completed it.
func (fs *folds) update(home string, change func(*folding)) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return
	}
	f, ok := fs.open[home]
	if !ok {
		if len(fs.open) >= maxFolds {
			log := fs.p.Log()
			log.Warn().Str("home", home).Int("folding", maxFolds).Msg("too many casts to fold at a time: answer dropped")
			return
		}
		f = &folding{got: map[int]actor.Answer{}}
		f.timer = time.AfterFunc(actor.DefaultDeadline, func() { fs.expire(home, f) })
		fs.open[home] = f
	}
	change(f)
	if f.complete() {
		fs.finishLocked(home, f)
	}
}

func (fs *folds) expire(home string, f *folding) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed || fs.open[home] != f {
		return
	}
	fs.finishLocked(home, f)
}

func (fs *folds) finishLocked(home string, f *folding) {
	f.timer.Stop()
	delete(fs.open, home)
	if f.known {
		fs.wg.Go(func() { fs.finish(f) })
	}
}

// finish folds and answers home, on a goroutine of its own: a reducer may take its time.
func (fs *folds) finish(f *folding) {
	r := rest{Folded: true}
	var answered []int
	values := make([]actor.Answer, 0, len(f.job.ranks))
	for _, rank := range f.job.ranks {
		a, ok := f.got[rank]
		if !ok {
			a.Err = &actor.Error{Code: actor.CodeDeadline, Text: "no answer within the deadline"}
		}
		if a.Err != nil {
			r.Failed = append(r.Failed, failure{rank, actor.EncodeError(a.Err)})
			continue
		}
		answered = append(answered, rank)
		values = append(values, a)
	}
	r.Answered = spans(answered)
	v, err := fs.combine(f.job, values)
	fs.p.AnswerWith(routerActor, f.job.home, actor.Answer{Value: v, Err: err}, encode(r))
}

// combine folds answers in rank order (CAST-5).
func (fs *folds) combine(j job, values []actor.Answer) (any, error) {
	answers, err := fs.p.AnswersOf(j.actor, j.endpoint)
	if err != nil {
		return nil, err
	}
	fold, ok := answers.Fold(j.reducer)
	if !ok {
		if fold, ok = builtins[j.reducer]; !ok {
			return nil, fmt.Errorf("endpoint %s declares no reducer %q", j.endpoint, j.reducer)
		}
	}
	var acc any
	for i, a := range values {
		v, err := answers.Open(a)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			acc = v
		} else if acc, err = fold(acc, v); err != nil {
			return nil, err
		}
	}
	return acc, nil
}

// close gives up everything that is open and waits for what is being folded.
func (fs *folds) close() {
	fs.mu.Lock()
	fs.closed = true
	for _, f := range fs.open {
		f.timer.Stop()
	}
	fs.open = nil
	fs.mu.Unlock()
	fs.wg.Wait()
}
