package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// The controller of a watched mesh says that it lives so often: beats a watchdog, and at least every 5 s.
const (
	beats   = 8
	maxBeat = 5 * time.Second
)

// askAfter is how long after something has happened to a mesh its controller is asked what has ended: by then that has come
// among the data, unless they are held up.
const askAfter = time.Second

// severedFor is how long a program whose connections have ended may be silent before it is gone: it may connect again.
const severedFor = 5 * time.Second

// feeds are what the controllers of meshes tell a Net, each heard once for all who watch there (MESH-6).
type feeds struct {
	mu  sync.Mutex // guards by; taken before that of a feed
	all map[subjects.ActorID]*feed
}

// feed is what one controller says. Its goroutine listens for as long as somebody watches: the last one to leave
// stops it and waits.
type feed struct {
	watched               // of who was first: the region is of no account
	spoke   chan struct{} // holds one: something was said
	stirred chan struct{} // holds one: something has happened to the mesh, as events say, which wait for no data
	stop    context.CancelFunc
	done    chan struct{} // closed once it has stopped

	mu       sync.Mutex    // guards the fields below
	ends     []actor.Event // so far, one of a rank, in the order in which they came: for who comes later
	ended    map[int]bool  // by rank
	watchers map[*backlog]bool
	over     error     // why nothing comes any more
	severed  time.Time // when servers said that the connections of the controller's program had ended; zero: they did not
}

// join has a region watched. The function ends it.
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

func newFeed(w watched) *feed {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{
		watched: w, spoke: make(chan struct{}, 1), stirred: make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
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

// take takes what the controller says: of a rank that has ended that came before, by the other lane. A watcher that reads too
// little ends by itself.
func (f *feed) take(e actor.Event) error {
	signal(f.spoke)
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
	if f.ended[e.Rank] { // each ends once
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

// signal leaves a word in a channel that holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// listen hears the controller out.
func (f *feed) listen(ctx context.Context) {
	defer close(f.done)
	deaf, err := f.subscribe(f.stirs())
	if err != nil {
		f.end(actor.Event{}, fmt.Errorf("watch: %w", err))
		return
	}
	defer deaf()
	unhint, err := presence.Severed(f.net.proc, f.owner.Proc.Mesh, f.sever)
	if err != nil {
		f.end(actor.Event{}, fmt.Errorf("watch: %w", err))
		return
	}
	defer unhint()
	owner := actor.RefOf[agent.Agent](f.owner).Via(f.net.proc)
	watchdog := config.SupervisionWatchdog.Get(f.net.config)
	port, closed := actor.OpenFunc(f.net.proc, f.take, func(why error) { f.end(actor.Event{}, why) })
	defer closed()
	if !f.attend(ctx, owner, agent.Stream{To: port, Beat: min(watchdog/beats, maxBeat)}, watchdog) {
		return
	}
	// An owner that is gone tells nobody any more.
	_ = agent.Streaming.Post(context.WithoutCancel(ctx), owner, agent.Stream{To: port, End: true})
}

// stirs is what happens to the mesh. A controller in this program is not heard over a link, which something could hold up.
func (f *feed) stirs() map[string]func(actor.Event) {
	to := map[string]func(actor.Event){}
	for _, subject := range f.events {
		if f.owner.Proc != f.net.proc.ID() {
			to[subject] = func(actor.Event) { signal(f.stirred) }
		}
	}
	return to
}

// attend subscribes, and makes sure that the controller lives and that what it says of ends arrives: it is asked for those,
// past all data, when it has been silent for two beats, and soon after something has happened to the mesh. Until the watchdog
// has had enough, no answer means nothing (MESH-12). It returns when nobody watches any more, or with false when nobody is
// there to be told so.
func (f *feed) attend(ctx context.Context, owner actor.Ref[agent.Agent], s agent.Stream, watchdog time.Duration) bool {
	quiet, late, silent := time.NewTimer(2*s.Beat), time.After(askAfter), time.Duration(0)
	defer quiet.Stop()
	for subscribed := false; ; {
		if !subscribed {
			err := subscribe(ctx, owner, s)
			subscribed = err == nil
			switch {
			case gone(err):
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
			quiet.Reset(2 * s.Beat)
			continue
		case <-f.stirred:
			if late == nil {
				late = time.After(askAfter)
			}
			continue
		case <-late:
			late = nil
		case <-quiet.C:
			subscribed = false // or it is held up: then nothing comes of it
			silent += 2 * s.Beat
			quiet.Reset(2 * s.Beat)
		}
		began := time.Now()
		err := f.ask(ctx, owner, s.Beat)
		if err != nil && f.left(began) {
			err = fmt.Errorf("%w: its connections have ended, and nothing was heard of it since: %w", actor.ErrNoProc, err)
		}
		switch {
		case ctx.Err() != nil:
			return true
		case err == nil:
			silent = 0
		case gone(err) || silent >= watchdog:
			f.end(blamed(f.owner, err), &ControllerError{f.owner, err})
			return false
		default:
			signal(f.stirred) // what has ended is still to be asked for
		}
	}
}

// sever notes that the connections of the controller's program have ended, as servers say, and has the controller asked.
func (f *feed) sever() {
	f.mu.Lock()
	f.severed = time.Now()
	f.mu.Unlock()
	signal(f.stirred)
}

// left reports whether the controller's program is gone: its connections have ended, and its process has said nothing since
// a question that began later, not even that the question has arrived. Where somebody listens to everything on the bus the
// server does not say that nobody is there.
func (f *feed) left(began time.Time) bool {
	f.mu.Lock()
	severed := f.severed
	f.mu.Unlock()
	asked := time.Since(began)
	if severed.IsZero() || time.Since(severed) < severedFor || began.Sub(severed) < askAfter/2 || asked < askAfter {
		return false // what it had said before may come a little later than the hint
	}
	peers := f.net.proc.Info().Peers
	i := slices.IndexFunc(peers, func(p actor.Peer) bool { return p.Process == f.owner.Proc.Process() })
	return i >= 0 && peers[i].Silence >= asked
}

// subscribe has the controller tell a port. One that does so already goes on (AGT-9).
func subscribe(ctx context.Context, owner actor.Ref[agent.Agent], s agent.Stream) error {
	ctx, cancel := context.WithTimeout(ctx, askAfter)
	defer cancel()
	_, err := agent.Streaming.Urge(ctx, owner, s)
	return err
}

// passes reports whether an error says nothing of the controller: something is held up, or a connection is gone for now.
func passes(err error) bool {
	for _, e := range []error{context.DeadlineExceeded, actor.ErrBacklog, actor.ErrMailboxFull, actor.ErrUnavailable, actor.ErrLinkBroken} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ask takes what has ended and did not come among the data.
func (f *feed) ask(ctx context.Context, owner actor.Ref[agent.Agent], within time.Duration) error {
	for {
		known := f.known()
		ctx, cancel := context.WithTimeout(ctx, within)
		said, err := agent.Ends.Urge(ctx, owner, agent.After{N: known})
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

// known is how many ends were told.
func (f *feed) known() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ends)
}

// blamed is the event that blames a controller.
func blamed(owner subjects.ActorID, why error) actor.Event {
	id := owner.Proc
	return actor.Event{
		Kind: actor.KindActor, Status: string(actor.Failed), Mesh: id.Mesh.String(), Rank: int(id.Rank), Gen: int(id.Gen), Seat: int(id.Seat),
		Actor: owner.Name, Type: "controller", Reason: why.Error(), At: time.Now(),
	}
}
