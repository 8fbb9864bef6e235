package bus_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

// sent publishes n messages and waits until the server has them.
func sent(t testing.TB, from *bus.Bus, subject string, n int) {
	t.Helper()
	for range n {
		require.NoError(t, from.Data().Publish(subject, nil))
	}
	require.NoError(t, from.Data().Flush(testkit.Soon(t)))
}

func TestAfterReceived_runsAfterEarlierServerMessages(t *testing.T) {
	const rounds, each = 30, 300
	srv := listen(t, embed.Options{}) // over a socket, as in earnest
	from, to := open(t, bus.Options{URL: srv.URL()}), open(t, bus.Options{URL: srv.URL()})
	var n atomic.Int64
	_, err := to.Data().Subscribe("x", func(bus.Msg) { n.Add(1) })
	require.NoError(t, err)
	for round := range rounds {
		sent(t, from, "x", each)
		came := make(chan int64, 1)
		to.Data().AfterReceived(func() { came <- n.Load() })
		require.EqualValues(t, (round+1)*each, testkit.Next(t, came))
	}
}

func TestAfterReceived_runsOnThePumpInCallOrder(t *testing.T) {
	const n = 500
	srv := bustest.Server(t)
	from, to := bustest.Open(t, srv), bustest.Open(t, srv)
	var order []int // the pump's alone: the race detector says so if it is not
	_, err := to.Data().Subscribe("x", func(bus.Msg) { order = append(order, -1) })
	require.NoError(t, err)
	done := make(chan []int)
	for i := range n {
		require.NoError(t, from.Data().Publish("x", nil))
		to.Data().AfterReceived(func() { order = append(order, i) })
	}
	sent(t, from, "x", 0)
	to.Data().AfterReceived(func() { done <- order })
	var calls []int
	for _, i := range testkit.Next(t, done) {
		if i >= 0 {
			calls = append(calls, i)
		}
	}
	require.Len(t, calls, n)
	require.IsIncreasing(t, calls)
	require.Len(t, order, 2*n)
}

func TestAfterReceived_concurrentCallsEachRunOnce(t *testing.T) {
	const callers, each = 16, 100
	srv := bustest.Server(t)
	from, to := bustest.Open(t, srv), bustest.Open(t, srv)
	var received, early atomic.Int64
	_, err := to.Data().Subscribe("x", func(bus.Msg) { received.Add(1) })
	require.NoError(t, err)
	calls := make([]atomic.Int32, callers*each)
	var all, senders sync.WaitGroup
	all.Add(len(calls))
	var flushed atomic.Int64 // so many the server is known to have
	var turn sync.Mutex
	for c := range callers {
		senders.Go(func() {
			for i := range each {
				turn.Lock()
				if from.Data().Publish("x", nil) != nil || from.Data().Flush(testkit.Soon(t)) != nil {
					t.Error("the message was not sent")
				}
				before := flushed.Add(1)
				turn.Unlock()
				to.Data().AfterReceived(func() {
					if received.Load() < before {
						early.Add(1)
					}
					calls[c*each+i].Add(1)
					all.Done()
				})
			}
		})
	}
	senders.Wait()
	all.Wait()
	require.Zero(t, early.Load())
	for i := range calls {
		require.EqualValues(t, 1, calls[i].Load())
	}
}

func TestAfterReceived_awaitsAFullInbox(t *testing.T) {
	srv := bustest.Server(t)
	from, to := bustest.Open(t, srv), bustest.Open(t, srv, func(o *bus.Options) { o.QueueLen = 4 })
	entered, gate := make(chan struct{}, 5), make(chan struct{})
	var n atomic.Int32
	_, err := to.Data().Subscribe("x", func(bus.Msg) { entered <- struct{}{}; <-gate; n.Add(1) })
	require.NoError(t, err)
	sent(t, from, "x", 1)
	testkit.Next(t, entered)
	sent(t, from, "x", 4)
	require.NoError(t, to.Data().Flush(testkit.Soon(t))) // all are in the Inbox, which is full
	came := make(chan int32, 1)
	to.Data().AfterReceived(func() { came <- n.Load() })
	close(gate)
	require.EqualValues(t, 5, testkit.Next(t, came))
	require.NoError(t, to.Err())
}

func TestAfterReceived_withoutAServerRunsAfterArrivedMessages(t *testing.T) {
	srv := listen(t, embed.Options{})
	onState, heard := states()
	from, to := open(t, bus.Options{URL: srv.URL()}), open(t, bus.Options{URL: srv.URL(), OnState: onState})
	entered, gate := make(chan struct{}, 100), make(chan struct{})
	var n atomic.Int32
	_, err := to.Data().Subscribe("x", func(bus.Msg) { entered <- struct{}{}; <-gate; n.Add(1) })
	require.NoError(t, err)
	sent(t, from, "x", 100)
	testkit.Next(t, entered)
	require.NoError(t, to.Data().Flush(testkit.Soon(t)))
	srv.Shutdown()
	awaitState(t, heard, bus.DataConn, bus.Disconnected)
	came := make(chan int32, 1)
	to.Data().AfterReceived(func() { came <- n.Load() })
	close(gate)
	require.EqualValues(t, 100, testkit.Next(t, came))
}

// mute is a server. The test can disconnect its clients without their knowledge.
type mute struct {
	*embed.Server
	silent atomic.Bool
}

type mutedConn struct {
	net.Conn
	of *mute
}

func (m *mute) InProcessConn() (net.Conn, error) {
	c, err := m.Server.InProcessConn()
	return mutedConn{c, m}, err
}

func (c mutedConn) Write(b []byte) (int, error) {
	if c.of.silent.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func TestAfterReceived_doesNotAwaitASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mute{Server: bustest.Server(t)}
		b, err := bus.Open(t.Context(), bus.Options{Server: m})
		require.NoError(t, err)
		m.silent.Store(true)
		began := time.Now()
		came := make(chan time.Duration, 1)
		b.Data().AfterReceived(func() { came <- time.Since(began) })
		require.Equal(t, time.Second, <-came)
		m.silent.Store(false)
		require.NoError(t, b.Close(t.Context()))
	})
}

func TestAfterReceived_neverRunsOnAClosedBus(t *testing.T) {
	srv := bustest.Server(t)
	for range 20 {
		b, err := bus.Open(testkit.Soon(t), bus.Options{Server: srv})
		require.NoError(t, err)
		var closed, late atomic.Bool
		for range 100 { // some before, some while it closes
			b.Data().AfterReceived(func() { late.Store(late.Load() || closed.Load()) })
		}
		require.NoError(t, b.Close(testkit.Soon(t)))
		closed.Store(true)
		b.Data().AfterReceived(func() { late.Store(true) })
		b.Control().AfterReceived(func() { late.Store(true) })
		require.False(t, late.Load())
	}
}

func TestClose_doesNotAwaitAMarkWithoutRoom(t *testing.T) {
	srv := bustest.Server(t)
	from := bustest.Open(t, srv)
	to, err := bus.Open(testkit.Soon(t), bus.Options{Server: srv, QueueLen: 1})
	require.NoError(t, err)
	entered, gate := make(chan struct{}, 2), make(chan struct{})
	_, err = to.Data().Subscribe("x", func(bus.Msg) { entered <- struct{}{}; <-gate })
	require.NoError(t, err)
	sent(t, from, "x", 1)
	testkit.Next(t, entered)
	sent(t, from, "x", 1)
	require.NoError(t, to.Data().Flush(testkit.Soon(t)))
	var called atomic.Bool
	to.Data().AfterReceived(func() { called.Store(true) })
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	go func() { ended <- to.Close(ctx) }()
	testkit.Next(t, to.Done())
	close(gate)
	require.NoError(t, testkit.Next(t, ended))
	require.False(t, called.Load())
}
