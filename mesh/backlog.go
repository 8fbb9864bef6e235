package mesh

import (
	"context"
	"fmt"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh/shape"
)

// What a watcher may leave unread: several events of each rank, and more.
const (
	unreadOfRank = 16
	unreadAtAll  = 1024
)

// backlog is what a controller has said and nobody has read so far. Ranks may end by the thousand at one moment,
// and who watches may take its time: it is told of each all the same.
type backlog struct {
	region shape.Region
	more   chan struct{} // holds one: there is something new

	mu     sync.Mutex // guards the fields below
	events []actor.Event
	beat   bool  // it has said that it lives, since it was asked last
	ended  error // nothing comes any more
}

// openBacklog opens a port for what is said of a region. The function ends it.
func openBacklog(at actor.Opener, region shape.Region) (b *backlog, to actor.PortRef[actor.Event], closed func()) {
	b = &backlog{region: region, more: make(chan struct{}, 1)}
	to, closed = actor.OpenFunc(at, b.take, b.end)
	return b, to, closed
}

// take keeps an event about the region, by rank of which it is told then. One too many ends the watch: it is not to
// miss what it does not know of.
func (b *backlog) take(e actor.Event) error {
	if e.Step != agent.Beat && e.Step != agent.Fencing {
		var in bool
		if e.View, in = b.region.ViewRank(e.Rank); !in {
			return nil
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended != nil:
		return b.ended
	case e.Step == agent.Beat:
		b.beat = true
	case len(b.events) >= unreadOfRank*b.region.NumRanks()+unreadAtAll:
		b.ended = fmt.Errorf("%d events of the mesh wait to be read: %w", len(b.events), actor.ErrMailboxFull)
	default:
		b.events = append(b.events, e)
	}
	b.wake()
	return b.ended
}

func (b *backlog) end(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = why
	b.wake()
}

func (b *backlog) wake() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// next is the next event, a beat when there is nothing but that, or why there is none.
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
		return e, b.ended, true
	case b.beat:
		b.beat = false
		return actor.Event{Step: agent.Beat}, nil, true
	}
	return e, nil, false
}
