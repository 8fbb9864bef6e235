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

// kindEcho is the kind of a watcher's messages to itself.
const kindEcho = "echo"

// Bounds of log lines that other processes can cause.
const (
	noisyBurst  = 20
	noisyPeriod = 10 * time.Second
)

// Watcher watches hosts for one process.
type Watcher struct {
	proc         *actor.Proc
	self         subjects.Sender // ID of the process
	echoToken    uint64          // marks its own echoes: a process may have two watchers
	sampledLog   zerolog.Logger  // rate-limited, for causes in other processes
	startedAt    time.Time
	ctx          context.Context // ends with Close
	cancel       context.CancelFunc
	tasks        sync.WaitGroup
	wake         chan struct{} // signals work
	subs         []*bus.Sub
	inbox        *bus.Inbox // shared by heartbeats and echoes, so an echo follows earlier heartbeats
	droppedSeen  uint64     // drop count of the inbox at the last echo
	unwatchState func()     // ends the watch of the connection's states

	notifyMu sync.Mutex // held during callbacks, so that cancel waits for them

	mu             sync.Mutex // guards the fields below
	core           *core
	pendingEffects effects
	subscriptions  []*subscription
	watchCount     map[subjects.HostID]int // number of subscriptions
	found          func(subjects.HostID)   // nil: heartbeats of unwatched hosts are not decoded
	pendingChanges []Change                // at most one per host (PRES-8)
}

// subscription is a callback with its hosts.
type subscription struct {
	hosts       map[subjects.HostID]bool
	notify      func(Change)
	initialSent bool // the initial states were delivered
	cancelled   bool // guarded by notifyMu
}

// New starts a Watcher. A process needs only one. It reads the configuration of p once.
func New(p *actor.Proc) (*Watcher, error) {
	c := agent.ConfigOf(p)
	w := &Watcher{
		proc: p, self: p.Sender(), echoToken: rand.Uint64(), startedAt: time.Now(),
		wake: make(chan struct{}, 1), watchCount: map[subjects.HostID]int{},
		pendingEffects: effects{echo: never},
		core: newCore(timeouts{
			heartbeat: config.SupervisionHeartbeatInterval.Get(c), suspect: config.SupervisionSuspectAfter.Get(c),
			dead: config.SupervisionDeadAfter.Get(c), confirm: config.SupervisionConfirmAfter.Get(c),
		}),
	}
	log := p.Log()
	w.sampledLog = log.Sample(&zerolog.BurstSampler{Burst: noisyBurst, Period: noisyPeriod})
	conn := p.Bus().Control()
	w.inbox = conn.Lossy(agent.HeartbeatInbox)
	w.droppedSeen = w.inbox.Dropped()
	w.unwatchState = p.Bus().Watch(w.onBusState)
	for subject, f := range map[string]func(bus.Msg){
		p.Space().Heartbeats(agent.KindHostHeartbeat):  w.onHeartbeat,
		p.Space().Heartbeats(agent.KindDisconnectHint): w.onDisconnectHint,
		p.Space().Heartbeat(kindEcho, w.self):          w.onEcho,
	} {
		sub, err := w.inbox.Subscribe(subject, f)
		if err != nil {
			w.unsubscribe()
			return nil, fmt.Errorf("watch hosts: %w", err)
		}
		w.subs = append(w.subs, sub)
	}
	w.handle(connectionChanged{conn.URL() != ""})
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.tasks.Go(func() { w.run(w.ctx) })
	return w, nil
}

// Close ends the watcher and waits for its goroutine (PRES-8).
func (w *Watcher) Close() {
	w.unsubscribe()
	w.cancel()
	w.tasks.Wait()
}

func (w *Watcher) unsubscribe() {
	w.unwatchState()
	for _, s := range w.subs {
		_ = s.Unsubscribe() // an error means a closed connection
	}
}

// Watch calls f for each host that is not alive, takes no procs or has a gateway, and then with
// each change, until cancel. The calls come in sequence from the watcher's goroutine. Function f
// must not block.
func (w *Watcher) Watch(hosts []subjects.HostID, f func(Change)) (cancel func()) {
	x := &subscription{hosts: map[subjects.HostID]bool{}, notify: f}
	for _, h := range hosts {
		if h.IsValid() {
			x.hosts[h] = true
		}
	}
	w.mu.Lock()
	w.subscriptions = append(w.subscriptions, x)
	w.mu.Unlock()
	for h := range x.hosts {
		w.addWatchCount(h, 1)
	}
	w.wakeUp()
	return sync.OnceFunc(func() {
		w.notifyMu.Lock()
		x.cancelled = true
		w.notifyMu.Unlock()
		w.mu.Lock()
		w.subscriptions = slices.DeleteFunc(w.subscriptions, func(y *subscription) bool { return y == x })
		w.mu.Unlock()
		for h := range x.hosts {
			w.addWatchCount(h, -1)
		}
	})
}

// BusSilence returns for how long this process could hear no host, because it has no connection or
// the server does not answer; 0: it can hear. It is safe for concurrent use.
func (w *Watcher) BusSilence() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.core.busSilence(time.Since(w.startedAt))
}

// addWatchCount changes the number of subscriptions for a host.
func (w *Watcher) addWatchCount(h subjects.HostID, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.watchCount[h]
	w.watchCount[h] += by
	if before == 0 {
		w.handleLocked(hostAdded{h})
	} else if w.watchCount[h] == 0 {
		delete(w.watchCount, h)
		w.handleLocked(hostRemoved{h})
		w.pendingChanges = slices.DeleteFunc(w.pendingChanges, func(c Change) bool { return c.Host == h })
	}
}

// handle handles an event on any goroutine.
func (w *Watcher) handle(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handleLocked(event)
}

// handleLocked passes an event to the core and wakes the goroutine for the effects.
func (w *Watcher) handleLocked(event any) {
	wake := w.pendingEffects.wake
	now := time.Since(w.startedAt)
	changes, do := w.core.step(event, now)
	for _, c := range changes {
		c.At = w.startedAt.Add(now)
		w.pendingChanges = append(slices.DeleteFunc(w.pendingChanges,
			func(old Change) bool { return old.Host == c.Host }),
			c)
	}
	w.pendingEffects.probes, w.pendingEffects.wake = append(w.pendingEffects.probes, do.probes...), do.wake
	for _, s := range do.ended {
		agent.CountersOf(w.proc).CountDetection(s.verdict, s.took)
	}
	if do.echo != never {
		w.pendingEffects.echo = do.echo
	}
	if len(changes) > 0 || len(do.probes) > 0 || do.echo != never || do.wake < wake {
		w.wakeUp()
	}
}

func (w *Watcher) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default: // already signalled
	}
}

// run is the goroutine of the watcher.
func (w *Watcher) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			w.handle(tick{})
		case <-w.wake:
		}
		timer.Reset(time.Until(w.startedAt.Add(w.runEffects(ctx))))
	}
}

// runEffects carries out effects and delivers changes. It returns the time to the next tick.
func (w *Watcher) runEffects(ctx context.Context) time.Duration {
	w.mu.Lock()
	do, news := w.pendingEffects, w.takeNotifications()
	w.pendingEffects.probes, w.pendingEffects.echo = nil, never
	w.mu.Unlock()
	for _, p := range do.probes {
		w.tasks.Go(func() { w.handle(probeResult{p.host, p.sent, w.ping(ctx, p)}) })
	}
	if do.echo != never {
		w.sendEcho(do.echo)
	}
	for _, n := range news {
		w.deliver(n)
	}
	return do.wake
}

// notification is a pending call of a callback.
type notification struct {
	*subscription
	changes []Change
}

// takeNotifications returns and clears the pending calls.
func (w *Watcher) takeNotifications() (all []notification) {
	for _, x := range w.subscriptions {
		n := notification{subscription: x}
		if x.initialSent {
			for _, c := range w.pendingChanges {
				if x.hosts[c.Host] {
					n.changes = append(n.changes, c)
				}
			}
		} else {
			x.initialSent = true
			for _, h := range w.core.hosts {
				if x.hosts[h.id] && (h.state != Alive || h.mode != agent.ModeOpen || h.gateway.IsValid()) {
					c := h.lastChange
					c.At = w.startedAt.Add(h.lastChangeAt)
					n.changes = append(n.changes, c)
				}
			}
		}
		if len(n.changes) > 0 {
			all = append(all, n)
		}
	}
	w.pendingChanges = nil
	return all
}

func (w *Watcher) deliver(n notification) {
	w.notifyMu.Lock()
	defer w.notifyMu.Unlock()
	for _, c := range n.changes {
		if !n.cancelled {
			n.notify(c)
		}
	}
}

// ping pings the agent of a host. Any reply is a sign of life.
func (w *Watcher) ping(ctx context.Context, p probe) probeOutcome {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	subject := w.proc.Space().HostRead(p.host.String(), agent.Ping.Name(), w.self)
	_, err := w.proc.Bus().Control().Request(ctx, bus.Msg{Subject: subject}, actor.IsAnswer)
	switch {
	case err == nil:
		return answered
	case errors.Is(err, bus.ErrNoResponders):
		return refused
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut
	}
	return notSent
}

// sendEcho sends a message to itself through the server. It arrives after all earlier messages.
func (w *Watcher) sendEcho(now time.Duration) {
	says := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, w.echoToken), uint64(now))
	if err := w.proc.Bus().Control().Publish(w.proc.Space().Heartbeat(kindEcho, w.self), says); err != nil {
		w.sampledLog.Debug().Err(err).Msg("cannot send the watcher's echo") // the core notices the missing echo
	}
}

func (w *Watcher) onBusState(s bus.State) {
	switch {
	case s.Conn != bus.ControlConn:
	case s.Kind == bus.Reconnected:
		w.handle(connectionChanged{true})
	case s.Kind == bus.Disconnected, s.Kind == bus.Closed:
		w.handle(connectionChanged{false})
	}
}

// onEcho handles an own echo. If heartbeats were dropped before it, listening restarts (PRES-1).
func (w *Watcher) onEcho(m bus.Msg) {
	if lost := w.inbox.Dropped(); lost != w.droppedSeen {
		w.droppedSeen = lost
		w.handle(messagesDropped{})
	}
	if len(m.Data) == 16 && binary.BigEndian.Uint64(m.Data) == w.echoToken {
		w.handle(echoReceived{time.Duration(binary.BigEndian.Uint64(m.Data[8:]))})
	}
}

// onHeartbeat handles the heartbeat of a host. Those of unwatched hosts are not decoded (PRES-8),
// unless the watcher discovers hosts.
func (w *Watcher) onHeartbeat(m bus.Msg) {
	s, err := w.proc.Space().Parse(m.Subject)
	if err != nil {
		return
	}
	id, err := s.Sender.Process()
	if err != nil {
		return
	}
	watched, found := w.lookUp(subjects.HostID(id.Proc().Mesh))
	if !watched && found == nil {
		return
	}
	var b heartbeatReceived
	err = wire.Unmarshal(m.Data, &b.Heartbeat)
	if err == nil {
		err = b.Check(s.Sender) // PRES-9
	}
	if err != nil {
		w.sampledLog.Warn().Err(err).Str("subject", m.Subject).Msg("malformed heartbeat")
		return
	}
	if !watched && !b.Goodbye {
		found(b.Host)
	}
	w.handle(b)
}

// Discover calls found for each heartbeat of an unwatched host, except for a goodbye. Function
// found may watch the host, which then begins with that heartbeat. It must not block.
func (w *Watcher) Discover(found func(subjects.HostID)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = found
}

// lookUp reports whether a host is watched, and returns the function for unwatched ones.
func (w *Watcher) lookUp(h subjects.HostID) (watched bool, found func(subjects.HostID)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watchCount[h] > 0, w.found
}

// onDisconnectHint handles a relayed advisory of an ended connection.
func (w *Watcher) onDisconnectHint(m bus.Msg) {
	var g disconnectHinted
	s, err := w.proc.Space().Parse(m.Subject)
	if err == nil && s.Sender.Role() != subjects.Host {
		err = fmt.Errorf("want a hint of a host, got one of %s", s.Sender)
	}
	if err == nil {
		err = wire.Unmarshal(m.Data, &g.Connection)
	}
	if err != nil {
		w.sampledLog.Warn().Err(err).Str("subject", m.Subject).Msg("malformed disconnect hint")
		return
	}
	w.handle(g)
}
