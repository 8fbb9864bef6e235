package bus_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

// answer subscribes a responder.
func answer(t testing.TB, c *bus.Conn, subject, text string, times int) {
	t.Helper()
	_, err := c.Subscribe(subject, func(m bus.Msg) {
		for range times {
			_ = c.PublishMsg(bus.Msg{Subject: m.Reply, Data: []byte(text)})
		}
	})
	require.NoError(t, err)
}

func TestRequest_returnsTheFirstReplyWithItsHeader(t *testing.T) {
	srv := bustest.Server(t)
	a, b := bustest.Open(t, srv), bustest.Open(t, srv)
	_, err := b.Data().Subscribe("ask", func(m bus.Msg) {
		h := bus.Header{}
		h.Add("Castnet-Rank", "1")
		h.Add("Castnet-Rank", "2")
		h.Set("echo", m.Header.Get("Mixed-case"))
		for range 3 {
			_ = b.Data().PublishMsg(bus.Msg{Subject: m.Reply, Header: h, Data: m.Data})
		}
	})
	require.NoError(t, err)
	for i := range 100 {
		data := fmt.Appendf(nil, "%d", i)
		m, err := a.Data().Request(testkit.Soon(t),
			bus.Msg{Subject: "ask", Data: data, Header: bus.Header{"Mixed-case": {"v"}}})
		require.NoError(t, err)
		require.Equal(t, data, m.Data)
		require.Equal(t, []string{"1", "2"}, m.Header["Castnet-Rank"])
		require.Equal(t, "v", m.Header.Get("echo"))
		require.Empty(t, m.Header.Get("Echo"), "keys keep their case")
	}
}

func TestRequest_failsAtOnceWithoutListeners(t *testing.T) {
	b := bustest.Open(t, bustest.Server(t))
	_, err := b.Control().Request(testkit.Soon(t), bus.Msg{Subject: "nobody.home"})
	require.ErrorIs(t, err, bus.ErrNoResponders)
	require.ErrorContains(t, err, `"nobody.home"`)
}

func TestRequest_failsWhenTheBusCloses(t *testing.T) {
	srv := bustest.Server(t)
	a, b := bustest.Open(t, srv), bustest.Open(t, srv)
	asked := make(chan bus.Msg, 1)
	_, err := b.Data().Subscribe("ask", func(m bus.Msg) { asked <- m })
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := a.Data().Request(context.WithoutCancel(t.Context()), bus.Msg{Subject: "ask"})
		failed <- err
	}()
	testkit.Next(t, asked)
	require.NoError(t, a.Close(testkit.Soon(t)))
	require.ErrorIs(t, testkit.Next(t, failed), bus.ErrClosed)
}

func TestRequestMany_yieldsEveryReplyUntilQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		asker := bustest.Open(t, srv)
		for i := range 3 {
			answer(t, bustest.Open(t, srv).Data(), "who", fmt.Sprint(i), 2)
		}
		began := time.Now()
		got := map[string]int{}
		for m, err := range asker.Data().RequestMany(t.Context(), bus.Msg{Subject: "who"}, time.Second) {
			require.NoError(t, err)
			got[string(m.Data)]++
		}
		require.Equal(t, map[string]int{"0": 2, "1": 2, "2": 2}, got)
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestRequestMany_endsAtTheDeadlineWithoutAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		asker := bustest.Open(t, srv)
		answer(t, bustest.Open(t, srv).Data(), "who", "me", 1)
		began, n := time.Now(), 0
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		for _, err := range asker.Data().RequestMany(ctx, bus.Msg{Subject: "who"}, 0) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 1, n)
		require.Equal(t, 7*time.Second, time.Since(began))
	})
}

func TestRequestMany_isEmptyWithoutListeners(t *testing.T) {
	b := bustest.Open(t, bustest.Server(t))
	for m, err := range b.Control().RequestMany(testkit.Soon(t), bus.Msg{Subject: "nobody"}, 0) {
		require.NoError(t, err)
		require.Fail(t, "a reply from nobody", "%s", m.Data)
	}
}

func TestRequestMany_yieldsTheErrorOfACancelledContext(t *testing.T) {
	srv := bustest.Server(t)
	asker := bustest.Open(t, srv)
	answer(t, bustest.Open(t, srv).Data(), "who", "me", 1)
	ctx, cancel := context.WithCancel(testkit.Soon(t))
	defer cancel()
	var last error
	for _, err := range asker.Data().RequestMany(ctx, bus.Msg{Subject: "who"}, 0) {
		last = err
		cancel()
	}
	require.ErrorIs(t, last, context.Canceled)
}

func TestRequestMany_reportsAnOverflow(t *testing.T) {
	srv := bustest.Server(t)
	asker, other := bustest.Open(t, srv), bustest.Open(t, srv)
	_, err := other.Data().Subscribe("who", func(m bus.Msg) {
		for range 3000 {
			_ = other.Data().Publish(m.Reply, nil)
		}
		_ = other.Data().Publish("marker", nil)
	})
	require.NoError(t, err)
	marker := make(chan bus.Msg, 1)
	_, err = asker.Data().Subscribe("marker", func(m bus.Msg) { marker <- m })
	require.NoError(t, err)
	n, last := 0, error(nil)
	for _, err := range asker.Data().RequestMany(testkit.Soon(t), bus.Msg{Subject: "who"}, 0) {
		if last = err; err != nil {
			continue
		}
		if n++; n == 1 { // take nothing until all of it is there
			testkit.Next(t, marker)
		}
	}
	require.ErrorIs(t, last, bus.ErrOverflow)
	require.Less(t, n, 3000)
	require.NoError(t, asker.Err(), "one slow gather breaks nothing else")
}

func TestRequestMany_canEndEarly(t *testing.T) {
	srv := bustest.Server(t)
	asker := bustest.Open(t, srv)
	answer(t, bustest.Open(t, srv).Data(), "who", "me", 5)
	for range 50 {
		for m, err := range asker.Data().RequestMany(testkit.Soon(t), bus.Msg{Subject: "who"}, 0) {
			require.NoError(t, err)
			require.Equal(t, "me", string(m.Data))
			break
		}
	}
}

func TestHint_reachesTheReplySubjectOnTheDataConnection(t *testing.T) {
	b := bustest.Open(t, bustest.Server(t))
	hints := make(chan bus.Msg, 1)
	_, err := b.Data().Subscribe("n.me.link", func(m bus.Msg) { hints <- m })
	require.NoError(t, err)
	require.NoError(t, b.Data().PublishMsg(bus.Msg{Subject: "gone.away", Reply: "n.me.link", Data: []byte("x")}))
	hint := testkit.Next(t, hints)
	require.True(t, hint.NoResponders)
	require.Equal(t, "gone.away", hint.HintFor)
	require.Equal(t, "n.me.link", hint.Subject)
}

func TestPermission_deniedRequestFailsAtOnce(t *testing.T) {
	srv := bustest.Server(t, func(o *embed.Options) { o.ConfigFile = config(t, restricted) })
	b := bustest.Open(t, srv, func(o *bus.Options) { o.User, o.Password = "alice", "secret" })
	_, err := b.Data().Request(testkit.Soon(t), bus.Msg{Subject: "shut.door"})
	require.Equal(t, &bus.PermissionError{Op: bus.OpPublish, Subject: "shut.door"}, err)
}

func TestPermission_deniedInboxFailsTheRequest(t *testing.T) {
	srv := bustest.Server(t, func(o *embed.Options) { o.ConfigFile = config(t, restricted) })
	b := bustest.Open(t, srv, func(o *bus.Options) {
		o.User, o.Password, o.InboxPrefix = "alice", "secret", "MINE"
	})
	_, err := b.Data().Request(testkit.Soon(t), bus.Msg{Subject: "open.door"})
	var denied *bus.PermissionError
	require.ErrorAs(t, err, &denied)
	require.Equal(t, bus.OpSubscribe, denied.Op)
	require.Regexp(t, `^MINE\..*\*$`, denied.Subject)
}

// A stream with the subject of a request acknowledges it before any answer.
func TestRequest_skipsInvalidReplies_BUS8(t *testing.T) {
	srv := bustest.Server(t)
	a, b := bustest.Open(t, srv), bustest.Open(t, srv)
	const ack = `{"stream":"audit","seq":1}`
	_, err := b.Data().Subscribe("ask", func(m bus.Msg) {
		for _, text := range []string{ack, "one", ack, "two"} {
			_ = b.Data().PublishMsg(bus.Msg{Subject: m.Reply, Data: []byte(text)})
		}
	})
	require.NoError(t, err)
	answer(t, b.Control(), "deaf", ack, 2)
	real := func(m bus.Msg) bool { return string(m.Data) != ack }
	m, err := a.Control().Request(testkit.Soon(t), bus.Msg{Subject: "ask"}, real)
	require.NoError(t, err)
	require.Equal(t, "one", string(m.Data))
	require.EqualValues(t, 1, a.IgnoredReplies())
	var all []string
	for m, err := range a.Control().RequestMany(testkit.Soon(t), bus.Msg{Subject: "ask"},
		50*time.Millisecond, real) {
		require.NoError(t, err)
		all = append(all, string(m.Data))
	}
	require.Equal(t, []string{"one", "two"}, all)
	require.EqualValues(t, 3, a.IgnoredReplies())
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = a.Control().Request(short, bus.Msg{Subject: "deaf"}, real)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualValues(t, 5, a.IgnoredReplies())
}

// The quiet period begins with an answer: a stray reply must not end a wait early.
func TestRequestMany_strayRepliesDoNotEndTheWait_BUS8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, b := bustest.Open(t, srv), bustest.Open(t, srv)
		_, err := b.Data().Subscribe("ask", func(m bus.Msg) {
			_ = b.Data().PublishMsg(bus.Msg{Subject: m.Reply, Data: []byte("stray")})
			time.AfterFunc(time.Second, func() {
				_ = b.Data().PublishMsg(bus.Msg{Subject: m.Reply, Data: []byte("late")})
			})
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var all []string
		accept := func(m bus.Msg) bool { return string(m.Data) != "stray" }
		for m, err := range a.Control().RequestMany(ctx, bus.Msg{Subject: "ask"}, 100*time.Millisecond, accept) {
			require.NoError(t, err)
			all = append(all, string(m.Data))
		}
		require.Equal(t, []string{"late"}, all)
	})
}
