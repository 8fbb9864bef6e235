package mesh

import (
	"context"
	"fmt"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh/shape"
)

// Limits of a watcher's unread events: several of each rank, and more.
const (
	unreadOfRank = 16
	unreadAtAll  = 1024
)

// backlog holds a controller's events of a region that a watcher has not read yet. Thousands of
// ranks may end at one moment, and the watcher may be slow; it still gets each event.
type backlog struct {
	region shape.Region
	more   chan struct{} // holds one: there is something new

	mu     sync.Mutex // guards the fields below
	events []actor.Event
	last   actor.Event // told beside ended
	ended  error       // nothing comes any more
}

func newBacklog(region shape.Region) *backlog {
	return &backlog{region: region, more: make(chan struct{}, 1)}
}

// take stores an event of the region, by rank of the region. An overflow ends the watch, so that no
// event is lost unnoticed.
func (b *backlog) take(e actor.Event) {
	var in bool
	if e.View, in = b.region.ViewRank(e.Rank); !in {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended != nil:
	case len(b.events) >= unreadOfRank*b.region.NumRanks()+unreadAtAll:
		b.ended = fmt.Errorf("%d events of the mesh wait to be read: %w", len(b.events), actor.ErrMailboxFull)
	default:
		b.events = append(b.events, e)
	}
	b.wake()
}

// end ends the watch, once everything before is read. The first word counts.
func (b *backlog) end(last actor.Event, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended == nil {
		b.last, b.ended = last, why
	}
	b.wake()
}

func (b *backlog) wake() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// next is the next event, or the last one beside the reason why there are no more.
func (b *backlog) next(ctx context.Context) (actor.Event, error) {
	for {
		if e, err, ok := b.first(); ok {
			return e, err
		}
		select {
		case <-b.more:
		case <-ctx.Done():
			return actor.Event{}, context.Cause(ctx)
		}
	}
}

// tell yields the stored events until ctx ends or the backlog is closed.
func (b *backlog) tell(ctx context.Context, yield func(actor.Event, error) bool) {
	for {
		e, err := b.next(ctx)
		if ctx.Err() != nil || !yield(e, err) || err != nil {
			return
		}
	}
}

func (b *backlog) first() (e actor.Event, err error, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.events) > 0:
		e = b.events[0]
		b.events[0] = actor.Event{}
		b.events = b.events[1:]
		return e, nil, true
	case b.ended != nil:
		return b.last, b.ended, true
	}
	return e, nil, false
}
