package agent

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// GetCasts returns the casts that run in a proc's process. Only proc agents serve it. Procs that
// share a process with another one before them return none.
var GetCasts = actor.NewEndpoint[Agent, CastsRequest, Casts]("casts", MergeCasts)

// MaxCasts bounds the casts in a request and in a reply.
const MaxCasts = 64

// CastsRequest asks for running casts. Of the named ones a process tells its part even if it has
// replied; others may still wait there.
type CastsRequest struct {
	Named []string `cbor:"1,keyasint,omitempty" json:"named,omitempty"`
}

// Check refuses an invalid request.
func (r CastsRequest) Check() error {
	if len(r.Named) > MaxCasts {
		return fmt.Errorf("%d named casts: want at most %d", len(r.Named), MaxCasts)
	}
	return nil
}

// Casts are running casts of some processes, the oldest first.
type Casts struct {
	Casts []RunningCast `cbor:"1,keyasint,omitempty" json:"casts"`
	More  int           `cbor:"2,keyasint,omitempty" json:"more,omitempty"` // that did not fit, in a process
}

// RunningCast is one cast, as some processes know it. Ranks are those of Region.
type RunningCast struct {
	ID       string        `cbor:"1,keyasint" json:"id"`
	Actor    string        `cbor:"2,keyasint" json:"actor"`
	Endpoint string        `cbor:"3,keyasint" json:"endpoint"`
	From     string        `cbor:"4,keyasint" json:"from"` // the casting actor
	Age      time.Duration `cbor:"5,keyasint,omitempty" json:"age"`
	Left     time.Duration `cbor:"6,keyasint,omitempty" json:"left"` // until its deadline
	Region   shape.Region  `cbor:"7,keyasint" json:"region"`
	Asked    shape.Ranks   `cbor:"8,keyasint,omitempty" json:"-"` // none: all
	Gone     shape.Ranks   `cbor:"9,keyasint,omitempty" json:"-"` // known to be gone before
	Answered shape.Ranks   `cbor:"10,keyasint,omitempty" json:"-"`
	Failed   shape.Ranks   `cbor:"11,keyasint,omitempty" json:"-"`
	Waiting  shape.Ranks   `cbor:"12,keyasint,omitempty" json:"-"`
}

// MergeCasts folds the parts of casts in several processes.
var MergeCasts = actor.NewReducer("casts", func(a, b Casts) (Casts, error) {
	at := map[string]int{}
	all := slices.Clone(a.Casts)
	for i, c := range all {
		at[c.ID] = i
	}
	for _, c := range b.Casts {
		if i, known := at[c.ID]; known {
			all[i] = all[i].merge(c)
		} else {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(x, y RunningCast) int {
		return cmp.Or(cmp.Compare(y.Age, x.Age), cmp.Compare(x.ID, y.ID))
	})
	more := max(0, len(all)-MaxCasts)
	return Casts{Casts: all[:len(all)-more], More: max(a.More, b.More) + more}, nil
})

func (c RunningCast) merge(o RunningCast) RunningCast {
	c.Age = max(c.Age, o.Age)
	c.Left = min(c.Left, o.Left)
	c.Gone = shape.UnionOf(c.Gone, o.Gone)
	c.Answered = shape.UnionOf(c.Answered, o.Answered)
	c.Failed = shape.UnionOf(c.Failed, o.Failed)
	c.Waiting = shape.UnionOf(c.Waiting, o.Waiting)
	return c
}
