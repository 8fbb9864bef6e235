package agent_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testproc"
)

// configured is a proc with limits of a configuration.
func configured(t *testing.T, c *config.Config, defs ...actor.Def) *actor.Proc {
	t.Helper()
	var o testproc.Options
	agent.ConfigureProc(&o.Options, c)
	p, _ := testproc.Start(t, bustest.Server(t), o, defs...)
	return p
}

// relayed returns the first output of a relay without options of its own, after updates at one
// moment, and its delay.
func relayed(t *testing.T, c *config.Config, updates ...int) (value int, after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, c)
		port := actor.OpenPort[int](p)
		defer port.Close()
		sum := actor.NewReducer("sum", func(a, b int) (int, error) { return a + b, nil })
		r, err := actor.OpenRelay(p, port.Ref(), sum, actor.RelayOptions{})
		require.NoError(t, err)
		defer r.Close()
		began := time.Now()
		for _, u := range updates {
			require.NoError(t, r.Ref().Send(t.Context(), u))
		}
		value, err = port.Recv(t.Context())
		require.NoError(t, err)
		after = time.Since(began)
	})
	return value, after
}

func TestKey_relayMaxUpdatesBoundsABatch(t *testing.T) {
	value, _ := relayed(t, nil, 1, 2, 3, 4, 5, 6)
	require.Equal(t, 1+2+3+4+5, value)
	var c config.Config
	require.NoError(t, config.RelayMaxUpdates.Set(&c, 2))
	value, _ = relayed(t, &c, 1, 2, 3)
	require.Equal(t, 1+2, value)
}

func TestKey_relayMaxDelayBoundsTheDelay(t *testing.T) {
	var c config.Config
	require.NoError(t, config.RelayMaxUpdates.Set(&c, 100))
	many := make([]int, 50)
	_, after := relayed(t, &c, many...)
	require.Equal(t, 50*time.Millisecond, after)
	require.NoError(t, config.RelayMaxDelay.Set(&c, 3*time.Second))
	_, after = relayed(t, &c, many...)
	require.Equal(t, 3*time.Second, after)
}

// patient waits in its Cleanup for the end of its context.
type patient struct{ waited chan time.Duration }

func (p patient) Cleanup(ctx *actor.Context, _ error) error {
	began := time.Now()
	<-ctx.Done()
	p.waited <- time.Since(began)
	return nil
}

func TestKey_actorCleanupBoundsCleanup(t *testing.T) {
	patientType := actor.NewType[patient, chan time.Duration]("patient")
	def := patientType.Define(func(_ *actor.Context, waited chan time.Duration) (patient,
		error) {
		return patient{waited}, nil
	})
	var c config.Config
	require.NoError(t, config.ActorCleanupTimeout.Set(&c, 3*time.Second))
	for want, c := range map[time.Duration]*config.Config{10 * time.Second: nil, 3 * time.Second: &c} {
		synctest.Test(t, func(t *testing.T) {
			p, waited := configured(t, c, def), make(chan time.Duration, 1)
			_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: patientType.Name(), Name: "patient", Params: waited})
			require.NoError(t, err)
			<-p.StopActor("patient", "enough")
			require.Equal(t, want, <-waited)
		})
	}
}

// cable is between a bus and its server: it counts pings, and can be cut.
type cable struct {
	net.Listener
	server       string
	dials, pings atomic.Int64
	cut          atomic.Bool // who dials is hung up on

	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func newCable(t *testing.T) *cable {
	t.Helper()
	u, err := url.Parse(bustest.Server(t, func(o *embed.Options) { o.DontListen = false }).URL())
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &cable{Listener: l, server: u.Host}
	w.wg.Go(w.serve)
	t.Cleanup(func() {
		_ = l.Close()
		w.hangUp()
		w.wg.Wait()
	})
	return w
}

func (w *cable) serve() {
	for {
		from, err := w.Accept()
		if err != nil {
			return
		}
		w.dials.Add(1)
		to, err := net.Dial("tcp", w.server)
		if err != nil || w.cut.Load() {
			_ = from.Close()
			if err == nil {
				_ = to.Close()
			}
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, from, to)
		w.mu.Unlock()
		w.wg.Go(func() { _, _ = io.Copy(from, to) })
		w.wg.Go(func() { _, _ = io.Copy(to, io.TeeReader(from, w)) })
	}
}

// Write records the bytes to the server.
func (w *cable) Write(b []byte) (int, error) {
	w.pings.Add(int64(strings.Count(string(b), "PING\r\n")))
	return len(b), nil
}

func (w *cable) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

func (w *cable) open(t *testing.T, c *config.Config) {
	t.Helper()
	b, err := bus.Open(t.Context(), agent.WithBusDefaults(bus.Options{URL: "nats://" + w.Addr().String()}, c))
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close(context.Background()) }) // it may have no server
}

// patience bounds each wait. Only a failing test reaches it; with the defaults these would take
// minutes.
const patience = 20 * time.Second

func TestKey_busPingSetsThePingInterval(t *testing.T) {
	t.Parallel()
	var c config.Config
	require.NoError(t, config.BusPingInterval.Set(&c, 100*time.Millisecond))
	w := newCable(t)
	w.open(t, &c)
	require.Eventually(t, func() bool { return w.pings.Load() > 30 }, patience, 10*time.Millisecond)
}

func TestKey_busReconnectBoundsTheRetryDelay(t *testing.T) {
	t.Parallel()
	var c config.Config
	require.NoError(t, config.BusMaxReconnectWait.Set(&c, 10*time.Millisecond))
	w := newCable(t)
	w.open(t, &c)
	w.cut.Store(true)
	w.hangUp()
	require.Eventually(t, func() bool { return w.dials.Load() > 50 }, patience, 10*time.Millisecond)
}

func TestWithBusDefaults_fillsInMissingOptions(t *testing.T) {
	var c config.Config
	require.NoError(t, config.BusConnectTimeout.Set(&c, time.Minute))
	o := agent.WithBusDefaults(bus.Options{PingInterval: time.Hour}, &c)
	require.Equal(t, bus.Options{ConnectTimeout: time.Minute, PingInterval: time.Hour,
		ReconnectMax: 2 * time.Second}, o)
	o = agent.WithBusDefaults(bus.Options{Server: bustest.Server(t)}, &c)
	require.Zero(t, o.ConnectTimeout, "a server of this process has the time of bus.Options")
}
