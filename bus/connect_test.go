package bus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestOpen_failsWithTheReasonAndWithoutSecrets(t *testing.T) {
	srv := listen(t, embed.Options{User: "alice", Password: "secret"})
	gone := listen(t, embed.Options{})
	goneURL := gone.URL()
	gone.Shutdown()
	withUser := func(u string) string {
		parsed, err := url.Parse(u)
		require.NoError(t, err)
		parsed.User = url.UserPassword("alice", "hunter2")
		return parsed.String()
	}
	for name, tc := range map[string]struct {
		o      bus.Options
		reason bus.Reason
		url    string
	}{
		"no credentials":    {bus.Options{URL: srv.URL()}, bus.WrongCredentials, srv.URL()},
		"wrong credentials": {bus.Options{URL: withUser(srv.URL())}, bus.WrongCredentials, srv.URL()},
		"wrong credentials in the process": {bus.Options{Server: srv, User: "alice", Password: "hunter2"},
			bus.WrongCredentials, "the server in this process"},
		"nothing there": {bus.Options{URL: withUser(goneURL)}, bus.NoServer, goneURL},
		"two, none there": {bus.Options{URL: withUser(goneURL) + ", " + goneURL}, bus.NoServer,
			goneURL + "," + goneURL},
		"not a URL":         {bus.Options{URL: "nats://alice:hunter2@%zz"}, bus.BadOptions, "nats://%zz"},
		"half a key pair":   {bus.Options{URL: srv.URL(), CertFile: "c.pem"}, bus.BadOptions, srv.URL()},
		"half a JWT":        {bus.Options{URL: srv.URL(), JWT: "x"}, bus.BadOptions, srv.URL()},
		"nobody's password": {bus.Options{URL: srv.URL(), Password: "hunter2"}, bus.BadOptions, srv.URL()},
		"no such nkey file": {bus.Options{URL: srv.URL(), NKey: "/none"}, bus.BadOptions, srv.URL()},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := bus.Open(testkit.Soon(t), tc.o)
			require.Nil(t, b)
			var failed *bus.ConnectError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, tc.reason, failed.Reason)
			require.Equal(t, tc.url, failed.URL)
			require.NotContains(t, err.Error(), "hunter2")
			require.Equal(t, name == "no credentials", strings.Contains(err.Error(), "this client gave none"))
		})
	}
}

func TestOpen_timesOutOnASilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() // accepts, by the kernel, and is silent
	began := time.Now()
	_, err = bus.Open(testkit.Soon(t),
		bus.Options{URL: "nats://" + l.Addr().String(), ConnectTimeout: 50 * time.Millisecond})
	var failed *bus.ConnectError
	require.ErrorAs(t, err, &failed)
	require.Less(t, time.Since(began), testkit.Patience/2)
}

func TestOpen_respectsACancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := bus.Open(ctx, bus.Options{Server: bustest.Server(t)})
	require.ErrorIs(t, err, context.Canceled)
}

func TestOpen_passesCredentialsAndNamesTheConnections(t *testing.T) {
	srv := listen(t, embed.Options{Token: "t0ken"})
	b := open(t, bus.Options{URL: srv.URL(), Token: srv.Token(), Name: "hostd/n07"})
	require.Equal(t, srv.URL(), b.Data().URL())
	require.Equal(t, 2, srv.NumClients())
	require.Equal(t, 1<<20, b.Control().MaxPayload())
}

func TestPublish_refusesMessagesAboveMaxPayload(t *testing.T) {
	b := bustest.Open(t, bustest.Server(t, func(o *embed.Options) { o.MaxPayload = 1000 }))
	err := b.Data().Publish("big", make([]byte, 1001))
	require.ErrorIs(t, err, bus.ErrTooLarge)
	require.ErrorContains(t, err, `1001 bytes to "big", the server accepts 1000`)

	// "NATS/1.0\r\n" + "k: v\r\n" + "\r\n" are 18 bytes.
	m := bus.Msg{Subject: "big", Header: bus.Header{"k": {"v"}}, Data: make([]byte, 1000-18)}
	require.NoError(t, b.Data().PublishMsg(m))
	m.Data = append(m.Data, 0)
	require.ErrorContains(t, b.Data().PublishMsg(m), "1001 bytes")

	long := string(make([]byte, 5000))
	require.ErrorIs(t, b.Data().Publish(long, nil), bus.ErrBadSubject)
	require.ErrorIs(t, b.Data().PublishMsg(bus.Msg{Subject: "x", Reply: long}), bus.ErrBadSubject)
	_, err = b.Data().Subscribe(long, func(bus.Msg) {})
	require.ErrorIs(t, err, bus.ErrBadSubject)
	require.ErrorIs(t, b.Data().Publish("with space", nil), bus.ErrBadSubject)
	require.ErrorIs(t, b.Data().Publish("", nil), bus.ErrBadSubject)
	_, err = b.Data().Subscribe("a..b", func(bus.Msg) {})
	require.ErrorIs(t, err, bus.ErrBadSubject)
	require.NoError(t, b.Data().Flush(testkit.Soon(t)), "the connection is whole")
}

func TestPermission_deniedSubscribeIsAnError(t *testing.T) {
	srv := bustest.Server(t, func(o *embed.Options) { o.ConfigFile = config(t, restricted) })
	onState, heard := states()
	b := bustest.Open(t, srv, func(o *bus.Options) {
		o.User, o.Password, o.OnState = "alice", "secret", onState
	})
	errs := make(chan error, 200)
	for i := range cap(errs) { // at once, with denied publishes in between
		go func() {
			subject := fmt.Sprintf("shut.%d", i)
			_ = b.Data().Publish(subject, nil)
			_, err := b.Data().Subscribe(subject, func(bus.Msg) {})
			if e, ok := errors.AsType[*bus.PermissionError](err); ok &&
				*e == (bus.PermissionError{Op: bus.OpSubscribe, Subject: subject}) {
				err = nil
			} else {
				err = fmt.Errorf("subscribe to %s: %v", subject, err) //nolint:errorlint // it may be nil
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		require.NoError(t, testkit.Next(t, errs))
	}
	require.Equal(t, bus.OpPublish, firstDenied(t, heard, bus.OpPublish).Op)
	_, err := b.Data().Subscribe("open.x", func(bus.Msg) {})
	require.NoError(t, err)
	require.NoError(t, b.Err())
}

func TestPermission_deniedPublishIsAState(t *testing.T) {
	srv := bustest.Server(t, func(o *embed.Options) { o.ConfigFile = config(t, restricted) })
	onState, heard := states()
	b := bustest.Open(t, srv, func(o *bus.Options) {
		o.User, o.Password, o.OnState = "alice", "secret", onState
	})
	for i := range 5 {
		require.NoError(t, b.Data().Publish(fmt.Sprintf(`shut."Quoted".%d`, i), nil))
	}
	for i := range 5 {
		denied := firstDenied(t, heard, bus.OpPublish)
		require.Equal(t, fmt.Sprintf(`shut."Quoted".%d`, i), denied.Subject)
	}
}

func firstDenied(t testing.TB, heard <-chan bus.State, op bus.Op) *bus.PermissionError {
	t.Helper()
	for {
		s := awaitState(t, heard, bus.DataConn, bus.Denied)
		denied, ok := errors.AsType[*bus.PermissionError](s.Err)
		require.True(t, ok)
		if denied.Op == op {
			return denied
		}
	}
}

func TestReconnect_keepsSubscriptionsAndFailsPublishesMeanwhile(t *testing.T) {
	address := bustest.NewAddress(t)
	srv := listenAt(t, address, embed.Options{})
	onState, heard := states()
	a := open(t, bus.Options{URL: address.URL(), OnState: onState})
	got := make(chan string, 1)
	_, err := a.Data().Subscribe("x", func(m bus.Msg) { got <- string(m.Data) })
	require.NoError(t, err)
	awaitState(t, heard, bus.DataConn, bus.Connected)

	address.Stop(srv)
	awaitState(t, heard, bus.DataConn, bus.Disconnected)
	began := time.Now()
	require.ErrorIs(t, a.Data().Publish("x", nil), bus.ErrDisconnected)
	require.ErrorIs(t, a.Data().Flush(testkit.Soon(t)), bus.ErrDisconnected)
	_, err = a.Data().Subscribe("y", func(bus.Msg) {})
	require.ErrorIs(t, err, bus.ErrDisconnected)
	require.Less(t, time.Since(began), testkit.Patience/4, "nothing waits for the server to come back")
	require.Empty(t, a.Data().URL())

	again := listenAt(t, address, embed.Options{})
	awaitState(t, heard, bus.DataConn, bus.Reconnected)
	b := open(t, bus.Options{URL: again.URL()})
	require.NoError(t, b.Data().Publish("x", []byte("after")))
	require.Equal(t, "after", testkit.Next(t, got))
	require.NoError(t, a.Err())
}

func TestReconnect_authorizationFailureBreaksTheBus(t *testing.T) {
	address := bustest.NewAddress(t)
	srv := listenAt(t, address, embed.Options{Token: "old"})
	b := open(t, bus.Options{URL: address.URL(), Token: "old"})
	address.Stop(srv)
	listenAt(t, address, embed.Options{Token: "new"})
	testkit.Next(t, b.Done())
	require.ErrorContains(t, b.Err(), "closed by the server")
	require.ErrorContains(t, b.Err(), "Authorization Violation")
}

func TestReconnect_deniedSubscriptionBreaksTheBus(t *testing.T) {
	address := bustest.NewAddress(t)
	srv := listenAt(t, address, embed.Options{User: "alice", Password: "secret"})
	b := open(t, bus.Options{URL: address.URL(), User: "alice", Password: "secret"})
	_, err := b.Control().Subscribe("shut.x", func(bus.Msg) {})
	require.NoError(t, err)
	address.Stop(srv)
	listenAt(t, address, embed.Options{ConfigFile: config(t, restricted)})
	testkit.Next(t, b.Done())
	require.Equal(t, &bus.PermissionError{Op: bus.OpSubscribe, Subject: "shut.x"}, b.Err())
}

func TestLameDuck_clientLeavesBeforeTheServerStops(t *testing.T) {
	srv := listen(t, embed.Options{ConfigFile: config(t, `lame_duck_grace_period: "50ms"`)})
	onState, heard := states()
	b := open(t, bus.Options{URL: srv.URL(), OnState: onState})
	awaitState(t, heard, bus.ControlConn, bus.Connected)
	done := make(chan struct{})
	go func() { srv.LameDuck(); close(done) }()
	awaitState(t, heard, bus.ControlConn, bus.Disconnected)
	testkit.Next(t, done)
	require.NoError(t, b.Err())
}

func TestForeign_malformedHeadersAreHarmless(t *testing.T) {
	srv := bustest.Server(t)
	b := bustest.Open(t, srv)
	got := make(chan bus.Msg, 10)
	_, err := b.Data().Subscribe("x", func(m bus.Msg) { got <- m })
	require.NoError(t, err)
	conn, err := srv.InProcessConn()
	require.NoError(t, err)
	defer conn.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for _, hdr := range []string{"", "NATS/1.0\r\n", "HTTP/1.0\r\n\r\n", "NATS/1.0 503\r\n\r\n",
		"NATS/1.0\r\n: \r\n\r\n", "\x00\xff"} {
		_, err := fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB x %d %d\r\n%sbody\r\n",
			len(hdr), len(hdr)+4, hdr)
		require.NoError(t, err)
		m := testkit.Next(t, got)
		require.Equal(t, "body", string(m.Data))
		require.False(t, m.NoResponders, "a body is no hint")
	}
	require.NoError(t, b.Err())
}

func TestConn_detectsAClusteredServer(t *testing.T) {
	require.False(t, bustest.Open(t, bustest.Server(t)).Data().Clustered())
	srv := bustest.Server(t, func(o *embed.Options) {
		o.ConfigFile, o.DontListen = config(t, `cluster { name: several, listen: "127.0.0.1:-1" }`), false
	})
	require.True(t, bustest.Open(t, srv).Data().Clustered())
}
