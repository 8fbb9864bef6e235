package cast

import (
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// sent is who has sent a cast, and its number; 0 when it came to this process alone.
type sent struct {
	from subjects.ActorID
	n    uint64
}

// job is what a process has to do for one cast.
type job struct {
	sent            sent
	home            subjects.PortID
	cast            string // home, as a text: it names the cast
	actor, endpoint string
	mode            mode
	reducer         string
	tree            tree
	lo, below, hi   int // it folds for the ranks from lo on, its own up to below, to hi
	host            int // and of those from host on, other nodes fold for it
	up              []int
	ttl             time.Duration
	tell            time.Duration // how often home wants to know how far it is; 0: never
	partly          bool          // and what is folded by then
}

// jobOf finds a process's place on the way home, by one of its ranks that are meant.
func jobOf(t tree, m mode, view int) (j job) {
	j.tree, j.mode = t, m
	path := t.path(view)
	if len(path) == 0 {
		return j
	}
	at := path[len(path)-1]
	if m == modeCollect { // what is only put in a row does not get less on the way
		at.end, path = at.below, path[len(path)-1:]
	}
	process := t.place.process(t.base(view))
	for _, n := range path {
		if t.place.process(t.base(n.first)) != process {
			j.up = append([]int{n.first}, j.up...)
		}
	}
	if t.place.process(t.base(at.first)) == process {
		j.lo, j.below, j.hi = at.first, min(t.processEnd(at.first), at.below), at.end
		j.host = at.below
		return j
	}
	j.lo = view
	for j.lo > 0 && t.place.process(t.base(j.lo-1)) == process {
		j.lo--
	}
	j.below = t.processEnd(view)
	j.host, j.hi = j.below, j.below
	return j
}

// above is the nearest folder above who lives; the zero ID: there is none but home.
func (j job) above(down func(subjects.ProcID) bool) subjects.ProcID {
	for _, view := range j.up {
		if id := j.tree.folder(view); !down(id) {
			return id
		}
	}
	return subjects.ProcID{}
}
