package actor

import (
	"sync/atomic"
	"time"
)

// Info is a look at one actor.
type Info struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Status  Status `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Queued  int    `json:"queued"`
	Handled uint64 `json:"handled"`

	Current string        `json:"current,omitempty"` // the endpoint whose handler runs
	For     time.Duration `json:"for,omitempty"`     // how long; up to 15 handlers of a burst before it are counted in
}

// info looks at the actor. It takes the actor's lock for a moment, and never waits for a handler.
func (in *instance) info() Info {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := Info{Name: in.name, Type: in.def.name, Status: in.state.status()}
	if in.rare != nil {
		i.Reason, i.Handled = in.event(i.Status, in.rare.end).Reason, in.rare.handled
	}
	b := in.box
	if b == nil {
		return i
	}
	claimed := b.claimed.Load()
	if in.over {
		claimed = b.seized
	} else {
		i.Queued = b.queued + int(b.total-claimed)
	}
	i.Handled = b.handled + uint64(claimed)
	if in.phase == handling && claimed > 0 {
		i.Current = b.endpointAt(claimed)
		i.For = time.Duration(in.proc.now() - b.since.Load())
	}
	return i
}

// endpointAt names the endpoint of the n-th message of the batch. The lock is held.
func (b *mailbox) endpointAt(n uint32) string {
	for _, r := range b.taken {
		if n <= uint32(r.n) {
			return r.lane.bound().name
		}
		n -= uint32(r.n)
	}
	return ""
}

// counts are what a lane counts.
type counts struct {
	handled uint64 // guarded by the lock
	failed  atomic.Uint64
	waited  timing // guarded by the lock
	ran     timing // guarded by the lock
}

// timing sums up durations that were sampled.
type timing struct {
	n          uint64
	total, max time.Duration
}

func (t *timing) add(d time.Duration) {
	t.n++
	t.total += d
	t.max = max(t.max, d)
}

// Actor looks at one actor; false when the proc never had one of that name.
func (p *Proc) Actor(name string) (Info, bool) {
	in := p.find(name)
	if in == nil {
		return Info{}, false
	}
	return in.info(), true
}

// Actors looks at every actor of the proc, the ended ones included, in no order.
func (p *Proc) Actors() []Info {
	all := p.directory.all()
	infos := make([]Info, len(all))
	for i, in := range all {
		infos[i] = in.info()
	}
	return infos
}
