package mesh

import (
	"context"
	"fmt"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// Limits of a watcher's unread events: several of each rank, plus a constant.
const (
	unreadOfRank = 16
	unreadAtAll  = 1024
)

// backlog holds a controller's events of a region that a watcher has not read yet. Thousands of
// ranks may end at one moment, and the watcher may be slow; it still gets each event.
type backlog struct {
	region shape.Region
	more   chan struct{} // holds one signal: events or the end are new

	mu     sync.Mutex // guards the fields below
	events []actor.Event
	last   actor.Event // returned with ended
	ended  error       // the end of the watch; nil: it goes on
}

func newBacklog(region shape.Region) *backlog {
	return &backlog{region: region, more: make(chan struct{}, 1)}
}

// take stores an event of the region, by rank of the region. An overflow ends the watch, so that no
// event is lost unnoticed.
func (b *backlog) take(e actor.Event) {
	view, in := b.region.ViewRank(e.Rank)
	if !in {
		return
	}
	e.View = view
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended != nil:
	case len(b.events) >= unreadOfRank*b.region.NumRanks()+unreadAtAll:
		b.ended = fmt.Errorf("the watch has %d unread events: %w", len(b.events), actor.ErrMailboxFull)
	default:
		b.events = append(b.events, e)
	}
	b.wake()
}

// end ends the watch after the stored events. Only the first call has an effect.
func (b *backlog) end(last actor.Event, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended == nil {
		b.last = last
		b.ended = why
	}
	b.wake()
}

func (b *backlog) wake() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// next returns the next event, or the last event with the error that ended the watch.
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

// tell yields the events until ctx or the watch ends.
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
	if len(b.events) > 0 {
		e = b.events[0]
		b.events[0] = actor.Event{}
		b.events = b.events[1:]
		return e, nil, true
	}
	return b.last, b.ended, b.ended != nil
}
