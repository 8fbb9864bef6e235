package embed_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o embed.Options) *embed.Server {
	t.Helper()
	srv, err := embed.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	return srv
}

func config(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestOptions_zeroValueListensOnALoopbackPort_EMB1(t *testing.T) {
	a, b := start(t, embed.Options{}), start(t, embed.Options{})
	require.NotEqual(t, a.URL(), b.URL())
	u, err := url.Parse(a.URL())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", u.Hostname())
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	defer conn.Close()
	hello := make([]byte, 4)
	_, err = conn.Read(hello)
	require.NoError(t, err)
	require.Equal(t, "INFO", string(hello))
}

func TestStart_portInUseNamesTheAddress_EMB1(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	_, err = embed.Start(t.Context(), embed.Options{Port: n})
	var failed *embed.StartError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, l.Addr().String(), failed.Addr)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}

func TestStart_refusesBadOptions(t *testing.T) {
	for want, o := range map[string]embed.Options{
		"port is -1":                    {Port: -1},
		"port is 70000":                 {Port: 70000},
		"MaxPayload is -1":              {MaxPayload: -1},
		"want a User with the Password": {Password: "p"},
		"no-such-file":                  {ConfigFile: "/no-such-file"},
		"nats.conf":                     {ConfigFile: config(t, `port: "many"`)},
		"cannot assign requested":       {Host: "192.0.2.1", Token: "t"},
	} {
		_, err := embed.Start(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
}

func TestStart_offLoopbackRequiresAuthentication_EMB2(t *testing.T) {
	for _, o := range []embed.Options{
		{Host: "0.0.0.0"},
		{Host: "::"},
		{Host: "some.host"},
		{ConfigFile: config(t, `host: "0.0.0.0"`)},
		{ConfigFile: config(t,
			`host: "0.0.0.0", no_auth_user: a, accounts { A { users: [{user: a, password: p}] } }`)},
	} {
		_, err := embed.Start(t.Context(), o)
		require.ErrorIs(t, err, embed.ErrUnauthenticated)
	}
	// A server with authentication passes the check and fails later, at the address. So the test
	// opens no port to the network.
	for _, o := range []embed.Options{
		{Host: "192.0.2.1", Token: "t"},
		{Host: "192.0.2.1", User: "u", Password: "p"},
		{Host: "192.0.2.1", Insecure: true},
		{Host: "192.0.2.1", ConfigFile: config(t, `accounts { A { users: [{user: a, password: p}] } }`)},
	} {
		_, err := embed.Start(t.Context(), o)
		require.Error(t, err)
		require.NotErrorIs(t, err, embed.ErrUnauthenticated)
	}
	start(t, embed.Options{Host: "localhost"})
	start(t, embed.Options{Host: "0.0.0.0", DontListen: true})
}

func TestStart_respectsACancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := embed.Start(ctx, embed.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestToken_returnsTheTokenInForce(t *testing.T) {
	srv := start(t, embed.Options{ConfigFile: config(t, `authorization { token: "file" }`)})
	require.Equal(t, "file", srv.Token())
}

func TestOptions_overrideTheConfigurationFile(t *testing.T) {
	srv := start(t, embed.Options{
		ConfigFile: config(t, `host: "0.0.0.0", max_payload: 2000, authorization { token: "file" }`),
		Host:       "127.0.0.1", MaxPayload: 3000, Token: "field",
	})
	require.Equal(t, "field", srv.Token())
	conn, err := srv.InProcessConn()
	require.NoError(t, err)
	defer conn.Close()
	info := make([]byte, 4096)
	n, err := conn.Read(info)
	require.NoError(t, err)
	require.Contains(t, string(info[:n]), `"max_payload":3000`)
	require.Contains(t, string(info[:n]), `"auth_required":true`)

	_, err = fmt.Fprint(conn, "CONNECT {\"verbose\":true,\"auth_token\":\"field\"}\r\n")
	require.NoError(t, err)
	n, err = conn.Read(info)
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", string(info[:n]))
	require.Equal(t, 1, srv.NumClients())
}

func TestShutdown_closesTheListenerAndRemovesItsFiles_EMB1(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	srv := start(t, embed.Options{JetStream: true})
	entries, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Len(t, entries, 1, "JetStream's own directory")
	u, err := url.Parse(srv.URL())
	require.NoError(t, err)
	srv.Shutdown()
	srv.Shutdown()
	_, err = net.Dial("tcp", u.Host)
	require.Error(t, err)
	entries, err = os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestStoreDir_survivesShutdown(t *testing.T) {
	dir := t.TempDir()
	srv := start(t, embed.Options{JetStream: true, StoreDir: dir, DontListen: true})
	require.Empty(t, srv.URL())
	srv.Shutdown()
	require.DirExists(t, filepath.Join(dir, "jetstream"))
}

func TestLog_omitsDebugUnlessEnabled(t *testing.T) {
	for level, notices := range map[zerolog.Level]bool{zerolog.InfoLevel: false, zerolog.DebugLevel: true} {
		var out bytes.Buffer
		log := zerolog.New(zerolog.SyncWriter(&out)).Level(level)
		srv := start(t, embed.Options{Log: log})
		srv.Shutdown()
		require.Equal(t, notices, strings.Contains(out.String(), "Server is ready"), out.String())
	}
}

// ends are the ends of connections reported to a client of a server.
func ends(t *testing.T, srv *embed.Server, o bus.Options) <-chan string {
	t.Helper()
	o.Server = srv
	b, err := bus.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
	heard := make(chan string, 64)
	_, err = b.Control().Subscribe("$SYS.ACCOUNT.*.DISCONNECT", func(m bus.Msg) { heard <- string(m.Data) })
	require.NoError(t, err)
	return heard
}

func TestExportDisconnects_clientsSeeDisconnectsWithoutMoreAccess(t *testing.T) {
	srv := start(t, embed.Options{Token: "secret"})
	require.NoError(t, srv.ExportDisconnects())
	heard := ends(t, srv, bus.Options{Token: "secret"})
	other, err := bus.Open(t.Context(), bus.Options{URL: srv.URL(), Token: "secret"})
	require.NoError(t, err)
	server, n := other.Data().ServerClientID()
	require.NoError(t, other.Close(t.Context()))
	for found := false; !found; {
		select {
		case said := <-heard:
			found = strings.Contains(said, server) && strings.Contains(said, fmt.Sprintf(`"id":%d`, n)) &&
				strings.Contains(said, "Client Closed")
			require.NotContains(t, said, "secret")
		case <-time.After(10 * time.Second):
			require.FailNow(t, "no event")
		}
	}
	for _, token := range []string{"", "wrong"} {
		_, err := bus.Open(t.Context(), bus.Options{URL: srv.URL(), Token: token})
		require.Error(t, err, "token %q", token)
	}
}
