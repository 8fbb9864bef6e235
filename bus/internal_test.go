package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/embed"
)

// dialAsIfRemote connects over a pipe but judges the server as one found by
// its URL; a pipe has no loopback address.
func dialAsIfRemote(t *testing.T, so embed.Options, change func(*Conn, *Options)) error {
	t.Helper()
	so.DontListen = true
	srv, err := embed.Start(t.Context(), so)
	require.NoError(t, err)
	defer srv.Shutdown()
	o := Options{Server: srv}.withDefaults()
	b := &Bus{done: make(chan struct{})}
	c := newConn(b, DataConn, o)
	c.policy.inProcess = false
	change(c, &o)
	err = c.dial(t.Context(), o)
	if err == nil {
		b.shutdown(nil)
		c.nc.Close()
	}
	<-c.closed
	return err
}

func TestOptions_aServerOfThisProcessHasMoreTimeToConnect(t *testing.T) {
	srv, err := embed.Start(t.Context(), embed.Options{DontListen: true})
	require.NoError(t, err)
	defer srv.Shutdown()
	require.Equal(t, defaultConnectTimeout, Options{}.withDefaults().ConnectTimeout)
	require.Equal(t, inProcessTimeout, Options{Server: srv}.withDefaults().ConnectTimeout)
	require.Equal(t, time.Minute, Options{Server: srv, ConnectTimeout: time.Minute}.withDefaults().ConnectTimeout)
}

func TestOpen_refusesAnOpenServerOffLoopback_BUS4(t *testing.T) {
	err := dialAsIfRemote(t, embed.Options{}, func(*Conn, *Options) {})
	var failed *ConnectError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, UnauthenticatedRemote, failed.Reason)

	require.NoError(t, dialAsIfRemote(t, embed.Options{}, func(c *Conn, _ *Options) { c.policy.insecure = true }))
	require.NoError(t, dialAsIfRemote(t, embed.Options{Token: "t"}, func(_ *Conn, o *Options) { o.Token = "t" }))
	// A certificate that was never shown, since there is no TLS, is none.
	err = dialAsIfRemote(t, embed.Options{}, func(c *Conn, _ *Options) { c.policy.clientCert = true })
	require.ErrorAs(t, err, &failed)
}

// A connection may be lost again before the check of its server.
func TestReconnect_alreadyLostConnectionBreaksNothing_BUS4(t *testing.T) {
	srv, err := embed.Start(t.Context(), embed.Options{})
	require.NoError(t, err)
	b, err := Open(t.Context(), Options{URL: srv.URL()})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(context.Background())) }()
	srv.Shutdown()
	nc := b.Data().nc
	require.Eventually(t, func() bool { return !nc.IsConnected() }, 10*time.Second, time.Millisecond)
	b.Data().onReconnected(nc) // it is told late
	require.NoError(t, b.Err())
}

func TestConnectError_namesURLReasonCauseAndHint(t *testing.T) {
	err := &ConnectError{URL: "nats://h", Reason: NoServer, Err: errors.New("why"), Hint: "by the way"}
	require.EqualError(t, err, "bus: connect to nats://h: nothing is listening there: why (by the way)")
}

func TestReconnectDelay_growsToItsMaximum(t *testing.T) {
	for _, most := range []time.Duration{10 * time.Millisecond, 2 * time.Second, time.Hour} {
		var last time.Duration
		for i := range 100 {
			d := reconnectDelay(i+1, most)
			require.GreaterOrEqual(t, d, min(last*5/6, most), "attempt %d", i+1)
			require.LessOrEqual(t, d, most+most/5)
			last = d
		}
		require.GreaterOrEqual(t, last, most)
		require.Less(t, reconnectDelay(1, most), 2*reconnectWait)
	}
}

func FuzzParsePermission(f *testing.F) {
	for _, text := range []string{
		`Permissions Violation for Publish to "a.b"`, `Permissions Violation for Subscription to "a.*"`,
		`Permissions Violation for Subscription to "a.*" using queue "q"`, `"`, `""`, ``,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := parsePermission(errors.New(text))
		require.NotEmpty(t, p.Op)
	})
}

func TestParsePermission_findsOperationAndSubject(t *testing.T) {
	for _, subject := range []string{"a.b", "A.*.>", `quo"ted`, "ümlaut"} {
		for op, word := range map[Op]string{OpPublish: "Publish", OpSubscribe: "Subscription"} {
			err := fmt.Errorf("%w: Permissions Violation for %s to %q", nats.ErrPermissionViolation, word, subject)
			require.Equal(t, &PermissionError{Op: op, Subject: subject}, parsePermission(err))
		}
	}
	odd := errors.New("Permissions Violation for something")
	require.Equal(t, odd.Error(), parsePermission(odd).Subject)
}

func TestPermission_checkAwaitsAQueuedDenial(t *testing.T) {
	var v denials
	s := &Sub{subject: "x"}
	defer v.expect(s)()
	queued := fmt.Errorf("%w: whatever", nats.ErrPermissionViolation)
	got := make(chan error, 1)
	asked := make(chan struct{})
	go func() {
		got <- v.check(t.Context(), s, func() error { close(asked); return queued })
	}()
	<-asked
	require.True(t, v.record(&PermissionError{Op: OpSubscribe, Subject: "x"}))
	v.markHandled(queued)
	require.EqualError(t, <-got, `bus: no permission to subscribe "x"`)
	require.False(t, v.record(&PermissionError{Op: OpSubscribe, Subject: "y"}))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := &Sub{subject: "z"}
	defer v.expect(other)()
	never := fmt.Errorf("%w: never handled", nats.ErrPermissionViolation)
	require.ErrorIs(t, v.check(ctx, other, func() error { return never }), context.Canceled)
}
