package mesh

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// A watch subscribes to the events of a mesh, then lists the latest state of each rank, and merges
// both (rankStates). It lists again after a reconnection, after a gap in the numbers of events, and
// at every interval. A list is answered by the watched party, so it also shows that the party
// lives.

// A watched party is asked this many times per controller timeout, and at least every 3 s.
const (
	listsPerTimeout = 8
	maxListInterval = 3 * time.Second
)

// listInterval is the time between two lists of a program.
func listInterval(n *Net) time.Duration {
	return min(config.SupervisionControllerTimeout.Get(n.config)/listsPerTimeout, maxListInterval)
}

// source is where a watch learns of ranks. Equal sources of a Net share a feed.
type source interface {
	// subscribe passes events to hear until cancel is called. It calls relist if some may be lost.
	// hear and relist do not block.
	subscribe(hear func(actor.Event), relist func()) (cancel func(), err error)
	// list returns the latest events of ranks after a version. known returns a copy of the present
	// states. A *ControllerError means that the watched party is gone.
	lister
	// watched is the party that the watch reports as lost after a silence.
	watched() subjects.ActorID
}

// watchTarget is a region under watch.
type watchTarget struct {
	net    *Net
	extent shape.Extent // of the whole mesh; none: events have their Point
	region shape.Region
	mesh   string // the ID of the mesh of procs; "": hosts
	actors string // the name of the actors; "": procs or hosts
	bad    error
	find   func(context.Context) (source, error)

	controllers []subjects.ActorID // the controllers whose failures the watch reports
	leftover    lister             // lists the ranks without their controller; nil: nothing does
}

// lister is the listing half of a source.
type lister interface {
	list(ctx context.Context, after uint64, known func() rankStates) (eventList, error)
}

// from returns a find function with a known result.
func from(s source) func(context.Context) (source, error) {
	return func(context.Context) (source, error) { return s, nil }
}

// changes streams the events of the region, each with the rank in the region. When the watched
// party is gone, the last event reports it, beside a *ControllerError.
// Inlined, it would be compiled again with each ActorMesh.
//
//go:noinline
func (w watchTarget) changes(ctx context.Context) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		if w.bad != nil {
			yield(actor.Event{}, w.bad)
			return
		}
		for _, c := range w.controllers {
			w.net.controllers.watched.noteWatched(w.net.proc.ID(), c)
		}
		from, err := w.find(ctx)
		if err != nil {
			if ctx.Err() == nil {
				yield(actor.Event{}, fmt.Errorf("watch: %w", err))
			}
			return
		}
		me, leave := w.net.feeds.join(w, from)
		defer leave()
		me.yieldAll(ctx, yield)
	}
}

// ends yields the ends among changes, and the final error.
func ends(changes iter.Seq2[actor.Event, error]) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		for e, err := range changes {
			if (err != nil || e.Terminal()) && !yield(e, err) {
				return
			}
		}
	}
}

// feeds are the feeds of a Net, by source.
type feeds struct {
	mu  sync.Mutex // guards by; taken before that of a feed
	all map[source]*feed
}

// join starts the watch of a region; leave ends it.
func (fs *feeds) join(w watchTarget, from source) (me *watcher, leave func()) {
	me = newWatcher(w.extent, w.region)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.all[from]
	if f == nil || !f.add(me) {
		f = newFeed(w, from)
		f.add(me)
		if fs.all == nil {
			fs.all = map[source]*feed{}
		}
		fs.all[from] = f
		go f.run()
	}
	return me, func() { fs.leave(f, me) }
}

// leave ends a watch. The last one stops the feed and waits.
func (fs *feeds) leave(f *feed, w *watcher) {
	fs.mu.Lock()
	last := f.drop(w)
	if last && fs.all[f.source] == f {
		delete(fs.all, f.source)
	}
	fs.mu.Unlock()
	if last {
		f.stop()
		<-f.done
	}
}

// feed follows one source for all its watchers.
type feed struct {
	net      *Net
	source   source
	leftover lister        // see watchTarget
	watchdog time.Duration // the longest silence of the watched party
	interval time.Duration
	due      chan struct{} // holds one signal: a list is due
	ctx      context.Context
	stop     context.CancelFunc
	done     chan struct{} // closed once run has returned

	mu       sync.Mutex // guards the fields below
	ranks    rankStates
	watchers map[*watcher]bool
	closed   error // the end of the feed; nil: it goes on
}

func newFeed(w watchTarget, from source) *feed {
	watchdog := config.SupervisionControllerTimeout.Get(w.net.config)
	f := &feed{
		net: w.net, source: from, leftover: w.leftover, watchdog: watchdog, interval: listInterval(w.net),
		due:      make(chan struct{}, 1),
		done:     make(chan struct{}),
		ranks:    rankStates{mesh: w.mesh, actors: w.actors, latest: map[int]actor.Event{}},
		watchers: map[*watcher]bool{},
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// add sends a watcher the earlier ends at once, then later changes; false: the feed has ended.
func (f *feed) add(w *watcher) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed != nil {
		return false
	}
	f.watchers[w] = true
	for _, e := range f.ranks.ends() {
		w.enqueue(e)
	}
	return true
}

// drop removes a watcher, and reports whether it was the last one.
func (f *feed) drop(w *watcher) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, w)
	return len(f.watchers) == 0
}

// run subscribes, and lists until the last watcher leaves or the feed ends.
func (f *feed) run() {
	defer close(f.done)
	cancel, err := f.source.subscribe(func(e actor.Event) { f.apply(e) }, func() { signal(f.due) })
	if err != nil {
		f.close(actor.Event{}, fmt.Errorf("watch: %w", err))
		return
	}
	defer cancel()
	defer context.AfterFunc(f.net.ctx, func() {
		f.close(actor.Event{}, fmt.Errorf("watch: %w", f.net.endCause()))
	})()
	heard := time.Now()
	for unanswered := 0; ; {
		err := f.list()
		if f.ctx.Err() != nil {
			return
		}
		gone, lost := errors.AsType[*ControllerError](err)
		if err == nil {
			heard = time.Now()
			unanswered = 0
		} else {
			unanswered++
		}
		// One unanswered list is no evidence: this program may have been suspended meanwhile.
		if !lost && unanswered > 1 && time.Since(heard) >= f.watchdog {
			gone = &ControllerError{f.source.watched(), err}
			lost = true
		}
		if lost {
			f.listLeftover()
			f.close(controllerLostEvent(gone.Controller, gone.Err), gone)
			return
		}
		f.await()
	}
}

// await waits until the next list is due: at the next beat, or soon after a signal. All watchers
// miss the same event at one moment, so each waits another part of that time.
func (f *feed) await() {
	wait := f.interval
	select {
	case <-f.due:
		wait = rand.N(f.interval/listsPerTimeout + 1)
	case <-time.After(wait):
		return
	case <-f.ctx.Done():
		return
	}
	select {
	case <-time.After(wait):
	case <-f.ctx.Done():
	}
}

// list asks for the latest events of ranks, and merges them.
func (f *feed) list() error {
	ctx, cancel := context.WithTimeout(f.ctx, f.watchdog/2)
	defer cancel()
	for {
		page, err := f.source.list(ctx, f.version(), f.known)
		if err != nil {
			return err
		}
		f.apply(page)
		if !page.more {
			return nil
		}
	}
}

// listLeftover merges the ends that hosts and procs report after the loss of the controller.
func (f *feed) listLeftover() {
	if f.leftover != nil {
		l, _ := f.leftover.list(f.ctx, 0, f.known) // silent ones have reported no end
		f.apply(l)
	}
}

// version is that of the last list, or of later events without a gap.
func (f *feed) version() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ranks.version
}

// known returns a copy of the present states.
func (f *feed) known() rankStates {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ranks.clone()
}

// apply merges an event or a list, and tells the watchers of the changes.
func (f *feed) apply(arrived any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed != nil {
		return
	}
	changes, behind := f.ranks.step(arrived)
	for _, e := range changes {
		if e.Step == agent.StepFenced {
			f.closeLocked(e, &ControllerError{f.source.watched(), fencedBy(e)})
			return
		}
		for w := range f.watchers {
			w.enqueue(e)
		}
	}
	if behind {
		signal(f.due)
	}
}

// fencedBy is the error of a controller that lost its mesh.
func fencedBy(e actor.Event) error {
	if by := agent.FencedFromEvent(e); by != nil {
		return by
	}
	return errors.New(e.Reason)
}

// close ends every watch, with a last event if there is one.
func (f *feed) close(last actor.Event, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closeLocked(last, why)
}

func (f *feed) closeLocked(last actor.Event, why error) {
	if f.closed != nil {
		return
	}
	f.closed = why
	f.stop()
	for w := range f.watchers {
		w.close(last, why)
	}
}

// signal wakes the reader of a channel with one place.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Limits of a watcher's unread events: several of each rank, plus a constant.
const (
	unreadOfRank = 16
	unreadAtAll  = 1024
)

// watcher holds the events of a region that its reader has not read yet. Thousands of ranks may end
// at one moment, and the reader may be slow; it still gets each event.
type watcher struct {
	extent shape.Extent
	region shape.Region
	whole  bool          // the region is the mesh: added ranks belong to it
	more   chan struct{} // holds one signal: events or the end are new

	mu     sync.Mutex // guards the fields below
	ranks  int        // of the region, as far as events name them
	events []actor.Event
	last   actor.Event // returned with ended
	ended  error       // the end of the watch; nil: it goes on
}

func newWatcher(extent shape.Extent, region shape.Region) *watcher {
	return &watcher{
		extent: extent, region: region, whole: region.Equal(extent.Region()), ranks: region.NumRanks(),
		more: make(chan struct{}, 1),
	}
}

// enqueue stores an event of the region, by rank of the region. An overflow ends the watch, so that
// no event is lost unnoticed.
func (w *watcher) enqueue(e actor.Event) {
	view := e.Rank
	if !w.whole {
		var in bool
		view, in = w.region.ViewRank(e.Rank)
		if !in {
			return
		}
	}
	e.View = view
	if p, err := w.extent.Point(e.Rank); err == nil && e.Point == "" {
		e.Point = p.String()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ranks = max(w.ranks, view+1)
	switch {
	case w.ended != nil:
	case len(w.events) >= unreadOfRank*w.ranks+unreadAtAll:
		w.ended = fmt.Errorf("the watch has %d unread events: %w", len(w.events), actor.ErrMailboxFull)
	default:
		w.events = append(w.events, e)
	}
	signal(w.more)
}

// close ends the watch after the stored events. Only the first call has an effect.
func (w *watcher) close(last actor.Event, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == nil {
		w.last = last
		w.ended = why
	}
	signal(w.more)
}

// next returns the next event, or the last event with the error that ended the watch.
func (w *watcher) next(ctx context.Context) (actor.Event, error) {
	for {
		if e, err, ok := w.dequeue(); ok {
			return e, err
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			return actor.Event{}, context.Cause(ctx)
		}
	}
}

func (w *watcher) dequeue() (e actor.Event, err error, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) > 0 {
		e = w.events[0]
		w.events[0] = actor.Event{}
		w.events = w.events[1:]
		return e, nil, true
	}
	return w.last, w.ended, w.ended != nil
}

// yieldAll yields the events until ctx or the watch ends.
func (w *watcher) yieldAll(ctx context.Context, yield func(actor.Event, error) bool) {
	for {
		e, err := w.next(ctx)
		if ctx.Err() != nil || !yield(e, err) || err != nil {
			return
		}
	}
}

// listen passes the events of a subject to hear, and calls relist after a reconnection.
func listen(
	p *actor.Proc, subject string, hear func(actor.Event), relist func(),
) (cancel func(), err error) {
	sub, err := p.Bus().Control().Subscribe(subject, func(m bus.Msg) {
		if e, err := actor.DecodeEventFrom(p.Space(), m); err == nil { // else a list replaces it
			hear(e)
		}
	})
	if err != nil {
		return nil, err
	}
	unwatch := p.Bus().Watch(func(s bus.State) {
		if s.Kind == bus.Reconnected {
			relist()
		}
	})
	return func() {
		unwatch()
		_ = sub.Unsubscribe() // an error means that the connection, and thus the subscription, is gone
	}, nil
}

// controllerSource is the source of a mesh with a controller. The controller numbers its events,
// and keeps the latest one of each rank.
type controllerSource struct {
	net    *Net
	owner  subjects.ActorID
	mesh   subjects.MeshID
	actors string // the name of its actors; "": procs
}

func (s controllerSource) watched() subjects.ActorID { return s.owner }

func (s controllerSource) subscribe(hear func(actor.Event), relist func()) (cancel func(), err error) {
	subject := s.net.proc.Space().EventsBy(actor.KindRank, s.mesh, s.owner.Proc.Process())
	return listen(s.net.proc, subject, func(e actor.Event) {
		if e, in := e.ClampRanks(cast.MaxRanks); in && e.Actor == s.actors && e.Seq > 0 {
			hear(s.restore(e))
		}
	}, relist)
}

// restore returns an event on the bus as the controller keeps it.
func (s controllerSource) restore(e actor.Event) actor.Event {
	switch {
	case e.Step == agent.StepFenced:
		e.Kind = actor.KindMesh
	case s.actors != "":
		e.Kind = actor.KindActor
	default:
		e.Kind = actor.KindProc
	}
	return e
}

func (s controllerSource) list(ctx context.Context, after uint64, _ func() rankStates) (eventList, error) {
	owner := actor.RefOf[agent.Agent](s.owner).Via(s.net.proc)
	l, err := agent.ListEvents.CallUrgent(ctx, owner, agent.ListEventsRequest{After: after})
	if isUnreachable(err) {
		err = &ControllerError{s.owner, err}
	}
	return eventList{l.Events, l.Version, l.More, l.Ranks}, err
}

// ControllerError reports that the controller of a mesh is gone and changes of ranks are no longer
// reported. No rank has failed; hosts stop the ranks when their lease expires. If another
// controller has the mesh, Err is a *agent.FencedError. For a mesh of hosts, which the program
// itself watches, it means that the program received no heartbeats.
type ControllerError struct {
	Controller subjects.ActorID
	Err        error // the evidence
}

func (e *ControllerError) Error() string {
	if f := agent.AsFenced(e.Err); f != nil {
		return fmt.Sprintf("controller %s has lost its mesh: %v", e.Controller, e.Err)
	}
	if d, ok := errors.AsType[*deafError](e.Err); ok {
		return d.Error()
	}
	return fmt.Sprintf("controller %s is gone: %v", e.Controller, e.Err)
}

func (e *ControllerError) Unwrap() error { return e.Err }

// controllerLostEvent is the event that reports the loss of a controller.
func controllerLostEvent(owner subjects.ActorID, why error) actor.Event {
	id := owner.Proc
	return actor.Event{
		Kind: actor.KindActor, Status: string(actor.Failed), Mesh: id.Mesh.String(), Rank: int(id.Rank),
		Gen: int(id.Gen), ProcIndex: int(id.Index), Actor: owner.Name, Type: "controller",
		Reason: why.Error(), At: time.Now(),
	}
}
