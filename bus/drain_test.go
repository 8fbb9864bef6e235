package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

// held is a member of a group. Its handler waits in the first message, with n messages behind it.
func held(t *testing.T, b, from *bus.Bus, n int) (sub *bus.Sub, release chan struct{}, heard chan bus.Msg) {
	t.Helper()
	began, release := make(chan struct{}), make(chan struct{})
	heard = make(chan bus.Msg, 2*n)
	first := true
	sub, err := b.Data().SubscribeGroup("jobs", "workers", func(m bus.Msg) {
		if !first {
			heard <- m
			return
		}
		first = false
		close(began)
		<-release
	})
	require.NoError(t, err)
	for range n + 1 {
		require.NoError(t, from.Data().Publish("jobs", nil))
	}
	require.NoError(t, from.Data().Flush(testkit.Soon(t)))
	testkit.Next(t, began)
	return sub, release, heard
}

func TestDrain_handlerGetsExactlyWhatTheServerSent(t *testing.T) {
	const n = 1000
	srv := bustest.Server(t)
	a, from := bustest.Open(t, srv), bustest.Open(t, srv)
	sub, release, heard := held(t, a, from, n)
	members, over := srv.NumSubs(), make(chan error, 1)
	go func() { over <- sub.Drain(context.Background()) }()
	require.Eventually(t, func() bool { return srv.NumSubs() < members }, testkit.Patience, time.Millisecond)
	_, err := from.Control().Request(testkit.Soon(t), bus.Msg{Subject: "jobs"})
	require.ErrorIs(t, err, bus.ErrNoResponders, "it is no member any more")
	require.Empty(t, over, "it waits for the handler")
	close(release)
	require.NoError(t, testkit.Next(t, over))
	require.Len(t, heard, n)
	require.NoError(t, sub.Drain(testkit.Soon(t)), "twice is once")
	require.NoError(t, sub.Unsubscribe())
	require.NoError(t, a.Err())
}

func TestDrain_respectsItsDeadline(t *testing.T) {
	srv := bustest.Server(t)
	a, from := bustest.Open(t, srv), bustest.Open(t, srv)
	sub, release, heard := held(t, a, from, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := sub.Drain(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, `drain "jobs"`)
	last := make(chan bus.Msg, 1)
	_, err = a.Data().Subscribe("last", func(m bus.Msg) { last <- m })
	require.NoError(t, err)
	require.NoError(t, from.Data().Publish("last", nil))
	close(release)
	testkit.Next(t, last)
	require.Empty(t, heard, "its other messages are dropped")
}

func TestDrain_withoutAServerDeliversWhatArrived(t *testing.T) {
	const n = 10
	address := bustest.NewAddress(t)
	srv := listenAt(t, address, embed.Options{})
	onState, states := states()
	a, from := open(t, bus.Options{URL: address.URL(), OnState: onState}), open(t, bus.Options{URL: srv.URL()})
	sub, release, heard := held(t, a, from, n)
	require.NoError(t, a.Data().Flush(testkit.Soon(t)), "it has them")
	address.Stop(srv)
	awaitState(t, states, bus.DataConn, bus.Disconnected)
	over := make(chan error, 1)
	go func() { over <- sub.Drain(context.Background()) }()
	close(release)
	require.NoError(t, testkit.Next(t, over))
	require.Len(t, heard, n)

	again := listenAt(t, address, embed.Options{})
	awaitState(t, states, bus.DataConn, bus.Reconnected)
	_, err := open(t, bus.Options{URL: again.URL()}).Data().Request(testkit.Soon(t), bus.Msg{Subject: "jobs"})
	require.ErrorIs(t, err, bus.ErrNoResponders)
}
