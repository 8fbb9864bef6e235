package mesh

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// The controller of a watched mesh sends this many heartbeats per controller timeout, and at least
// one every 3 s.
const (
	beats   = 8
	maxBeat = 3 * time.Second
)

// askAfter is the delay between an event of a mesh and the request for its ends. By then the ends
// have arrived, unless queued data delays them.
const askAfter = time.Second

// feeds are a Net's subscriptions with controllers, one for all watchers of a mesh (MESH-6).
type feeds struct {
	mu  sync.Mutex // guards by; taken before that of a feed
	all map[subjects.ActorID]*feed
}

// feed is the subscription with one controller. Its goroutine runs as long as there are watchers:
// the last one stops it and waits.
type feed struct {
	watched               // of the first watcher; its region is not used
	spoke   chan struct{} // holds one signal: a message of the controller arrived
	stirred chan struct{} // holds one signal: an event of the mesh arrived over the control connection
	stop    context.CancelFunc
	done    chan struct{} // closed once it has stopped

	mu       sync.Mutex    // guards the fields below
	ends     []actor.Event // one for each ended rank, in order of arrival, for later watchers
	ended    map[int]bool  // by rank
	watchers map[*backlog]bool
	over     error // the end of the feed; nil: it goes on
}

// join starts the watch of a region; leave ends it.
func (fs *feeds) join(w watched) (said *backlog, leave func()) {
	said = newBacklog(w.region)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.all[w.owner]
	if f == nil || !f.add(said) {
		f = newFeed(w)
		f.add(said)
		if fs.all == nil {
			fs.all = map[subjects.ActorID]*feed{}
		}
		fs.all[w.owner] = f
	}
	return said, func() { fs.leave(f, said) }
}

// leave ends a watch. The last one stops the feed.
func (fs *feeds) leave(f *feed, b *backlog) {
	fs.mu.Lock()
	last := f.drop(b)
	if last && fs.all[f.owner] == f {
		delete(fs.all, f.owner)
	}
	fs.mu.Unlock()
	if last {
		f.stop()
		<-f.done
	}
}

func newFeed(w watched) *feed {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{
		watched:  w,
		spoke:    make(chan struct{}, 1),
		stirred:  make(chan struct{}, 1),
		stop:     stop,
		done:     make(chan struct{}),
		ended:    map[int]bool{},
		watchers: map[*backlog]bool{},
	}
	go f.listen(ctx)
	return f
}

// add sends a watcher the earlier ends at once, then later events; false: the feed has ended.
func (f *feed) add(b *backlog) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over != nil {
		return false
	}
	f.watchers[b] = true
	for _, e := range f.ends {
		b.take(e)
	}
	return true
}

// drop removes a watcher, and reports whether it was the last one.
func (f *feed) drop(b *backlog) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, b)
	return len(f.watchers) == 0
}

// take handles an event of the controller. An end may have arrived before, over the other
// connection. A slow watcher ends its own watch.
func (f *feed) take(e actor.Event) error {
	signal(f.spoke)
	switch e.Step {
	case agent.StepHeartbeat:
		return nil
	case agent.StepFenced:
		var why error = errors.New(e.Reason)
		if by := agent.FencedFromEvent(e); by != nil {
			why = by
		}
		f.end(e, &ControllerError{f.owner, why})
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended[e.Rank] {
		return f.over
	}
	if e.Terminal() {
		f.ended[e.Rank] = true
		f.ends = append(f.ends, e)
	}
	for b := range f.watchers {
		b.take(e)
	}
	return f.over
}

// end ends every watch, with a last event if there is one.
func (f *feed) end(last actor.Event, why error) {
	defer f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over != nil {
		return
	}
	f.over = why
	for b := range f.watchers {
		b.end(last, why)
	}
}

// signal wakes the reader of a channel with one place.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// listen receives the events of the controller until the last watcher leaves or the feed ends.
func (f *feed) listen(ctx context.Context) {
	defer close(f.done)
	deaf, err := f.subscribe(f.stirs())
	if err != nil {
		f.end(actor.Event{}, fmt.Errorf("watch: %w", err))
		return
	}
	defer deaf()
	owner := actor.RefOf[agent.Agent](f.owner).Via(f.net.proc)
	watchdog := config.SupervisionControllerTimeout.Get(f.net.config)
	port, closed := actor.OpenPortFunc(f.net.proc, f.take, func(why error) { f.end(actor.Event{}, why) })
	defer closed()
	request := agent.StreamRequest{To: port, HeartbeatInterval: min(watchdog/beats, maxBeat)}
	if !f.attend(ctx, owner, request, watchdog) {
		return
	}
	// A dead owner sends no more events.
	_ = agent.Stream.Send(context.WithoutCancel(ctx), owner, agent.StreamRequest{To: port, Cancel: true})
}

// stirs returns the handlers of the mesh's events, by subject. A controller in this program needs
// none: no link can delay its messages.
func (f *feed) stirs() map[string]func(actor.Event) {
	to := map[string]func(actor.Event){}
	for _, subject := range f.events {
		if f.owner.Proc != f.net.proc.ID() {
			to[subject] = func(actor.Event) { signal(f.stirred) }
		}
	}
	return to
}

// attend subscribes, then checks that the controller lives and its ends arrive. After a silence of
// two heartbeats, or soon after an event of the mesh, it asks for the ends over the control
// connection. Until supervision.controller-timeout, a missing reply means nothing (MESH-12). It
// returns when the last watcher leaves, or with false when the controller is gone.
func (f *feed) attend(
	ctx context.Context, owner actor.Ref[agent.Agent], s agent.StreamRequest, watchdog time.Duration,
) bool {
	quiet := time.NewTimer(2 * s.HeartbeatInterval)
	late := time.After(askAfter)
	silent := time.Duration(0)
	defer quiet.Stop()
	for subscribed := false; ; {
		if !subscribed {
			err := subscribe(ctx, owner, s)
			subscribed = err == nil
			switch {
			case isUnreachable(err):
				f.end(blamed(f.owner, err), &ControllerError{f.owner, err})
				return false
			case err == nil:
			case passes(err):
				signal(f.stirred)
			case ctx.Err() == nil:
				f.end(actor.Event{}, fmt.Errorf("watch: %w", err))
				return true
			}
		}
		select {
		case <-ctx.Done():
			return true
		case <-f.spoke:
			silent = 0
			quiet.Reset(2 * s.HeartbeatInterval)
			continue
		case <-f.stirred:
			if late == nil {
				late = time.After(askAfter)
			}
			continue
		case <-late:
			late = nil
		case <-quiet.C:
			subscribed = false // the subscription may be lost; a repeated one changes nothing
			silent += 2 * s.HeartbeatInterval
			quiet.Reset(2 * s.HeartbeatInterval)
		}
		err := f.ask(ctx, owner, s.HeartbeatInterval)
		switch {
		case ctx.Err() != nil:
			return true
		case err == nil:
			silent = 0
		case isUnreachable(err) || silent >= watchdog:
			f.end(blamed(f.owner, err), &ControllerError{f.owner, err})
			return false
		default:
			signal(f.stirred) // ask again
		}
	}
}

// subscribe subscribes a port with the controller. A repeated subscription changes nothing (AGT-9).
func subscribe(ctx context.Context, owner actor.Ref[agent.Agent], s agent.StreamRequest) error {
	ctx, cancel := context.WithTimeout(ctx, askAfter)
	defer cancel()
	_, err := agent.Stream.Urge(ctx, owner, s)
	return err
}

// passes reports whether an error does not show that the controller is gone: queued data delays the
// reply, or a connection is down.
func passes(err error) bool {
	for _, e := range []error{
		context.DeadlineExceeded, actor.ErrBacklog, actor.ErrMailboxFull, actor.ErrUnavailable, actor.ErrLinkBroken,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ask requests the ends that did not arrive as data.
func (f *feed) ask(ctx context.Context, owner actor.Ref[agent.Agent], within time.Duration) error {
	for {
		known := f.known()
		ctx, cancel := context.WithTimeout(ctx, within)
		said, err := agent.Ends.Urge(ctx, owner, agent.EndsRequest{N: known})
		cancel()
		if err != nil {
			return err
		}
		for _, e := range said {
			if f.take(e) != nil {
				return nil
			}
		}
		if f.known() == known {
			return nil
		}
	}
}

// known is the number of ends reported so far.
func (f *feed) known() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ends)
}

// blamed is the event that reports the loss of a controller.
func blamed(owner subjects.ActorID, why error) actor.Event {
	id := owner.Proc
	return actor.Event{
		Kind: actor.KindActor, Status: string(actor.Failed), Mesh: id.Mesh.String(), Rank: int(id.Rank),
		Gen: int(id.Gen), ProcIndex: int(id.Index), Actor: owner.Name, Type: "controller",
		Reason: why.Error(), At: time.Now(),
	}
}
