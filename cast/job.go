package cast

import (
	"time"

	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// castOrigin is the sender of a cast, the cast's number (0 for a direct one), and its deadline
// here.
type castOrigin struct {
	from     subjects.ActorID
	number   uint64
	deadline time.Time
}

// job is a process's work for one cast.
type job struct {
	origin          castOrigin
	replyTo         subjects.PortID
	castID          string // home, as a text: it names the cast
	actor, endpoint string
	mode            mode
	reducer         string
	by              untypedReducer // the same; zero: unknown when the cast arrived
	tree            tree
	asked, gone     shape.Ranks // as in the header
	lo, ownEnd, hi  int         // it folds for the ranks from lo on, its own up to below, to hi
	hostEnd         int         // and of those from host on, other nodes fold for it
	ancestors       []int
	ttl             time.Duration
	progressEvery   time.Duration // between two progress reports; 0: never
	partialValues   bool          // with the partial fold
}

// since is when the cast reached the process; zero: unknown.
func (j job) since() time.Time {
	if j.origin.deadline.IsZero() {
		return time.Time{}
	}
	return j.origin.deadline.Add(-j.ttl)
}

// newJob finds a process's place on the way home, by one of its addressed ranks.
func newJob(t tree, m mode, view int) (j job) {
	j.tree = t
	j.mode = m
	path := t.path(view)
	if len(path) == 0 {
		return j
	}
	at := path[len(path)-1]
	if m == modeCollect { // collected answers do not shrink on the way
		at.end = at.below
		path = path[len(path)-1:]
	}
	process := t.placement.processOf(t.base(view))
	for _, n := range path {
		if t.placement.processOf(t.base(n.first)) != process {
			j.ancestors = append([]int{n.first}, j.ancestors...)
		}
	}
	if t.placement.processOf(t.base(at.first)) == process {
		j.lo = at.first
		j.ownEnd = min(t.processEnd(at.first), at.below)
		j.hi = at.end
		j.hostEnd = at.below
		return j
	}
	j.lo = t.processStart(view)
	j.ownEnd = t.processEnd(view)
	j.hostEnd = j.ownEnd
	j.hi = j.ownEnd
	return j
}

// liveParent is the nearest live folder above; the zero ID: only the caller.
func (j job) liveParent(down func(subjects.ProcID) bool) subjects.ProcID {
	for _, view := range j.ancestors {
		if id := j.tree.aggregatorAt(view); !down(id) {
			return id
		}
	}
	return subjects.ProcID{}
}
