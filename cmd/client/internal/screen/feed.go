package screen

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

const (
	maxAsked      = 1024 // procs; of more, those on the screen are asked
	sampleTimeout = 5 * time.Second
	kickInterval  = 100 * time.Millisecond // between samples, after a change of what is wanted
	maxPause      = 10 * time.Second
	firstLines    = 200 // of a log
	batchInterval = 100 * time.Millisecond
	maxBatch      = 256 // events or lines at once
)

// feed brings a castnet to a screen.
type feed struct {
	ctx      context.Context
	conn     *mesh.Net
	interval time.Duration
	sampler  *inspect.Sampler
	send     func(input any)
	kick     chan struct{}  // sample soon
	logs     chan logTarget // the newest wish
	ranks    chan rankID    // likewise

	mu     sync.Mutex
	wishes wanted
	lost   map[bus.ConnName]time.Time // connections that are away, since when
	change chan struct{}              // lost has changed
}

// busClosed ends the screen: the bus does not come back.
type busClosed struct{}

func newFeed(ctx context.Context, conn *mesh.Net, o Options) *feed {
	f := &feed{
		ctx: ctx, conn: conn, interval: o.Interval, kick: make(chan struct{}, 1), logs: make(chan logTarget, 1),
		ranks: make(chan rankID, 1),
		lost:  map[bus.ConnName]time.Time{}, change: make(chan struct{}, 1),
	}
	f.sampler = &inspect.Sampler{
		Net: conn, Timeout: sampleTimeout, Only: o.Only, Ended: true, MaxAsked: maxAsked,
		Wanted:     func(mesh string, rank int) bool { return f.wish().ranks[rankID{mesh, rank}] },
		WantedHost: func(id string) bool { return f.wish().hosts[id] },
	}
	return f
}

// want replaces what the screen wants. With soon, the next sample comes soon.
func (f *feed) want(w wanted, soon bool) {
	f.mu.Lock()
	f.wishes = w
	f.mu.Unlock()
	if soon {
		signal(f.kick)
	}
}

// wish returns what the screen wants. Its maps never change.
func (f *feed) wish() wanted {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wishes
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // the receiver knows already
	}
}

// replace puts a wish in place of an older one. One goroutine alone sends to a channel.
func replace[T any](wishes chan T, newest T) {
	select {
	case <-wishes:
	default:
	}
	wishes <- newest
}

// run serves the screen until ctx ends.
func (f *feed) run() {
	unwatch := f.conn.Bus().Watch(f.noteState)
	defer unwatch()
	var serving sync.WaitGroup
	serving.Go(f.watchBus)
	serving.Go(f.sampleAgain)
	serving.Go(f.watchEvents)
	serving.Go(f.followLogs)
	serving.Go(f.askRanks)
	serving.Wait()
}

// noteState keeps the states of the connections. It is called by the bus, and never waits.
func (f *feed) noteState(s bus.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch s.Kind {
	case bus.Disconnected:
		f.lost[s.Conn] = time.Now()
	case bus.Connected, bus.Reconnected:
		delete(f.lost, s.Conn)
	default:
		return
	}
	signal(f.change)
}

// lostSince returns since when a connection is away; zero: none is.
func (f *feed) lostSince() (since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.lost {
		if since.IsZero() || at.Before(since) {
			since = at
		}
	}
	return since
}

// watchBus tells the screen of a lost bus.
func (f *feed) watchBus() {
	for {
		select {
		case <-f.change:
			since := f.lostSince()
			f.send(busEvent{since})
			if since.IsZero() {
				signal(f.kick)
			}
		case <-f.conn.Bus().Done():
			f.send(busClosed{})
			return
		case <-f.ctx.Done():
			return
		}
	}
}

// sample takes a sample.
func (f *feed) sample(ctx context.Context) (inspect.Sample, error) { return f.sampler.Sample(ctx) }

// sampleAgain samples at intervals.
func (f *feed) sampleAgain() {
	var took time.Duration
	for f.pause(took) {
		if !f.lostSince().IsZero() {
			continue // the screen says so
		}
		began := time.Now()
		l, err := f.sample(f.ctx)
		took = max(0, time.Since(began)-l.Waited()) // silent procs cost nothing
		if f.ctx.Err() != nil {
			return
		}
		if err != nil {
			took = 0 // it only waited
			f.send(sampleFailed{err})
		} else {
			f.send(sampleEvent{l})
		}
	}
}

// pause waits for the next sample: for four times what the last one took, up to maxPause, and at
// least the interval (SCR-2). A kick shortens the interval. It returns false when ctx ends.
func (f *feed) pause(took time.Duration) bool {
	began := time.Now()
	rest := min(4*took, maxPause)
	timer := time.NewTimer(max(f.interval, rest))
	defer timer.Stop()
	for {
		select {
		case <-f.kick:
			timer.Reset(min(max(f.interval, rest), max(kickInterval, rest)) - time.Since(began))
		case <-timer.C:
			return true
		case <-f.ctx.Done():
			return false
		}
	}
}

// watchEvents passes past failures and new events on.
func (f *feed) watchEvents() {
	pick := inspect.EventFilter{}
	watch, err := inspect.WatchEvents(f.conn, pick) // before the query, so that no event is lost in between
	if err != nil {
		f.send(noteEvent("no events: " + err.Error()))
		return
	}
	defer watch.Close()
	asking, cancel := context.WithTimeout(f.ctx, sampleTimeout)
	past, err := inspect.PastFailures(asking, f.conn, pick)
	if err == nil {
		f.send(newsEvent(past))
	} else {
		f.send(noteEvent("past failures are not known: " + err.Error()))
	}
	hosts, err := f.conn.AllHosts(asking)
	cancel()
	if err == nil {
		defer watch.WatchHosts(f.ctx, hosts, pick)()
	} else {
		f.send(noteEvent("changes of hosts do not show: " + err.Error()))
	}
	for {
		select {
		case e := <-watch.Events:
			f.send(newsEvent(drain(watch.Events, e)))
			if n := watch.Lost.Swap(0); n > 0 {
				f.send(noteEvent(fmt.Sprintf("%d events were lost: they came faster than they were read", n)))
			}
			signal(f.kick)
		case <-f.ctx.Done():
			return
		}
	}
}

// drain returns an item and those that wait behind it.
func drain[T any](from <-chan T, first T) []T {
	all := []T{first}
	for len(all) < maxBatch {
		select {
		case v := <-from:
			all = append(all, v)
		default:
			return all
		}
	}
	return all
}

// askRanks asks for the details of open ranks.
func (f *feed) askRanks() {
	for {
		select {
		case id := <-f.ranks:
			f.send(f.rank(id))
		case <-f.ctx.Done():
			return
		}
	}
}

// rank asks for the details of a rank.
func (f *feed) rank(id rankID) detailEvent {
	ctx, cancel := context.WithTimeout(f.ctx, sampleTimeout)
	defer cancel()
	out := detailEvent{id: id}
	m, err := f.conn.Lookup(ctx, id.mesh)
	if err == nil {
		out.info, err = inspect.Rank(ctx, f.conn, m, id.rank)
	}
	out.err = err
	return out
}

// followLogs follows one log at a time.
func (f *feed) followLogs() {
	end := func() {}
	for {
		select {
		case of := <-f.logs:
			end()
			end = func() {}
			if of != (logTarget{}) {
				end = f.followLog(of)
			}
		case <-f.ctx.Done():
			end()
			return
		}
	}
}

// followLog passes lines on until the returned function is called.
func (f *feed) followLog(of logTarget) (end func()) {
	ctx, cancel := context.WithCancel(f.ctx)
	var following sync.WaitGroup
	following.Go(func() {
		if err := f.passLines(ctx, of); err != nil && ctx.Err() == nil {
			f.send(linesEvent{of: of, err: err})
		}
	})
	return func() {
		cancel()
		following.Wait()
	}
}

// passLines passes the lines of a log on, a batch at a time.
func (f *feed) passLines(ctx context.Context, of logTarget) error {
	asking, cancel := context.WithTimeout(ctx, sampleTimeout)
	m, err := f.conn.Lookup(asking, of.mesh)
	cancel()
	if err != nil {
		return err
	}
	region := m
	if of.rank >= 0 && m.Extent().NumRanks() > 1 {
		region = m.Select(of.point)
	}
	logs, err := inspect.FollowLogs(ctx, region, firstLines)
	if err != nil {
		return err
	}
	defer logs.Close()
	extent := m.Describe().Extent
	batches := time.NewTicker(batchInterval)
	defer batches.Stop()
	for {
		select {
		case l := <-logs.Lines:
			var lines []logLine
			for _, l := range drain(logs.Lines, l) {
				one := logLine{at: l.Time, point: l.Ranks, text: l.Text, bad: l.Stream == "stderr" || l.Rank < 0}
				if l.Count <= 1 && l.Rank >= 0 {
					one.point = inspect.Point(extent, l.Rank)
				}
				if many := l.Multiplicity(); many != "" {
					one.text = many + " " + one.text
				}
				lines = append(lines, one)
			}
			f.send(linesEvent{of: of, lines: lines})
		case <-ctx.Done():
			return nil
		}
		select {
		case <-batches.C:
		case <-ctx.Done():
			return nil
		}
	}
}
