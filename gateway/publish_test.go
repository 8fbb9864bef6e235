package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

func TestGateway_repliesShareOneWaitForALostServer_GW1(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	g, err := Start(t.Context(), Options{Label: "a", Bus: &bus.Options{Server: srv}})
	require.NoError(t, err)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = g.Close(ctx) // there is no server to tell
	}()
	srv.Shutdown()
	require.Eventually(t, func() bool { return g.data.URL() == "" }, patience, time.Millisecond)
	r := request{reply: "_INBOX.x", format: wire.JSON, from: subjects.Anon(),
		publishBy: time.Now().Add(300 * time.Millisecond)}
	say := g.newResponder(r, g.publish)
	began := time.Now()
	for range 1000 {
		say(outcome{body: 1})
	}
	require.Less(t, time.Since(began), patience)
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond, "it could have come back")
}

func TestGateway_announcesItsLeaveAfterItsReplies_GW4(t *testing.T) {
	s := newSystem(t)
	s.spawn(1)
	s.ask("get", "")
	s.freeze()
	b, err := bus.Open(t.Context(), bus.Options{URL: s.cluster.Server.URL(), Token: "secret",
		ConnectTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(context.Background())) }()
	heard := make(chan string, 1000) // in the order in which the gateway said it
	s.listener("b")
	s.awaitPeers(1)
	for _, subject := range []string{"reply", "castnet.v1.default.hb.*.*." + s.gateway.ID().String()} {
		_, err = b.Data().Subscribe(subject, func(m bus.Msg) {
			switch {
			case m.Subject == "reply":
				heard <- "answer"
			case strings.Contains(string(m.Data), `"claim"`):
				heard <- "claim"
			case strings.Contains(string(m.Data), `"release"`):
				heard <- "release"
			case strings.Contains(string(m.Data), `"leaves"`):
				heard <- "leaves"
			}
		})
		require.NoError(t, err)
	}
	m := s.request("get", "")
	m.Reply = "reply"
	require.NoError(t, s.client.PublishMsg(m))
	for i, want := range []string{"claim", "answer", "release", "leaves"} {
		select {
		case got := <-heard:
			require.Equal(t, want, got)
		case <-time.After(patience):
			require.FailNow(t, "not published: "+want)
		}
		if i == 0 {
			require.NoError(t, s.gateway.Close(t.Context()))
		}
	}
}

// listener is a gateway that receives claims and accepts no requests.
func (s *system) listener(label string) *Gateway {
	s.Helper()
	g, _ := s.withHost(label)
	require.NoError(s, g.sub.Unsubscribe())
	require.NoError(s, g.data.Flush(s.Context()))
	return g
}

func TestGateway_anotherAnswersForOneThatDiesInALiveHostd_GW4(t *testing.T) {
	for _, collect := range []string{modeGather, modeStream} {
		t.Run(collect, func(t *testing.T) { dieInALiveHostd(t, collect) })
	}
}

func dieInALiveHostd(t *testing.T, collect string) {
	s := newSystem(t)
	s.spawn(1)
	s.ask("get", "")
	other := s.listener("b")
	s.awaitPeers(1)
	s.freeze()
	answers := make(chan bus.Msg, 10)
	_, err := s.client.Subscribe("reply", func(m bus.Msg) { answers <- m })
	require.NoError(t, err)
	m := s.request("get", "", headerCollect, collect, actor.HeaderTrace, parent)
	m.Reply = "reply"
	require.NoError(t, s.client.PublishMsg(m))
	require.Eventually(t, func() bool {
		other.claims.mu.Lock()
		defer other.claims.mu.Unlock()
		return other.claims.table.size == 1
	}, patience, time.Millisecond)
	s.host.SetGateway(func() subjects.ProcessID { return subjects.ProcessID{} }) // as after its death
	answer := testkit.Next(t, answers)
	require.Equal(t, "503", code(answer), "%v", answer.Header)
	require.Equal(t, parent, answer.Header.Get("traceparent"))
	require.Contains(t, answer.Header.Get(actor.HeaderError), "gateway "+s.gateway.ID().String()+
		" died during the cast: the cast may have run")
	if collect == modeStream {
		require.Empty(t, testkit.Next(t, answers).Data)
	}
}

// awaitPeers waits until the gateway knows a number of others.
func (s *system) awaitPeers(n int) {
	s.Helper()
	require.Eventually(s, func() bool {
		p := s.gateway.claims
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.table.live) == n
	}, patience, time.Millisecond)
}

func TestGateway_claimsGoOnlyToTheirKeepers_GW4(t *testing.T) {
	s := newSystem(t)
	all := []*Gateway{s.gateway}
	for i := range claimReplicas + 3 {
		g, _ := s.withHost(fmt.Sprint(i))
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *Gateway) int { return strings.Compare(a.claims.self, b.claims.self) })
	keeping := func() (out []bool) {
		for _, g := range all {
			g.claims.mu.Lock()
			out = append(out, g.claims.sub != nil)
			g.claims.mu.Unlock()
		}
		return out
	}
	require.Eventually(t, func() bool {
		return slices.Equal([]bool{true, true, true, true, false, false, false}, keeping())
	}, patience, time.Millisecond, "three of each, and none its own")
	require.NoError(t, all[1].Close(t.Context()))
	all = slices.Delete(all, 1, 2)
	require.Eventually(t, func() bool {
		return slices.Equal([]bool{true, true, true, true, false, false}, keeping())
	}, patience, time.Millisecond, "the next one takes the place of one that goes")
}

func TestGateway_aloneSendsNoClaims(t *testing.T) {
	s := newSystem(t)
	s.spawn(1)
	require.Eventually(t, func() bool { return s.gateway.hosts.haveOnlyGateway(s.gateway.claims.self) },
		patience, time.Millisecond)
	heard := make(chan string, 10)
	_, err := s.client.Subscribe("castnet.v1.default.hb.claim.*.*", func(m bus.Msg) { heard <- string(m.Data) })
	require.NoError(t, err)
	require.Equal(t, "[0]", string(s.ask("get", "").Data))
	s.listener("b")
	s.awaitPeers(1)
	s.ask("get", "")
	select {
	case claimed := <-heard:
		require.Contains(t, claimed, `"id":2,`, "the first one is not announced")
	case <-time.After(patience):
		require.FailNow(t, "no claim")
	}
}

func TestGateway_repeatsAReplyOnlyAfterADisconnect_GW1(t *testing.T) {
	s := newSystem(t)
	heard := make(chan string, 100)
	_, err := s.client.Subscribe("reply", func(m bus.Msg) { heard <- string(m.Data) })
	require.NoError(t, err)
	g := s.gateway
	on := g.data.ConnectionCount()
	r := request{reply: "reply", format: wire.JSON, from: subjects.Anon(), publishBy: time.Now().Add(patience)}
	say := g.newResponder(r, g.publishConfirmed)
	say(outcome{body: 1})
	say(outcome{body: 2})
	g.outbox.mu.Lock()
	for i := range g.outbox.unconfirmed { // those that are not confirmed yet
		g.outbox.unconfirmed[i].conn = on + 1
	}
	again := len(g.outbox.unconfirmed)
	g.outbox.mu.Unlock()
	streaming := r
	streaming.wantsStream = true
	g.newResponder(streaming, g.publishConfirmed)(outcome{body: "of a stream"})
	late := r
	late.publishBy = time.Now().Add(-time.Second)
	g.outbox.add(sentAnswer{late, late.message(outcome{body: "too late"}), on + 1})
	g.outbox.add(sentAnswer{r, r.message(outcome{body: "lost"}), on + 1})
	got := map[string]int{}
	for range 2 + again + 2 {
		select {
		case m := <-heard:
			got[m]++
		case <-time.After(patience):
			require.FailNow(t, "not said", "%v", got)
		}
	}
	require.Eventually(t, func() bool {
		g.outbox.mu.Lock()
		defer g.outbox.mu.Unlock()
		return len(g.outbox.unconfirmed) == 0
	}, patience, time.Millisecond, "all are confirmed")
	require.NoError(t, g.data.Flush(t.Context()))
	require.NoError(t, s.client.Flush(t.Context()))
	require.Empty(t, heard)
	require.Equal(t, again+2, got["1"]+got["2"])
	require.Equal(t, 1, got[`"of a stream"`])
	require.Equal(t, 1, got[`"lost"`])
}

func TestGateway_repeatsOnlyTheEndOfAStream_GW1(t *testing.T) {
	r := request{reply: "reply", format: wire.JSON, wantsStream: true}
	at, cover := meshPoint{rank: 1, point: "gpu=1"}, coverage{asked: 2, answered: 2}
	require.False(t, r.isRepeatable(r.message(outcome{body: 1, point: &at})))
	require.False(t, r.isRepeatable(r.message(outcome{err: errClosing, point: &at})))
	require.True(t, r.isRepeatable(r.message(outcome{empty: true, coverage: &cover})))
	require.True(t, r.isRepeatable(r.message(outcome{err: errClosed})), "it was refused")
	r.wantsStream = false
	require.True(t, r.isRepeatable(r.message(outcome{body: 1, point: &at})), "the only message of a choose")
}

func TestOutbox_isBounded(t *testing.T) {
	o := newOutbox()
	for range 100 {
		o.add(sentAnswer{m: bus.Msg{Data: make([]byte, 1<<20)}})
	}
	require.Len(t, o.drain(), maxUnconfirmedBytes>>20-1)
	require.Empty(t, o.drain())
}
