package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestInbox_keepsOrderAcrossSubjects_BUS1(t *testing.T) {
	const n, subjects = 40_000, 9
	srv := listen(t, embed.Options{}) // over a socket, as in earnest
	from, to := open(t, bus.Options{URL: srv.URL()}), open(t, bus.Options{URL: srv.URL()})
	got := make(chan int, n)
	handle := func(m bus.Msg) {
		i, err := strconv.Atoi(string(m.Data))
		if err != nil {
			i = -1
		}
		got <- i
	}
	for s := range subjects - 1 {
		_, err := to.Data().Subscribe(fmt.Sprintf("s.%d", s), handle)
		require.NoError(t, err)
	}
	_, err := to.Data().Subscribe("s.*.wild", handle)
	require.NoError(t, err)
	for i := range n {
		subject := fmt.Sprintf("s.%d", i%subjects)
		if i%subjects == subjects-1 {
			subject += ".wild"
		}
		require.NoError(t, from.Data().Publish(subject, strconv.AppendInt(nil, int64(i), 10)))
	}
	for i := range n {
		require.Equal(t, i, testkit.Next(t, got))
	}
}

func TestInbox_overflowBreaksTheConnection_BUS2(t *testing.T) {
	var log bytes.Buffer
	srv := bustest.Server(t)
	onState, heard := states()
	slow := bustest.Open(t, srv, func(o *bus.Options) {
		o.QueueLen, o.OnState, o.Log = 4, onState, zerolog.New(zerolog.SyncWriter(&log))
	})
	other := bustest.Open(t, srv)
	onBoth(t, heard, bus.Connected)
	began, release := make(chan struct{}, 20), make(chan struct{})
	_, err := slow.Data().Subscribe("flood", func(bus.Msg) {
		began <- struct{}{}
		<-release
	})
	require.NoError(t, err)
	got := make(chan bus.Msg, 1)
	_, err = slow.Data().Subscribe("after", func(m bus.Msg) { got <- m })
	require.NoError(t, err)
	sent(t, other, "flood", 20)
	testkit.Next(t, began)
	require.NoError(t, slow.Data().Flush(testkit.Soon(t)), "it is not left before there is room")
	require.Empty(t, heard)
	close(release)
	for _, want := range []bus.StateKind{bus.Disconnected, bus.Reconnected} {
		s := testkit.Next(t, heard)
		require.Equal(t, bus.DataConn, s.Conn, "the other connection goes on")
		require.Equal(t, want, s.Kind)
	}
	require.NoError(t, other.Data().Publish("after", nil))
	testkit.Next(t, got)
	require.Len(t, began, 4, "earlier messages are handled")
	require.EqualValues(t, 1, slow.Data().ConnectionCount(), "it is left once")
	require.NoError(t, slow.Err())
	require.NoError(t, slow.Close(testkit.Soon(t)))
	require.Contains(t, log.String(), "bus inbox full, messages lost")
}

func TestInbox_lossyOneDropsCountsAndDelaysNothing_BUS2(t *testing.T) {
	const room, n = 4, 20
	srv := bustest.Server(t)
	onState, heard := states()
	slow := bustest.Open(t, srv, func(o *bus.Options) { o.QueueLen, o.OnState = room, onState })
	other := bustest.Open(t, srv)
	onBoth(t, heard, bus.Connected)
	began, release := make(chan struct{}, n), make(chan struct{})
	strangers := slow.Data().Lossy("strangers")
	require.Same(t, strangers, slow.Data().Lossy("strangers"))
	sub, err := strangers.Subscribe("flood", func(bus.Msg) {
		began <- struct{}{}
		<-release
	})
	require.NoError(t, err)
	got := make(chan string, 3)
	for subject, inbox := range map[string]*bus.Inbox{"a": slow.Data().Lossy("news"),
		"b": slow.Control().Lossy("strangers")} {
		_, err = inbox.Subscribe(subject, func(m bus.Msg) { got <- m.Subject })
		require.NoError(t, err)
	}
	_, err = slow.Data().Subscribe("c", func(m bus.Msg) { got <- m.Subject })
	require.NoError(t, err)
	require.NoError(t, other.Data().Publish("flood", nil))
	testkit.Next(t, began)
	sent(t, other, "flood", n)
	for _, subject := range []string{"a", "b", "c"} {
		require.NoError(t, other.Data().Publish(subject, nil))
		require.Equal(t, subject, testkit.Next(t, got))
	}
	require.NoError(t, slow.Data().Flush(testkit.Soon(t)))
	require.EqualValues(t, n-room, strangers.Dropped())
	require.Equal(t, map[string]uint64{"strangers": n - room, "news": 0}, slow.Dropped())
	require.NoError(t, sub.Unsubscribe())
	require.EqualValues(t, n-room, strangers.Dropped(), "the count outlives the subscription")
	require.Empty(t, heard, "no connection is lost")
	close(release)
	require.NoError(t, slow.Err())
}

// A burst over a socket is larger than every queue. A connection with a full Inbox reconnects, and
// then receives again.
func TestInbox_burstBreaksNoBus_BUS2(t *testing.T) {
	const n = 50_000
	srv := listen(t, embed.Options{})
	b, from := open(t, bus.Options{URL: srv.URL(), QueueLen: 64}), open(t, bus.Options{URL: srv.URL()})
	lossy := b.Control().Lossy("strangers")
	var handled atomic.Uint64
	count := func(bus.Msg) { handled.Add(1) }
	for _, subscribe := range []func(string, func(bus.Msg)) (*bus.Sub, error){
		b.Data().Subscribe, b.Control().Subscribe, lossy.Subscribe,
	} {
		_, err := subscribe("flood", count)
		require.NoError(t, err)
	}
	sent(t, from, "flood", n)
	for _, c := range []*bus.Conn{b.Data(), b.Control()} {
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.Request(ctx, bus.Msg{Subject: "nobody.listens"})
			return errors.Is(err, bus.ErrNoResponders)
		}, testkit.Patience, time.Millisecond)
	}
	require.NotZero(t, handled.Load())
	require.NotZero(t, b.Data().ConnectionCount()+b.Control().ConnectionCount())
	require.NoError(t, b.Err())
}

func TestSubscribe_interestExistsWhenItReturns_BUS3(t *testing.T) {
	srv := bustest.Server(t)
	a, b := bustest.Open(t, srv), bustest.Open(t, srv)
	got := make(chan bus.Msg, 1)
	for i := range 300 {
		subject := fmt.Sprintf("fresh.%d", i)
		_, err := a.Data().Subscribe(subject, func(m bus.Msg) { got <- m })
		require.NoError(t, err)
		require.NoError(t, b.Data().Publish(subject, []byte("at once")))
		require.Equal(t, subject, testkit.Next(t, got).Subject)
	}
}

func TestClose_noHandlerRunsAfterwards_BUS5(t *testing.T) {
	srv := bustest.Server(t)
	a, b := bustest.Open(t, srv), bustest.Open(t, srv)
	var closed atomic.Bool
	var late atomic.Int64
	began := make(chan struct{}, 1)
	_, err := a.Data().Subscribe("x", func(bus.Msg) {
		select {
		case began <- struct{}{}:
		default:
		}
		if closed.Load() {
			late.Add(1)
		}
	})
	require.NoError(t, err)
	for range 5_000 {
		require.NoError(t, b.Data().Publish("x", nil))
	}
	testkit.Next(t, began)
	require.NoError(t, a.Close(testkit.Soon(t)))
	closed.Store(true)
	testkit.Next(t, a.Done())
	require.NoError(t, a.Err(), "a Close asked for is no failure")
	require.NoError(t, b.Data().Publish("x", nil))
	require.NoError(t, b.Data().Flush(testkit.Soon(t)))
	require.Zero(t, late.Load())
	require.NoError(t, a.Close(testkit.Soon(t)), "a second Close does nothing")
	require.ErrorIs(t, a.Data().Publish("x", nil), bus.ErrClosed)
	require.ErrorIs(t, a.Data().Flush(testkit.Soon(t)), bus.ErrClosed)
	_, err = a.Data().Subscribe("x", func(bus.Msg) {})
	require.ErrorIs(t, err, bus.ErrClosed)
}

func TestHandler_panicBreaksTheBusNotTheProcess_BUS5(t *testing.T) {
	srv := bustest.Server(t)
	a, b := bustest.Open(t, srv), bustest.Open(t, srv)
	_, err := a.Control().Subscribe("boom", func(bus.Msg) { panic("no") })
	require.NoError(t, err)
	require.NoError(t, b.Data().Publish("boom", nil))
	testkit.Next(t, a.Done())
	require.ErrorIs(t, a.Err(), bus.ErrHandlerPanic)
	require.ErrorContains(t, a.Err(), "control connection: no")
}

func TestClose_hungHandlerDelaysItOnlyUntilItsContextEnds(t *testing.T) {
	srv := bustest.Server(t)
	b, err := bus.Open(testkit.Soon(t), bus.Options{Server: srv})
	require.NoError(t, err)
	began, release := make(chan struct{}), make(chan struct{})
	_, err = b.Control().Subscribe("x", func(bus.Msg) { close(began); <-release })
	require.NoError(t, err)
	require.NoError(t, b.Control().Publish("x", nil))
	testkit.Next(t, began)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = b.Close(ctx)
	close(release)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "control connection")
	require.Equal(t, err, b.Close(testkit.Soon(t)))
}

func TestData_doesNotEchoItsOwnMessages(t *testing.T) {
	b := bustest.Open(t, bustest.Server(t))
	got := make(chan string, 10)
	_, err := b.Data().Subscribe("x", func(m bus.Msg) { got <- string(m.Data) })
	require.NoError(t, err)
	require.NoError(t, b.Data().Publish("x", []byte("echo")))
	require.NoError(t, b.Data().Flush(testkit.Soon(t)))
	require.NoError(t, b.Control().Publish("x", []byte("from control")))
	require.Equal(t, "from control", testkit.Next(t, got))
	require.Empty(t, got)
}

func TestSubscribe_severalOnOneSubjectEachReceive(t *testing.T) {
	srv := bustest.Server(t)
	a, b := bustest.Open(t, srv), bustest.Open(t, srv)
	one, two := make(chan bus.Msg, 10), make(chan bus.Msg, 10)
	first, err := a.Data().Subscribe("x", func(m bus.Msg) { one <- m })
	require.NoError(t, err)
	_, err = a.Data().Subscribe("x", func(m bus.Msg) { two <- m })
	require.NoError(t, err)
	require.NoError(t, b.Data().Publish("x", []byte("1")))
	testkit.Next(t, one)
	testkit.Next(t, two)

	require.NoError(t, first.Unsubscribe())
	require.NoError(t, first.Unsubscribe(), "twice is once")
	require.NoError(t, b.Data().Publish("x", []byte("2")))
	require.Equal(t, "2", string(testkit.Next(t, two).Data))
	require.Empty(t, one)
}

func TestClose_leavesNoSubscriptionAndNoConnection(t *testing.T) {
	srv := bustest.Server(t)
	clients, subs := srv.NumClients(), srv.NumSubs()
	b, err := bus.Open(testkit.Soon(t), bus.Options{Server: srv})
	require.NoError(t, err)
	_, err = b.Data().Subscribe("x", func(bus.Msg) {})
	require.NoError(t, err)
	require.Equal(t, clients+2, srv.NumClients())
	require.NoError(t, b.Close(testkit.Soon(t)))
	require.Eventually(t, func() bool { return srv.NumClients() == clients && srv.NumSubs() == subs },
		testkit.Patience, time.Millisecond)
}

func TestSynctest_twoBusesExchangeHeartbeatsForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, b := bustest.Open(t, srv), bustest.Open(t, srv)
		var beats atomic.Int64
		_, err := b.Control().Subscribe("hb", func(bus.Msg) { beats.Add(1) })
		require.NoError(t, err)
		for range 3600 {
			require.NoError(t, a.Control().Publish("hb", nil))
			time.Sleep(time.Second) // virtual
		}
		synctest.Wait()
		require.EqualValues(t, 3600, beats.Load())
		require.NoError(t, a.Err())

		_, err = b.Control().Subscribe("ask", func(m bus.Msg) { _ = b.Control().Publish(m.Reply, m.Data) })
		require.NoError(t, err)
		reply, err := a.Data().Request(t.Context(), bus.Msg{Subject: "ask", Data: []byte("?")})
		require.NoError(t, err)
		require.Equal(t, "?", string(reply.Data))
	})
}

func TestSynctest_secondBubbleWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.Open(t, bustest.Server(t))
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := b.Control().Subscribe("silent", func(bus.Msg) {})
		require.NoError(t, err)
		_, err = b.Control().Request(ctx, bus.Msg{Subject: "silent"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 10*time.Minute, time.Since(began))
	})
}
