package presence

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// fakeHost sends heartbeats and answers as a host does.
type fakeHost struct {
	id   subjects.HostID
	bus  *bus.Bus
	beat agent.Heartbeat
	t    *testing.T
	stop chan struct{}
	over sync.WaitGroup
}

func newFakeHost(t *testing.T, srv *embed.Server, label string) *fakeHost {
	id := testproc.HostID(t, label)
	h := &fakeHost{id: id, t: t, stop: make(chan struct{})}
	var err error
	h.bus, err = bus.Open(t.Context(), bus.Options{Server: srv})
	require.NoError(t, err)
	h.beat = agent.Heartbeat{Host: id, Incarnation: 1, Interval: 500 * time.Millisecond}
	for _, c := range []*bus.Conn{h.bus.Data(), h.bus.Control()} {
		server, n := c.ServerClientID()
		h.beat.Conns = append(h.beat.Conns, agent.Connection{Server: server, Client: n})
	}
	_, err = h.bus.Data().Subscribe(subjects.Space{}.HostReads(id.String(), ""), func(m bus.Msg) {
		answer := bus.Msg{Subject: m.Reply, Header: bus.Header{actor.HeaderContentType: {"application/json"}},
			Data: []byte("{}")}
		_ = h.bus.Data().PublishMsg(answer) // the watcher may have gone
	})
	require.NoError(t, err)
	h.over.Go(func() {
		for tick := time.NewTicker(h.beat.Interval); ; {
			select {
			case <-tick.C:
				h.beats()
			case <-h.stop:
				return
			}
		}
	})
	t.Cleanup(h.mute)
	return h
}

func (h *fakeHost) beats() {
	h.beat.Seq++
	h.publishHeartbeat(h.id, h.beat)
}

// publishHeartbeat publishes a heartbeat in the name of another host.
func (h *fakeHost) publishHeartbeat(as subjects.HostID, b agent.Heartbeat) {
	data, err := wire.Marshal(b)
	if err != nil {
		h.t.Error(err)
	}
	_ = h.bus.Control().Publish(subjects.Space{}.Heartbeat(agent.KindHostHeartbeat,
		hostSender(as)), data)
}

// mute ends the heartbeats.
func (h *fakeHost) mute() {
	select {
	case <-h.stop:
	default:
		close(h.stop)
	}
	h.over.Wait()
}

// kill is the end of its process.
func (h *fakeHost) kill() {
	h.mute()
	require.NoError(h.t, h.bus.Close(context.Background()))
}

// diary records the calls of a function.
type diary struct{ testkit.Notes[Change] }

// states are those of a host, in the order of their reports.
func (d *diary) states(h subjects.HostID) (all []State) {
	for _, c := range d.of(h) {
		all = append(all, c.State)
	}
	return all
}

// of are the changes of a host, except to another incarnation alone.
func (d *diary) of(h subjects.HostID) []Change {
	all := d.All(func(c Change) bool { return c.Host == h })
	return slices.CompactFunc(all, func(a, b Change) bool {
		return a.State == b.State && a.Mode == b.Mode && a.Gateway == b.Gateway
	})
}

// newWatcher is a watcher in a process of its own.
func newWatcher(t testing.TB, srv *embed.Server) *Watcher {
	t.Helper()
	p, _ := testproc.Start(t, srv, testproc.Options{})
	w, err := New(p)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	return w
}

// inBubble runs a test in virtual time, with a server and a watcher.
func inBubble(t *testing.T, test func(t *testing.T, srv *embed.Server, w *Watcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		test(t, srv, newWatcher(t, srv))
	})
}

// relayed makes a host relay the advisories of its server.
func relayed(t *testing.T, srv *embed.Server) {
	t.Helper()
	require.NoError(t, srv.ExportDisconnects())
	b := bustest.Open(t, srv)
	require.NoError(t, RelayDisconnects(RelayConfig{From: b.Control(), To: b.Control(),
		Sender: hostSender(testproc.HostID(t, "relay"))}))
}

func TestWatcher_silentHostTurnsSuspectDeadAndAliveAgain(t *testing.T) { // PRES-1, PRES-4
	inBubble(t, func(t *testing.T, srv *embed.Server, w *Watcher) {
		h, d := newFakeHost(t, srv, "a"), &diary{}
		defer w.Watch([]subjects.HostID{h.id}, d.Add)()
		time.Sleep(3 * time.Second)
		require.Equal(t, []State{Unknown, Alive}, d.states(h.id))
		began := time.Now()
		h.kill()
		time.Sleep(10 * time.Second)
		all := d.of(h.id)
		require.Equal(t, []State{Unknown, Alive, Suspect, Dead}, d.states(h.id))
		require.InDelta(t, 1.5, all[2].At.Sub(began).Seconds(), 0.51)
		require.InDelta(t, 4.5, all[3].At.Sub(began).Seconds(), 0.51)
		require.GreaterOrEqual(t, all[3].Silence, 4500*time.Millisecond)
		require.Contains(t, all[3].Reason, "no heartbeat for 4.5s, and no answer")
		again := newFakeHost(t, srv, "b")
		again.publishHeartbeat(h.id, agent.Heartbeat{Host: h.id, Incarnation: 2, Seq: 1, Interval: time.Second})
		time.Sleep(time.Millisecond)
		require.Equal(t, Alive, d.states(h.id)[4], "PRES-4")
		again.kill()
	})
}

// A wildcard subscriber keeps the server from reporting "no responders"; a stream even replies to
// requests.
func TestWatcher_detectsDeathDespiteAWildcardListener(t *testing.T) {
	for name, reply := range map[string]string{"who only listens": "",
		"a stream": `{"stream":"audit","seq":7}`} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *embed.Server, w *Watcher) {
				audit := bustest.Open(t, srv).Data()
				_, err := audit.Subscribe(subjects.Space{}.String()+".>", func(m bus.Msg) {
					if m.Reply != "" && reply != "" {
						_ = audit.Publish(m.Reply, []byte(reply))
					}
				})
				require.NoError(t, err)
				h, d := newFakeHost(t, srv, "a"), &diary{}
				defer w.Watch([]subjects.HostID{h.id}, d.Add)()
				time.Sleep(3 * time.Second)
				began := time.Now()
				h.kill()
				time.Sleep(8 * time.Second)
				require.Equal(t, []State{Unknown, Alive, Suspect, Dead}, d.states(h.id))
				require.InDelta(t, 4.5, d.of(h.id)[3].At.Sub(began).Seconds(), 1.6)
			})
		})
	}
}

func TestWatcher_serverEventsRevealADeathWithinASecond(t *testing.T) { // PRES-3
	inBubble(t, func(t *testing.T, srv *embed.Server, w *Watcher) {
		relayed(t, srv)
		h, d := newFakeHost(t, srv, "a"), &diary{}
		defer w.Watch([]subjects.HostID{h.id}, d.Add)()
		time.Sleep(3 * time.Second)
		began := time.Now()
		h.kill()
		time.Sleep(time.Second)
		all := d.of(h.id)
		require.Equal(t, []State{Unknown, Alive, Suspect, Dead}, d.states(h.id), "PRES-3")
		require.LessOrEqual(t, all[2].At.Sub(began), 10*time.Millisecond)
		require.InDelta(t, 0.6, all[3].At.Sub(began).Seconds(), 0.02)
		require.Contains(t, all[3].Reason,
			"its connections have ended, and no process has listened there for 600ms")
	})
}

func TestWatcher_disconnectHintOnlyTriggersAProbe(t *testing.T) { // PRES-3
	inBubble(t, func(t *testing.T, srv *embed.Server, w *Watcher) {
		h, d := newFakeHost(t, srv, "a"), &diary{}
		defer w.Watch([]subjects.HostID{h.id}, d.Add)()
		time.Sleep(3 * time.Second)
		for _, c := range h.beat.Conns {
			data, err := wire.Marshal(c)
			require.NoError(t, err)
			require.NoError(t, h.bus.Control().
				Publish(subjects.Space{}.Heartbeat(agent.KindDisconnectHint, relay(t)), data))
		}
		time.Sleep(20 * time.Second)
		require.NotContains(t, d.states(h.id), Dead, "PRES-3")
		require.Contains(t, d.states(h.id), Suspect)
		all := d.All(nil)
		require.Equal(t, Alive, all[len(all)-1].State)
		h.kill()
	})
}

func TestWatcher_ignoresForeignAndMalformedHeartbeats(t *testing.T) { // PRES-9
	inBubble(t, func(t *testing.T, srv *embed.Server, w *Watcher) {
		h, forger, d := newFakeHost(t, srv, "a"), newFakeHost(t, srv, "f"), &diary{}
		defer w.Watch([]subjects.HostID{h.id}, d.Add)()
		time.Sleep(3 * time.Second)
		h.mute()
		require.NoError(t, h.bus.Close(t.Context()))
		for range 20 {
			forger.publishHeartbeat(forger.id,
				agent.Heartbeat{Host: h.id, Incarnation: 1, Seq: 1 << 40, Interval: time.Second})
			forger.publishHeartbeat(h.id,
				agent.Heartbeat{Host: forger.id, Incarnation: 1, Seq: 1 << 40, Interval: time.Second})
			forger.publishHeartbeat(h.id,
				agent.Heartbeat{Host: h.id, Incarnation: 1, Seq: 1 << 40, Interval: -time.Second})
			require.NoError(t, forger.bus.Control().
				Publish(subjects.Space{}.Heartbeat(agent.KindHostHeartbeat, hostSender(h.id)),
					[]byte("hello")))
			require.NoError(t, forger.bus.Control().
				Publish(subjects.Space{}.Heartbeat(agent.KindDisconnectHint, relay(t)), []byte("hello")))
			time.Sleep(500 * time.Millisecond)
		}
		require.Equal(t, []State{Unknown, Alive, Suspect, Dead}, d.states(h.id), "PRES-9")
		forger.kill()
	})
}

// A discovered host begins with the heartbeat that revealed it, and with its gateway.
func TestWatcher_discoversAnUnwatchedHostByItsHeartbeat_PRES8_PRES11(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *embed.Server, w *Watcher) {
		d := &diary{}
		found := make(chan subjects.HostID, 10)
		w.Discover(func(id subjects.HostID) {
			found <- id
			w.Watch([]subjects.HostID{id}, d.Add)
		})
		h := newFakeHost(t, srv, "a")
		h.mute()
		h.beat.Gateway = h.id.Proc().Process()
		leaving := testproc.HostID(t, "b")
		h.publishHeartbeat(leaving, agent.Heartbeat{Host: leaving, Incarnation: 1, Seq: 1, Interval: time.Second,
			Goodbye: true})
		h.publishHeartbeat(leaving, agent.Heartbeat{Host: h.id, Incarnation: 1, Seq: 1, Interval: time.Second})
		for range 3 {
			h.beats()
			time.Sleep(h.beat.Interval)
		}
		require.Len(t, found, 1)
		require.Equal(t, h.id, <-found)
		told := d.of(h.id)
		require.Equal(t, Alive, told[len(told)-1].State)
		require.Equal(t, h.beat.Gateway, told[len(told)-1].Gateway)
		h.kill()
	})
}

func TestWatcher_disconnectedWatcherReportsUnknown(t *testing.T) { // PRES-1
	inBubble(t, func(t *testing.T, srv *embed.Server, w *Watcher) {
		h, d := newFakeHost(t, srv, "a"), &diary{}
		defer w.Watch([]subjects.HostID{h.id}, d.Add)()
		time.Sleep(3 * time.Second)
		srv.Shutdown()
		time.Sleep(time.Minute)
		require.Equal(t, []State{Unknown, Alive, Unknown}, d.states(h.id), "PRES-1")
		require.Contains(t, d.of(h.id)[2].Reason, "the connection to the bus is lost")
		h.mute()
		_ = h.bus.Close(t.Context()) // there is no server to hear of it
	})
}

func TestWatch_reportsCurrentStatesThenChangesUntilCancelled(t *testing.T) { // PRES-8
	inBubble(t, func(t *testing.T, srv *embed.Server, w *Watcher) {
		a, b := newFakeHost(t, srv, "a"), newFakeHost(t, srv, "b")
		both, one := &diary{}, &diary{}
		cancelBoth := w.Watch([]subjects.HostID{a.id, b.id, a.id, {}}, both.Add)
		time.Sleep(3 * time.Second)
		a.kill()
		time.Sleep(10 * time.Second)
		require.Equal(t, []State{Unknown, Alive, Suspect, Dead}, both.states(a.id))
		require.Equal(t, []State{Unknown, Alive}, both.states(b.id))
		late := &diary{}
		cancelLate := w.Watch([]subjects.HostID{a.id, b.id}, late.Add)
		cancelOne := w.Watch([]subjects.HostID{b.id}, one.Add)
		time.Sleep(time.Second)
		require.Equal(t, []State{Dead}, late.states(a.id))
		require.Empty(t, late.states(b.id), "it is alive")
		cancelBoth()
		cancelBoth()
		b.kill()
		time.Sleep(10 * time.Second)
		require.Equal(t, []State{Suspect, Dead}, one.states(b.id))
		require.Empty(t, one.states(a.id))
		require.Len(t, both.states(b.id), 2, "PRES-8")
		cancelOne()
		cancelLate()
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Empty(t, w.core.hosts, "PRES-8")
		require.Empty(t, w.watchCount, "PRES-8")
		require.Empty(t, w.subscriptions, "PRES-8")
	})
}

func TestWatcher_queuesOnlyTheLatestChangePerHost(t *testing.T) { // PRES-8
	inBubble(t, func(t *testing.T, srv *embed.Server, w *Watcher) {
		h, d := newFakeHost(t, srv, "a"), &diary{}
		defer w.Watch([]subjects.HostID{h.id}, d.Add)()
		time.Sleep(3 * time.Second)
		told := func() int { return len(d.All(func(Change) bool { return true })) }
		before := told()
		w.mu.Lock()
		for range 100 { // as it may be while a function is being told
			w.handleLocked(connectionChanged{true})
			w.handleLocked(probeResult{host: h.id, outcome: answered})
		}
		require.Len(t, w.pendingChanges, 1, "PRES-8")
		w.mu.Unlock()
		time.Sleep(time.Second)
		require.Equal(t, before+1, told())
		h.kill()
	})
}

func TestDisconnect_isOfAClientNotOfAServer(t *testing.T) {
	advisory := func(reason string) []byte {
		return []byte(`{"server":{"id":"S"},"client":{"id":7,"acc":"$G"},"reason":"` + reason + `"}`)
	}
	for _, reason := range []string{"Client Closed", "Read Error", "Write Error"} {
		c, ok := parseDisconnect(advisory(reason))
		require.True(t, ok, reason)
		require.Equal(t, agent.Connection{Server: "S", Client: 7}, c)
	}
	bad := [][]byte{nil, []byte("{"), []byte("{}"), []byte(`{"reason":"Client Closed"}`)}
	for _, reason := range []string{"", "Server Shutdown", "Slow Consumer (Write Deadline)",
		"Stale Connection", "Kicked"} {
		bad = append(bad, advisory(reason))
	}
	for _, data := range bad {
		_, ok := parseDisconnect(data)
		require.False(t, ok, "%s", data)
	}
}

func TestState_hasAName(t *testing.T) {
	var all []string
	for s := Alive; s <= Dead+1; s++ {
		all = append(all, s.String())
	}
	require.Equal(t, []string{"alive", "suspect", "unknown", "dead", "state(4)"}, all)
}

// hostSender is the sender of a host.
func hostSender(id subjects.HostID) subjects.Sender {
	return subjects.NewSender(subjects.Host.Principal(id.Label()), id.Proc().Process())
}

// relay is a hostd that relays hints.
func relay(t *testing.T) subjects.Sender {
	t.Helper()
	id, err := subjects.NewHostID("relay")
	require.NoError(t, err)
	return subjects.NewSender(subjects.Host.Principal("relay"), id.Proc().Process())
}
