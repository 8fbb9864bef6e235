package presence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// echoes is the kind of what a watcher sends to itself.
const echoes = "echo"

// What others can cause is logged this often at most.
const (
	noisyBurst  = 20
	noisyPeriod = 10 * time.Second
)

// Watcher watches hosts for one process.
type Watcher struct {
	proc  *actor.Proc
	self  string         // the process
	mark  uint64         // of its own echoes: a process may have another watcher
	loud  zerolog.Logger // thinned out, for what others can cause
	began time.Time
	life  context.Context // until Close
	end   context.CancelFunc
	tasks sync.WaitGroup
	kick  chan struct{} // there is something to do
	subs  []*bus.Sub
	inbox *bus.Inbox // one for beats and echoes: an echo says that what came before was heard
	lost  uint64     // what had no room there, as of the last echo; of its pump
	deaf  func()     // to the states of the connection

	telling sync.Mutex // held while functions are called, so that cancel waits for them

	mu      sync.Mutex // guards the fields below
	core    *core
	do      effects
	watches []*watch
	count   map[subjects.HostID]int // of watches
	pending []Change                // one for a host (PRES-8)
}

// watch is a function that wants to hear of hosts.
type watch struct {
	hosts map[subjects.HostID]bool
	f     func(Change)
	told  bool // how things were when it began
	over  bool // guarded by telling
}

// New begins to listen. One Watcher is enough for a process. Its limits are those of the configuration of p as it is now.
func New(p *actor.Proc) (*Watcher, error) {
	c := agent.ConfigOf(p)
	w := &Watcher{
		proc: p, self: p.ID().Process().String(), mark: rand.Uint64(), began: time.Now(), kick: make(chan struct{}, 1), count: map[subjects.HostID]int{},
		do: effects{echo: none},
		core: newCore(limits{
			heartbeat: config.SupervisionHeartbeat.Get(c), suspect: config.SupervisionSuspect.Get(c),
			dead: config.SupervisionDead.Get(c), confirm: config.SupervisionConfirm.Get(c),
		}),
	}
	log := p.Log()
	w.loud = log.Sample(&zerolog.BurstSampler{Burst: noisyBurst, Period: noisyPeriod})
	conn := p.Bus().Control()
	w.inbox = conn.Lossy(agent.HeartbeatInbox)
	w.lost = w.inbox.Dropped()
	w.deaf = p.Bus().Watch(w.state)
	for subject, f := range map[string]func(bus.Msg){
		p.Space().Heartbeats(agent.HostBeats): w.hear,
		p.Space().Heartbeats(agent.GoneBeats): w.hint,
		p.Space().Heartbeat(echoes, w.self):   w.echo,
	} {
		sub, err := w.inbox.Subscribe(subject, f)
		if err != nil {
			w.unsubscribe()
			return nil, fmt.Errorf("watch hosts: %w", err)
		}
		w.subs = append(w.subs, sub)
	}
	w.feed(link{conn.URL() != ""})
	w.life, w.end = context.WithCancel(context.Background())
	w.tasks.Go(func() { w.run(w.life) })
	return w, nil
}

// Close ends the watcher and waits for it (PRES-10).
func (w *Watcher) Close() {
	w.unsubscribe()
	w.end()
	w.tasks.Wait()
}

func (w *Watcher) unsubscribe() {
	w.deaf()
	for _, s := range w.subs {
		_ = s.Unsubscribe() // it fails when the connection is gone: nothing comes any more either way
	}
}

// Watch calls f with the state of each of these hosts that is not alive now, or takes no procs, and then with each
// change, until cancel. It is called on the watcher's goroutine, one change after another, and must not block.
func (w *Watcher) Watch(hosts []subjects.HostID, f func(Change)) (cancel func()) {
	x := &watch{hosts: map[subjects.HostID]bool{}, f: f}
	for _, h := range hosts {
		if h.IsValid() {
			x.hosts[h] = true
		}
	}
	w.mu.Lock()
	w.watches = append(w.watches, x)
	w.mu.Unlock()
	for h := range x.hosts {
		w.hold(h, 1)
	}
	w.poke()
	return sync.OnceFunc(func() {
		w.telling.Lock()
		x.over = true
		w.telling.Unlock()
		w.mu.Lock()
		w.watches = slices.DeleteFunc(w.watches, func(y *watch) bool { return y == x })
		w.mu.Unlock()
		for h := range x.hosts {
			w.hold(h, -1)
		}
	})
}

// hold counts who watches a host.
func (w *Watcher) hold(h subjects.HostID, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.count[h]
	w.count[h] += by
	switch {
	case before == 0:
		w.step(watched{h})
	case w.count[h] == 0:
		delete(w.count, h)
		w.step(dropped{h})
		w.pending = slices.DeleteFunc(w.pending, func(c Change) bool { return c.Host == h })
	}
}

// feed takes an event, on any goroutine.
func (w *Watcher) feed(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.step(event)
}

// step has the core decide, and wakes the goroutine when there is something to do.
func (w *Watcher) step(event any) {
	wake := w.do.wake
	now := time.Since(w.began)
	changes, do := w.core.step(event, now)
	for _, c := range changes {
		c.At = w.began.Add(now)
		w.pending = append(slices.DeleteFunc(w.pending, func(old Change) bool { return old.Host == c.Host }), c)
	}
	w.do.probes, w.do.wake = append(w.do.probes, do.probes...), do.wake
	if do.echo != none {
		w.do.echo = do.echo
	}
	if len(changes) > 0 || len(do.probes) > 0 || do.echo != none || do.wake < wake {
		w.poke()
	}
}

func (w *Watcher) poke() {
	select {
	case w.kick <- struct{}{}:
	default: // it will look anyway
	}
}

// run is the watcher's goroutine.
func (w *Watcher) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			w.feed(tick{})
		case <-w.kick:
		}
		timer.Reset(time.Until(w.began.Add(w.work(ctx))))
	}
}

// work does what the core wants and tells what has changed. It says when the next tick is due.
func (w *Watcher) work(ctx context.Context) time.Duration {
	w.mu.Lock()
	do, news := w.do, w.news()
	w.do.probes, w.do.echo = nil, none
	w.mu.Unlock()
	for _, p := range do.probes {
		w.tasks.Go(func() { w.feed(answer{p.host, p.sent, w.ask(ctx, p)}) })
	}
	if do.echo != none {
		w.send(do.echo)
	}
	for _, n := range news {
		w.tell(n)
	}
	return do.wake
}

// told is what a function is to hear.
type told struct {
	*watch
	changes []Change
}

// news is what functions have not heard.
func (w *Watcher) news() (all []told) {
	for _, x := range w.watches {
		n := told{watch: x}
		if x.told {
			for _, c := range w.pending {
				if x.hosts[c.Host] {
					n.changes = append(n.changes, c)
				}
			}
		} else {
			x.told = true
			for _, h := range w.core.hosts {
				if x.hosts[h.id] && (h.state != Alive || h.mode != agent.Open) {
					c := h.last
					c.At = w.began.Add(h.at)
					n.changes = append(n.changes, c)
				}
			}
		}
		if len(n.changes) > 0 {
			all = append(all, n)
		}
	}
	w.pending = nil
	return all
}

func (w *Watcher) tell(n told) {
	w.telling.Lock()
	defer w.telling.Unlock()
	for _, c := range n.changes {
		if !n.over {
			n.f(c)
		}
	}
}

// ask pings the agent of a host. Whatever it answers, it lives.
func (w *Watcher) ask(ctx context.Context, p probe) verdict {
	ctx, cancel := context.WithTimeout(ctx, p.within)
	defer cancel()
	subject := w.proc.Space().Host(p.host.String(), agent.Ping.Name(), w.self)
	_, err := w.proc.Bus().Control().Request(ctx, bus.Msg{Subject: subject}, actor.IsAnswer)
	switch {
	case err == nil:
		return answered
	case errors.Is(err, bus.ErrNoResponders):
		return refused
	case errors.Is(err, context.DeadlineExceeded):
		return silent
	}
	return failed
}

// send has the server send back what this says: everything it had before comes first.
func (w *Watcher) send(now time.Duration) {
	says := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, w.mark), uint64(now))
	if err := w.proc.Bus().Control().Publish(w.proc.Space().Heartbeat(echoes, w.self), says); err != nil {
		w.loud.Debug().Err(err).Msg("the watcher of hosts cannot hear itself") // which it notices
	}
}

func (w *Watcher) state(s bus.State) {
	switch {
	case s.Lane != bus.LaneControl:
	case s.Kind == bus.Reconnected:
		w.feed(link{true})
	case s.Kind == bus.Disconnected, s.Kind == bus.Closed:
		w.feed(link{false})
	}
}

// echo takes back what send sent. When heartbeats were dropped before it, silence counts from now, as after a
// reconnect (PRES-1).
func (w *Watcher) echo(m bus.Msg) {
	if lost := w.inbox.Dropped(); lost != w.lost {
		w.lost = lost
		w.feed(missed{})
	}
	if len(m.Data) == 16 && binary.BigEndian.Uint64(m.Data) == w.mark {
		w.feed(echo{time.Duration(binary.BigEndian.Uint64(m.Data[8:]))})
	}
}

// hear takes the heartbeat of a host. Those of others are not even read (PRES-8).
func (w *Watcher) hear(m bus.Msg) {
	s, err := w.proc.Space().Parse(m.Subject)
	if err != nil {
		return
	}
	id, err := subjects.ParseProcessID(s.From)
	if err != nil || !w.wants(subjects.HostID(id.Proc().Mesh)) {
		return
	}
	var b beat
	if err = wire.Unmarshal(m.Data, &b.Heartbeat); err == nil {
		err = b.Check(s.From) // PRES-9
	}
	if err != nil {
		w.loud.Warn().Err(err).Str("subject", m.Subject).Msg("a heartbeat that is none")
		return
	}
	w.feed(b)
}

func (w *Watcher) wants(h subjects.HostID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[h] > 0
}

// hint takes the word of a server that a connection has ended.
func (w *Watcher) hint(m bus.Msg) {
	c, err := hinted(m.Data)
	if err != nil {
		w.loud.Warn().Err(err).Str("subject", m.Subject).Msg("a hint that is none")
		return
	}
	c.Name = "" // a heartbeat names connections by their numbers
	w.feed(gone{c})
}
