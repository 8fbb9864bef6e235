package bus_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// keyed is a server that takes JWTs, and the key of one host for it.
type keyed struct {
	server *embed.Server
	key    auth.HostKey
}

func newKeyed(t testing.TB) keyed {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, auth.Init(dir, subjects.Space{}))
	var k keyed
	require.NoError(t, auth.Update(dir, func(a *auth.Authority) (err error) {
		k.key, err = a.AddHost("n07", false)
		require.NoError(t, err)
		conf, err := a.Conf(auth.Server{Listen: "127.0.0.1:-1", Data: t.TempDir()})
		k.server = listen(t, embed.Options{ConfigFile: config(t, conf)})
		return err
	}))
	return k
}

// creds writes credentials of a proc of the host.
func (k keyed) creds(t testing.TB, path string, life time.Duration) {
	t.Helper()
	text, err := k.key.MintProc(life)
	require.NoError(t, err)
	require.NoError(t, auth.WritePrivate(path, text))
}

// jwt is a JWT that nobody signed, with claims.
func jwt(claims string) string {
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s"
}

func TestCredentials_eachConnectionRenewsBeforeTheEndAtItsOwnMoment_BUS9(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	path := filepath.Join(t.TempDir(), "proc.creds")
	const life = 4 * time.Second
	k.creds(t, path, life)
	onState, heard := states()
	b := open(t, bus.Options{URL: k.server.URL(), Creds: path, OnState: onState})
	k.creds(t, path, time.Hour) // in time
	began := time.Now()
	lost := map[bus.ConnName]int{}
	var gone []bus.ConnName // at this moment
	for back := 0; back < 2; {
		switch s := testkit.Next(t, heard); s.Kind {
		case bus.Disconnected:
			require.NoError(t, s.Err, "the client left, not the server")
			require.Empty(t, gone, "the other connection stays")
			gone = append(gone, s.Conn)
			lost[s.Conn]++
		case bus.Reconnected:
			gone, back = nil, back+1
		}
	}
	require.Less(t, time.Since(began), life)
	require.Equal(t, map[bus.ConnName]int{bus.DataConn: 1, bus.ControlConn: 1}, lost)
	require.NoError(t, b.Err())
}

func TestCredentials_noCallFailsByARenewal_BUS9(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	const life, lives = 4 * time.Second, 2
	b := open(t, bus.Options{URL: k.server.URL(), InboxPrefix: "_INBOX.h-n07",
		UserJWT: func() (string, string, error) { return k.key.MintHost(life) }})
	space := subjects.Space{}
	host, err := subjects.NewHostID("n07")
	require.NoError(t, err)
	from := subjects.NewSender(subjects.Host.Principal("n07"), host.Proc().Process())
	answer, err := b.Data().Subscribe(space.HostReads(host.String(), "ping"), func(m bus.Msg) {
		_ = b.Data().Publish(m.Reply, []byte("pong"))
	})
	require.NoError(t, err)
	var calls, lost int
	for began := time.Now(); time.Since(began) < lives*life; calls++ {
		c := b.Control()
		for answered := false; !answered; {
			ctx, cancel := context.WithTimeout(t.Context(), life/20) // a renewal waits for it
			_, err := c.Request(ctx, bus.Msg{Subject: space.HostRead(host.String(), "ping", from)})
			cancel()
			answered = err == nil
			if err != nil && !errors.Is(err, bus.ErrNoResponders) {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				lost++ // on its way to the responder's connection, which renewed
			}
		}
		require.NoError(t, c.Publish(space.Heartbeat("host", from), nil))
		require.NoError(t, c.Flush(testkit.Soon(t)))
		sub, err := c.Subscribe(space.Heartbeats("gone"), func(bus.Msg) {})
		require.NoError(t, err)
		require.NoError(t, sub.Unsubscribe())
	}
	require.NoError(t, answer.Unsubscribe())
	require.GreaterOrEqual(t, b.Control().ConnectionCount(), uint64(lives-1))
	t.Logf("%d calls, %d requests lost, %d reconnects", calls, lost, b.Control().ConnectionCount())
}

func TestCredentials_anExpiredOneIsReplacedAtTheNextConnect_BUS9(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	old, seed, err := k.key.MintHost(4 * time.Second) // whole seconds: 3 to 4
	require.NoError(t, err)
	var asked atomic.Int32
	var renewed atomic.Bool
	onState, heard := states()
	b := open(t, bus.Options{URL: k.server.URL(), OnState: onState, ReconnectMax: 50 * time.Millisecond,
		UserJWT: func() (string, string, error) {
			if renewed.Load() {
				return k.key.MintHost(time.Hour)
			}
			asked.Add(1)
			return old, seed, nil
		}})
	awaitState(t, heard, bus.DataConn, bus.Disconnected)
	expired := asked.Load()
	testkit.Until(t, "more than two refusals of each connection", func() bool { return asked.Load() > expired+6 })
	require.NoError(t, b.Err())
	renewed.Store(true)
	awaitState(t, heard, bus.DataConn, bus.Reconnected)
	testkit.Until(t, "a connection; a renewal may break it once more", func() bool {
		return b.Data().Flush(testkit.Soon(t)) == nil
	})
}

func TestCredentials_refusalsEndTheBusAfterTheirBound_BUS9(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	path := filepath.Join(t.TempDir(), "proc.creds")
	k.creds(t, path, 4*time.Second) // whole seconds: 3 to 4
	began := time.Now()             // before the first refusal
	b := open(t, bus.Options{URL: k.server.URL(), Creds: path, ReconnectMax: 50 * time.Millisecond,
		RefusedTimeout: time.Second})
	testkit.Next(t, b.Done())
	require.Greater(t, time.Since(began), time.Second)
	var failed *bus.ConnectError
	require.ErrorAs(t, b.Err(), &failed)
	require.Equal(t, bus.WrongCredentials, failed.Reason)
	require.ErrorContains(t, b.Err(), `the JWT of "p-n07" expired at `)
	require.ErrorContains(t, b.Err(), "make a new one")
}

func TestOpen_namesWhatIsWrongWithCredentials(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	now := time.Now().Unix()
	_, seed, err := k.key.MintHost(time.Hour)
	require.NoError(t, err)
	for claims, want := range map[string]string{
		fmt.Sprintf(`{"name":"u-a","exp":%d}`, now-3600): `the JWT of "u-a" expired at `,
		fmt.Sprintf(`{"name":"u-a","nbf":%d}`, now+3600): "compare the clock of this machine",
		fmt.Sprintf(`{"name":"u-a","exp":%d}`, now+3600): "or one of the clocks is wrong",
		`{"name":"u-a"}`: `the JWT of "u-a" has no end: the server may have another operator or account`,
	} {
		_, err := bus.Open(testkit.Soon(t), bus.Options{URL: k.server.URL(), JWT: jwt(claims), Seed: seed})
		var failed *bus.ConnectError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, bus.WrongCredentials, failed.Reason)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), seed)
	}
	broken := filepath.Join(t.TempDir(), "broken.creds")
	for text, want := range map[string]string{
		"":                         "cannot read credentials",
		seed:                       "malformed jwt",
		strings.Repeat("x", 1<<17): "want at most 65536 bytes",
	} {
		require.NoError(t, os.WriteFile(broken, []byte(text), 0o600))
		_, err := bus.Open(testkit.Soon(t), bus.Options{URL: k.server.URL(), Creds: broken})
		require.ErrorContains(t, err, "cannot read credentials")
		require.Contains(t, strings.ToLower(err.Error()), want)
	}
	_, err = bus.Open(testkit.Soon(t), bus.Options{URL: k.server.URL(), Creds: broken + ".none"})
	require.ErrorContains(t, err, "cannot read credentials")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestOpen_asksForAUserAtEachConnect_BUS9(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	var asked atomic.Int32
	b := open(t, bus.Options{URL: k.server.URL(), UserJWT: func() (string, string, error) {
		asked.Add(1)
		return k.key.MintHost(time.Hour)
	}})
	require.NoError(t, b.Control().Flush(testkit.Soon(t)))
	require.GreaterOrEqual(t, asked.Load(), int32(2))
	failure := errors.New("no key")
	_, err := bus.Open(testkit.Soon(t), bus.Options{URL: k.server.URL(),
		UserJWT: func() (string, string, error) { return "", "", failure }})
	require.ErrorIs(t, err, failure)
}

func TestUserName_isThatOfTheCredentials(t *testing.T) {
	k := newKeyed(t)
	path := filepath.Join(t.TempDir(), "proc.creds")
	k.creds(t, path, time.Hour)
	for want, o := range map[string]bus.Options{
		"p-n07": {Creds: path}, "h-n07": {UserJWT: func() (string, string, error) { return k.key.MintHost(time.Hour) }},
		"o-bob": {User: "o-bob", Password: "x"}, "u-a": {JWT: jwt(`{"name":"u-a"}`), Seed: "x"}, "": {Token: "t"},
	} {
		require.Equal(t, want, o.UserName())
	}
	unreadable := bus.Options{Creds: path + ".none", User: "u-other"}
	require.Empty(t, unreadable.UserName())
}

// No text makes the reader of claims panic.
func FuzzUserJWT(f *testing.F) {
	for _, text := range []string{"", "a.b.c", "..", jwt(`{"name":"u-a","exp":1,"nbf":2}`), jwt(`{"exp":1e400}`), jwt("[")} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := bus.Options{JWT: text, Seed: "x"}
		_ = o.UserName()
	})
}
