package bus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
)

func jetStream(o *embed.Options) { o.JetStream = true }

func openKV(t *testing.T, b *bus.Bus) *bus.KV {
	t.Helper()
	kv, err := b.Control().KV(t.Context(), bus.KVOptions{Bucket: "things"})
	require.NoError(t, err)
	return kv
}

func TestKV_oneOfConcurrentWritersSucceeds_BUS7(t *testing.T) {
	srv := bustest.Server(t, jetStream)
	one, two := openKV(t, bustest.Open(t, srv)), openKV(t, bustest.Open(t, srv))
	ctx := t.Context()
	_, err := one.Get(ctx, "k")
	require.ErrorIs(t, err, bus.ErrKeyNotFound)
	first, err := one.Create(ctx, "k", []byte("a"))
	require.NoError(t, err)
	_, err = two.Create(ctx, "k", []byte("b"))
	require.ErrorIs(t, err, bus.ErrRevisionConflict)
	second, err := two.Put(ctx, "k", []byte("b"), first)
	require.NoError(t, err)
	require.Greater(t, second, first)
	_, err = one.Put(ctx, "k", []byte("c"), first)
	require.ErrorIs(t, err, bus.ErrRevisionConflict)
	require.ErrorIs(t, one.Delete(ctx, "k", first), bus.ErrRevisionConflict)
	e, err := one.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, bus.Entry{Key: "k", Value: []byte("b"), Revision: second}, e)

	require.NoError(t, one.Delete(ctx, "k", second))
	_, err = two.Get(ctx, "k")
	require.ErrorIs(t, err, bus.ErrKeyNotFound)
	third, err := two.Create(ctx, "k", []byte("d"))
	require.NoError(t, err)
	require.Greater(t, third, second, "a revision never comes again")
}

func TestKV_listsAndWatchesMatchingKeys(t *testing.T) {
	kv := openKV(t, bustest.Open(t, bustest.Server(t, jetStream)))
	ctx := t.Context()
	none, err := kv.List(ctx, "world.*")
	require.NoError(t, err)
	require.Empty(t, none)
	for i := range 300 {
		_, err := kv.Create(ctx, fmt.Sprintf("world.%d", i), []byte{byte(i)})
		require.NoError(t, err)
	}
	_, err = kv.Create(ctx, "lease", nil)
	require.NoError(t, err)
	all, err := kv.List(ctx, "world.*")
	require.NoError(t, err)
	require.Len(t, all, 300)

	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var then []string
	known := 0
	for e, err := range kv.Watch(ctx, "world.*") {
		require.NoError(t, err)
		switch {
		case e.Key == "":
			require.Equal(t, 300, known)
			require.NoError(t, kv.Delete(ctx, "world.7", all[7].Revision))
			_, err := kv.Put(ctx, "world.8", []byte("x"), all[8].Revision)
			require.NoError(t, err)
		case known < 300:
			known++
		default:
			then = append(then, fmt.Sprint(e.Key, e.Deleted, string(e.Value)))
		}
		if len(then) == 2 {
			break
		}
	}
	require.Equal(t, []string{"world.7true", "world.8falsex"}, then)

	cancel()
	for _, err := range kv.Watch(ctx, ">") {
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestKV_opensWhileTheServersRemoveTheBucket_BUS7(t *testing.T) {
	b := bustest.Open(t, bustest.Server(t, jetStream))
	for range 30 {
		openKV(t, b)
		removed := make(chan error, 1)
		go func() {
			_, err := b.Control().Request(t.Context(), bus.Msg{Subject: "$JS.API.STREAM.DELETE.KV_things"})
			removed <- err
		}()
		openKV(t, b)
		require.NoError(t, <-removed)
	}
}

func TestKV_reportsAMissingStore_BUS7(t *testing.T) {
	b := bustest.Open(t, bustest.Server(t))
	_, err := b.Control().KV(t.Context(), bus.KVOptions{Bucket: "things"})
	require.ErrorIs(t, err, bus.ErrNoJetStream)
}

func TestKV_reportsAMissingStoreBesideASubscriberToEverything_BUS7(t *testing.T) {
	srv := bustest.Server(t)
	listener := bustest.Open(t, srv)
	all, err := listener.Data().Subscribe(">", func(bus.Msg) {})
	require.NoError(t, err)
	defer all.Unsubscribe()
	_, err = bustest.Open(t, srv).Control().KV(t.Context(), bus.KVOptions{Bucket: "things"})
	require.ErrorIs(t, err, bus.ErrNoJetStream, "the listener hides that there are no responders")
}

func TestKV_persistsWithAStoreDirectory(t *testing.T) {
	dir := t.TempDir()
	start := func() *embed.Server {
		srv, err := embed.Start(t.Context(), embed.Options{DontListen: true, JetStream: true, StoreDir: dir})
		require.NoError(t, err)
		return srv
	}
	srv := start()
	b, err := bus.Open(t.Context(), bus.Options{Server: srv})
	require.NoError(t, err)
	revision, err := openKV(t, b).Create(t.Context(), "k", []byte("a"))
	require.NoError(t, err)
	require.NoError(t, b.Close(t.Context()))
	srv.Shutdown()

	srv = start()
	defer srv.Shutdown()
	b, err = bus.Open(t.Context(), bus.Options{Server: srv})
	require.NoError(t, err)
	e, err := openKV(t, b).Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, revision, e.Revision)
	require.NoError(t, b.Close(t.Context()))
}

// A missing permission is reported at once, with the subject, and not as a missing answer.
func TestKV_namesTheMissingPermission_BUS7(t *testing.T) {
	const rules = `
jetstream: {}
authorization {
  users = [
    { user: all, password: secret }
    { user: reader, password: secret, permissions: { publish: ["_INBOX.>", "$JS.API.STREAM.INFO.>", "$JS.API.DIRECT.GET.>"], subscribe: [">"] } }
    { user: nobody, password: secret, permissions: { publish: ["_INBOX.>"], subscribe: [">"] } }
  ]
}
`
	dir := t.TempDir()
	srv := bustest.Server(t, func(o *embed.Options) {
		o.JetStream, o.StoreDir, o.ConfigFile = true, dir, config(t, rules)
	})
	as := func(user string) *bus.Conn {
		return bustest.Open(t, srv, func(o *bus.Options) { o.User, o.Password = user, "secret" }).Control()
	}
	denied := func(err error) string {
		t.Helper()
		var e *bus.PermissionError
		require.ErrorAs(t, err, &e)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		return e.Subject
	}
	things := bus.KVOptions{Bucket: "things"}
	_, err := as("all").KV(t.Context(), things)
	require.NoError(t, err)
	_, err = as("nobody").KV(t.Context(), things)
	require.Equal(t, "$JS.API.STREAM.INFO.KV_things", denied(err))
	require.ErrorContains(t, err,
		`bus: open the bucket things: bus: no permission to publish "$JS.API.STREAM.INFO.KV_things"`)
	reader := as("reader")
	_, err = reader.KV(t.Context(), bus.KVOptions{Bucket: "others"})
	require.Equal(t, "$JS.API.INFO", denied(err))
	kv, err := reader.KV(t.Context(), things)
	require.NoError(t, err)
	_, err = kv.Get(t.Context(), "k")
	require.ErrorIs(t, err, bus.ErrKeyNotFound)
	_, err = kv.Create(t.Context(), "k", nil)
	require.Equal(t, "$KV.things.k", denied(err))
	_, err = kv.Put(t.Context(), "k", nil, 1)
	require.Equal(t, "$KV.things.k", denied(err))
	require.Equal(t, "$KV.things.k", denied(kv.Delete(t.Context(), "k", 1)))
}
