package cast

import (
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Who has to fold for others and says nothing, though it is not known to be dead, takes their answers along. So
// before whoever is above it gives up, it asks those below to answer past the silent one: by then that would
// have sent what it has.
//
//	below gives up ──▶ above asks around the silent ──▶ above gives up, with what came
//	               ¼                                ¾ of a margin

// margin is how much earlier a process gives up than who is above it on the way, so that what there is gets
// home in time.
func margin(ttl time.Duration) time.Duration { return min(ttl/8, 500*time.Millisecond) }

// lap is how long before it gives up a process asks around those who are silent.
func lap(ttl time.Duration) time.Duration { return margin(ttl) * 3 / 4 }

// patience is how long a process waits.
func (fs *folds) patience(j job) time.Duration {
	return j.ttl - time.Duration(len(j.up)+1)*margin(j.ttl)
}

// asks reports whether others may fold for this process, and it has not asked around them.
func (f *fold) asks() bool {
	return !f.asked && f.job.host < f.job.hi
}

// laps is how much of the patience is for that.
func (f *fold) laps() time.Duration {
	if f.asks() {
		return lap(f.job.ttl)
	}
	return 0
}

// silent are those of some nodes that nothing was heard of, and who has sent answers there, or will.
func silent(t tree, nodes []node, waits func(view int) bool) (views []int, below [][]subjects.ProcID) {
	for _, n := range nodes {
		if !waits(n.first) {
			continue
		}
		var ids []subjects.ProcID
		for _, view := range t.below(n) {
			if waits(view) {
				ids = append(ids, t.folder(view))
			}
		}
		if len(ids) > 0 {
			views, below = append(views, n.first), append(below, ids)
		}
	}
	return views, below
}

// askAround has those below silent nodes answer past them.
func askAround(p *actor.Proc, cast string, views []int, below [][]subjects.ProcID) {
	for i, view := range views {
		ext := encode(rest{Home: cast, Folded: true, Around: view + 1})
		for _, id := range below[i] {
			p.AnswerWith(routerActor, id.Actor(routerActor).Port(foldPort), actor.Answer{}, ext)
		}
	}
}

// ask asks around the silent nodes under this one, once. The lock is held.
func (fs *folds) ask(f *fold) {
	f.asked, f.st.around = true, true
	f.timer.Reset(lap(f.job.ttl))
	f.gather()
	cast := f.job.cast
	views, below := silent(f.job.tree, f.job.tree.nodes(f.job.host, f.job.hi), f.st.waits)
	fs.wg.Go(func() { askAround(fs.p, cast, views, below) })
}

// declinedBy takes the word of who was to fold what was sent there.
func (fs *folds) declinedBy(cast string, id subjects.ProcID) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.open[cast]; f != nil && f.done && f.to == id && f.ext != nil {
		fs.wg.Go(func() { fs.pass(f) })
	}
}

// around takes the word that the process of a rank is silent, which this one has sent answers to, or will.
func (fs *folds) around(cast string, view int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.open[cast]
	if f == nil || !slices.Contains(f.job.up, view) {
		return
	}
	switch id := f.job.tree.folder(view); {
	case !f.done && !slices.Contains(f.past, id):
		f.past = append(f.past, id)
	case f.done && f.to == id && f.ext != nil:
		fs.wg.Go(func() { fs.pass(f) })
	}
}

// ask asks around the silent nodes under home.
func (a *asking) ask() {
	a.around = true
	views, below := silent(a.way, a.way.roots(a.mode), func(view int) bool { return a.fates[view] == waiting })
	askAround(a.p, a.home, views, below)
}

// askLate has that done when those below have given up.
func (a *asking) askLate(ttl time.Duration) {
	if ttl == 0 {
		return
	}
	t := time.AfterFunc(ttl-lap(ttl), func() { a.post(func() { a.late = true }) })
	a.release = append(a.release, func() { t.Stop() })
}
