package bus_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

// twoAccounts has a mirror: a second account imports the first one's messages under "here".
const twoAccounts = `
no_auth_user: own
accounts {
  OWN { users: [{user: own, password: p}], exports: [{stream: "here.>"}] }
  MIRROR { users: [{user: mirror, password: p}], imports: [{stream: {account: OWN, subject: "here.>"}}] }
}`

func ignore(bus.Msg) {}

// absent asks for listeners to here.<name>.me, in the name of name itself.
func absent(t *testing.T, c *bus.Conn, names ...string) []bool {
	t.Helper()
	subjects := make([]string, len(names))
	for i, name := range names {
		subjects[i] = "here." + name + ".me"
	}
	got, err := c.Absent(testkit.Soon(t), "here.nobody.me", subjects)
	require.NoError(t, err)
	return got
}

// subscribeAs subscribes in some name.
func subscribeAs(t *testing.T, c *bus.Conn, subject string) {
	t.Helper()
	_, err := c.Subscribe(subject, ignore)
	require.NoError(t, err)
}

func TestAbsent_wildcardListenerIsNotTheProcess(t *testing.T) {
	t.Parallel()
	for name, hears := range map[string]func(t *testing.T, srv *embed.Server){
		"a subscriber to everything": func(t *testing.T, srv *embed.Server) {
			subscribeAs(t, bustest.Open(t, srv).Data(), ">")
		},
		"a subscriber to the kind": func(t *testing.T, srv *embed.Server) {
			subscribeAs(t, bustest.Open(t, srv).Data(), "here.*.*")
		},
		"a stream": func(t *testing.T, srv *embed.Server) {
			config := `{"name":"audit","subjects":["here.>"],"storage":"memory"}`
			_, err := bustest.Open(t, srv).Control().Request(testkit.Soon(t),
				bus.Msg{Subject: "$JS.API.STREAM.CREATE.audit", Data: []byte(config)})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := bustest.Server(t, func(o *embed.Options) { o.JetStream = true })
			b := bustest.Open(t, srv)
			there, goes := bustest.Open(t, srv), bustest.Open(t, srv)
			subscribeAs(t, there.Data(), "here.there.*")
			subscribeAs(t, goes.Data(), "here.goes.*")
			hears(t, srv)
			require.Equal(t, []bool{false, false, true}, absent(t, b.Control(), "there", "goes", "never"))
			require.NoError(t, goes.Close(testkit.Soon(t)))
			require.Equal(t, []bool{false, true, true}, absent(t, b.Control(), "there", "goes", "never"))
		})
	}
}

func TestAbsent_isUnneededWhereNoRespondersWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.Open(t, bustest.Server(t))
		began := time.Now()
		require.Equal(t, []bool{false}, absent(t, b.Control(), "never"))
		require.Zero(t, time.Since(began), "no other question was asked")
	})
}

func TestAbsent_mirrorAccountIsNotTheProcess(t *testing.T) {
	t.Parallel()
	srv := listen(t, embed.Options{ConfigFile: config(t, twoAccounts)})
	b, there := open(t, bus.Options{URL: srv.URL()}), open(t, bus.Options{URL: srv.URL()})
	mirror := open(t, bus.Options{URL: srv.URL(), User: "mirror", Password: "p"})
	subscribeAs(t, there.Data(), "here.there.*")
	subscribeAs(t, mirror.Data(), "here.>")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := b.Control().Request(ctx, bus.Msg{Subject: "here.never.me"})
	require.ErrorIs(t, err, context.DeadlineExceeded,
		"the mirror hides missing listeners from the server")
	require.Equal(t, []bool{false, true}, absent(t, b.Control(), "there", "never"))
}

func TestAbsent_queriesEveryServerOfACluster(t *testing.T) {
	t.Parallel()
	srv := clustered(t)
	b, there, stranger := open(t, bus.Options{URL: srv[0].URL()}), open(t, bus.Options{URL: srv[1].URL()}),
		open(t, bus.Options{URL: srv[1].URL()})
	subscribeAs(t, there.Data(), "here.there.*")
	subscribeAs(t, stranger.Data(), ">")
	require.Eventually(t, func() bool {
		got := absent(t, b.Control(), "there", "never")
		return !got[0] && got[1] // once the servers have heard of each other's subscriptions
	}, testkit.Patience, time.Millisecond)
	require.NoError(t, there.Close(testkit.Soon(t)))
	require.Equal(t, []bool{true, true}, absent(t, b.Control(), "there", "never"))
}

func TestAbsent_isUnknownWithoutPermission(t *testing.T) {
	t.Parallel()
	srv := listen(t, embed.Options{ConfigFile: config(t, restricted)})
	b := open(t, bus.Options{URL: srv.URL(), User: "alice", Password: "secret"})
	subscribeAs(t, b.Data(), "open.>")
	_, err := b.Control().Absent(testkit.Soon(t), "open.nobody", []string{"open.never"})
	require.ErrorAs(t, err, new(*bus.PermissionError))
}

// clustered starts two servers in a cluster.
func clustered(t *testing.T) (all [2]*embed.Server) {
	t.Helper()
	all[0] = listen(t, embed.Options{ConfigFile: config(t, `cluster { name: several, listen: "127.0.0.1:-1" }`)})
	all[1] = listen(t, embed.Options{ConfigFile: config(t,
		fmt.Sprintf(`cluster { name: several, listen: "127.0.0.1:-1", routes: ["nats://%s"] }`,
			all[0].ClusterAddr()))})
	return all
}

// Any client may answer in the place of a server.
func FuzzServerAnswer(f *testing.F) {
	for _, text := range []string{
		`{"server":{"id":"s"},"data":{"account_statz":[{"acc":"$G","conns":2,"num_subscriptions":9}]}}`,
		`{"server":{"id":"s"},"data":{"connections":[{"cid":7,"kind":"Client"},{"cid":8,"kind":"Leafnode"}]}}`,
		`{"stream":"audit","seq":1}`, `{"server":{"id":"s"},"data":{"account_statz":[{"conns":-1}]}}`, ``,
		`{"server":` + strings.Repeat(`{"":`, 50_000), `{"data":{"connections":[` +
			strings.Repeat(`{},`, 50_000) + `{}]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bustest.CheckAllocBound(t, data, func() { bus.IsServerAnswer(data) })
	})
}
