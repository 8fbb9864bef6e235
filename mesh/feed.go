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

// The controller of a watched mesh says that it lives so often: beats a watchdog, and at least every 5 s.
const (
	beats   = 8
	maxBeat = 5 * time.Second
)

// feeds are what the controllers of meshes tell a Net, each heard once for all who watch there (MESH-6).
type feeds struct {
	mu  sync.Mutex // guards by; taken before that of a feed
	all map[subjects.ActorID]*feed
}

// feed is what one controller says. Its goroutine listens for as long as somebody watches: the last one to leave
// stops it and waits.
type feed struct {
	net   *Net
	owner subjects.ActorID
	spoke chan struct{} // holds one: something was said
	stop  context.CancelFunc
	done  chan struct{} // closed once it has stopped

	mu       sync.Mutex    // guards the fields below
	ends     []actor.Event // so far, one of a rank, in the order in which they came: for who comes later
	ended    map[int]bool  // by rank
	watchers map[*backlog]bool
	over     error // why nothing comes any more
}

// join has a region watched. The function ends it.
func (fs *feeds) join(w watched) (said *backlog, leave func()) {
	said = newBacklog(w.region)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.all[w.owner]
	if f == nil || !f.add(said) {
		f = newFeed(w.net, w.owner)
		f.add(said)
		if fs.all == nil {
			fs.all = map[subjects.ActorID]*feed{}
		}
		fs.all[w.owner] = f
	}
	return said, func() { fs.leave(f, said) }
}

// leave ends the watch of one; the last one stops the feed.
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

func newFeed(n *Net, owner subjects.ActorID) *feed {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{
		net: n, owner: owner, spoke: make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
		ended: map[int]bool{}, watchers: map[*backlog]bool{},
	}
	go f.listen(ctx)
	return f
}

// add has a watcher told what has ended at once, and then what comes; false: nothing comes any more.
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

// drop forgets a watcher, and reports whether it was the last one.
func (f *feed) drop(b *backlog) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, b)
	return len(f.watchers) == 0
}

// take takes what the controller says. A watcher that reads too little ends by itself.
func (f *feed) take(e actor.Event) error {
	select {
	case f.spoke <- struct{}{}:
	default:
	}
	switch e.Step {
	case agent.Beat:
		return nil
	case agent.Fencing:
		var why error = errors.New(e.Reason)
		if by := agent.FencedIn(e); by != nil {
			why = by
		}
		f.end(e, &ControllerError{f.owner, why})
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Terminal() && !f.ended[e.Rank] { // each ends once
		f.ended[e.Rank] = true
		f.ends = append(f.ends, e)
	}
	for b := range f.watchers {
		b.take(e)
	}
	return f.over
}

// end ends every watch, with a last event if there is something to tell.
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

// listen hears the controller out.
func (f *feed) listen(ctx context.Context) {
	defer close(f.done)
	owner := actor.RefOf[agent.Agent](f.owner).Via(f.net.proc)
	watchdog := config.SupervisionWatchdog.Get(f.net.config)
	beat := min(watchdog/beats, maxBeat)
	port, closed := actor.OpenFunc(f.net.proc, f.take, func(why error) { f.end(actor.Event{}, why) })
	defer closed()
	switch _, err := agent.Streaming.Call(ctx, owner, agent.Stream{To: port, Beat: beat}); {
	case gone(err):
		f.end(blamed(f.owner, err), &ControllerError{f.owner, err})
		return
	case err != nil:
		f.end(actor.Event{}, fmt.Errorf("watch: %w", err))
	default:
		f.attend(ctx, owner, beat, watchdog)
	}
	// An owner that is gone tells nobody any more.
	_ = agent.Streaming.Post(context.WithoutCancel(ctx), owner, agent.Stream{To: port, End: true})
}

// attend makes sure that the controller lives. One that is silent for two beats is asked; until the watchdog has had
// enough, no answer means nothing (MESH-12).
func (f *feed) attend(ctx context.Context, owner actor.Ref[agent.Agent], beat, watchdog time.Duration) {
	for silent := time.Duration(0); ; silent += 2 * beat {
		select {
		case <-ctx.Done():
			return
		case <-f.spoke:
			silent = -2 * beat
			continue
		case <-time.After(2 * beat):
		}
		ask, cancel := context.WithTimeout(ctx, beat)
		_, err := agent.Ping.Call(ask, owner, actor.None{})
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			silent = -2 * beat // it lives; what it said may be on its way
		case gone(err) || silent+2*beat >= watchdog:
			f.end(blamed(f.owner, err), &ControllerError{f.owner, err})
			return
		}
	}
}

// blamed is the event that blames a controller.
func blamed(owner subjects.ActorID, why error) actor.Event {
	id := owner.Proc
	return actor.Event{
		Kind: actor.KindActor, Status: string(actor.Failed), Mesh: id.Mesh.String(), Rank: int(id.Rank), Gen: int(id.Gen), Seat: int(id.Seat),
		Actor: owner.Name, Type: "controller", Reason: why.Error(), At: time.Now(),
	}
}
