package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// parent is a traceparent.
const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func code(m bus.Msg) string { return m.Header.Get(actor.HeaderErrorCode) }

func TestGateway_statisticsMatchItsReplies_GW2(t *testing.T) {
	s := newSystem(t)
	s.spawn(2)

	large := s.ask("big", "600000")
	require.Equal(t, "413", code(large), "%v", large.Header)
	require.Contains(t, large.Header.Get(actor.HeaderError), "ask with Castnet-Collect: stream")
	require.Equal(t, []string{"2", "2", "0", "0"}, numbers(large), "they have answered")
	larger := s.ask("big", "3000000")
	require.Equal(t, "413", code(larger), "%v", larger.Header)
	require.Equal(t, []string{"2", "2", "0", "0"}, numbers(larger))

	for endpoint, body := range map[string]string{"big": "1100000", "keys": ""} { // too large, and no JSON
		all := s.stream(endpoint, body)
		require.Len(t, all, 3, endpoint)
		for _, m := range all[:2] {
			require.NotEmpty(t, code(m), "%s: %v", endpoint, m.Header)
		}
		require.Equal(t, []string{"2", "0", "2", "0"}, numbers(all[2]), "no value was sent: %s", endpoint)
	}
	fits := s.stream("big", "500000")
	require.Len(t, fits, 3)
	require.Equal(t, []string{"2", "2", "0", "0"}, numbers(fits[2]))

	sent := s.ask("get", "", headerCollect, modeSend)
	require.Empty(t, sent.Data)
	require.Equal(t, []string{"2", "", "0", "0"}, numbers(sent), "nothing was answered")
	require.NotContains(t, sent.Header, headerAnswered)

	half := s.ask("odd", "")
	require.Equal(t, "[null,1]", string(half.Data))
	require.Equal(t, []string{"2", "1", "1", "0"}, numbers(half))
	none := s.ask("null", "", headerReduce, "collect")
	require.Equal(t, "[null,null]", string(none.Data), "%v", none.Header)
}

func TestGateway_traceReachesHandlersTheirCallsAndTheReply_DEL11(t *testing.T) {
	s := newSystem(t)
	s.spawn(2)
	_, others := s.spawnNamed("other", 1)
	third := fmt.Sprintf("[%q]", others.Ref(0).ID())
	seen := fmt.Sprintf("[%q,%q]", parent, parent)
	for collect, want := range map[string]string{modeGather: "[" + seen + "," + seen + "]", modeChoose: seen} {
		m := s.ask("traced", third, "traceparent", parent, headerCollect, collect)
		require.JSONEq(t, want, string(m.Data), "%s: %v", collect, m.Header)
		require.Equal(t, parent, m.Header.Get("traceparent"))
	}
	streamed := s.stream("traced", third, "traceparent", parent)
	require.Len(t, streamed, 3)
	for _, m := range streamed {
		require.Equal(t, parent, m.Header.Get("traceparent"))
	}
	require.JSONEq(t, seen, string(streamed[0].Data))
	refused := s.ask("nope", "", "Traceparent", parent)
	require.Equal(t, "404", code(refused))
	require.Equal(t, parent, refused.Header.Get("traceparent"))

	for name, headers := range map[string][]string{"none": nil, "malformed": {"traceparent", parent + "-"},
		"two": {"traceparent", parent, "traceparent", parent}} {
		m := s.ask("traced", third, headers...)
		require.JSONEq(t, `[["",""],["",""]]`, string(m.Data), "%s: %v", name, m.Header)
		require.NotContains(t, m.Header, "traceparent", name)
	}
}

func TestGateway_refusesAnUnknownReducerBeforeAnyHandlerRuns(t *testing.T) {
	s := newSystem(t)
	s.spawn(2)
	m := s.ask("get", "", headerReduce, "abacus")
	require.Equal(t, "400", code(m), "%v", m.Header)
	require.Contains(t, m.Header.Get(actor.HeaderError), "abacus")
	require.Equal(t, "[0,0]", string(s.ask("count", "").Data))
	require.Equal(t, "1", string(s.ask("get", "", headerReduce, "sum").Data))
}

// A client in JSON knows neither CBOR, in which the gateway asks the ranks, nor Go.
func TestGateway_errorBodiesNameActorAndEndpointInTheWordsOfTheRequest(t *testing.T) {
	s := newSystem(t)
	s.spawn(2)
	for text, m := range map[string]bus.Msg{
		"cannot unmarshal text into int": s.ask("big", `"five"`, headerRegion, "gpu=0"),
		"gpu=7":                          s.ask("get", "", headerRegion, "gpu=7"),
		"no such endpoint":               s.ask("absent", ""),
		"exceeded max nested level":      s.ask("big", strings.Repeat("[", 100)+strings.Repeat("]", 100)),
	} {
		var body map[string]any
		require.NoError(t, json.Unmarshal(m.Data, &body), string(m.Data))
		require.Contains(t, body["error"], text)
		require.NotEmpty(t, body["actor"], "%s", m.Data)
		require.NotEmpty(t, body["endpoint"], "%s", m.Data)
		require.NotRegexp(t, "(?i)cbor|Go ", body["error"])
	}
}

func TestGateway_refusesObservers(t *testing.T) { // ACT-17
	s := newSystem(t)
	s.spawn(2)
	m := s.request("get", "")
	m.Subject = strings.Replace(m.Subject, "u-anon", "w-eve", 1)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	answer, err := s.client.Request(ctx, m)
	require.NoError(t, err)
	require.Equal(t, "403", code(answer), "%v", answer.Header)
	require.Equal(t, "[0,0]", string(s.ask("count", "").Data), "no handler ran")
}

func TestGateway_castsToNoAgent_GW7(t *testing.T) {
	s := newSystem(t)
	s.spawn(2)
	m := s.request("stop-all", "")
	m.Subject = "castnet.v1.default.cast.demo.agent.stop-all.u-anon.x"
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	answer, err := s.client.Request(ctx, m)
	require.NoError(t, err)
	require.Equal(t, "404", code(answer), "%v", answer.Header)
	require.Equal(t, "[0,1]", string(s.ask("get", "").Data), "the procs still run")
}

func TestGateway_endsEveryStreamWithAnEmptyMessage(t *testing.T) { // GW-2
	s := newSystem(t)
	s.spawn(1)
	for name, m := range map[string]bus.Msg{
		"no such mesh": {Subject: "castnet.v1.default.cast.nope.probe.get.u-anon.x",
			Header: bus.Header{headerCollect: {modeStream}}},
		"no such subject": {Subject: "castnet.v1.default.cast.demo.probe._get.u-anon.x",
			Header: bus.Header{headerCollect: {modeStream}}},
		"no such endpoint": s.request("nope", "", headerCollect, modeStream),
		"bad body":         s.request("big", "{", headerCollect, modeStream),
		"bad deadline":     s.request("get", "", headerCollect, modeStream, headerTTL, "soon"),
		"bad format":       s.request("get", "", headerCollect, modeStream, "Content-Type", "text/plain"),
		"contradiction":    s.request("get", "", headerCollect, modeStream, headerReduce, "sum"),
		"said twice":       s.request("get", "", headerCollect, modeStream, headerCollect, modeGather),
		"region outside":   s.request("get", "", headerCollect, modeStream, headerRegion, "gpu=7"),
	} {
		all := s.until(m)
		require.Len(t, all, 2, name)
		require.NotEmpty(t, code(all[0]), name)
		require.NotContains(t, all[0].Header, headerAsked, name)
		require.Equal(t, []string{"0", "0", "0", "0"}, numbers(all[1]), name)
		require.Empty(t, code(all[1]), name)
	}
	s.gateway.admit = func(subjects.Sender) *actor.Error {
		return &actor.Error{Code: actor.CodeTooMany,
			Text: "too much"}
	}
	all := s.until(s.request("get", "", headerCollect, modeStream))
	require.Len(t, all, 2)
	require.Equal(t, "429", code(all[0]))
	m := s.ask("get", "\xf6")
	require.Equal(t, "429", code(m))
	require.Equal(t, "application/cbor", m.Header.Get(actor.HeaderContentType), "in the request's format")
}

func TestGateway_castsToAUnionWithOneCoverage_GW2(t *testing.T) {
	s := newSystem(t)
	s.spawn(6)
	const union = "gpu=0 | gpu=2 | gpu=5"
	m := s.ask("get", "", headerRegion, union)
	require.Equal(t, "[0,null,2,null,null,5]", string(m.Data), "by rank of the mesh")
	require.Equal(t, []string{"3", "3", "0", "0"}, numbers(m))
	m = s.ask("get", "", headerRegion, union, headerReduce, "sum")
	require.Equal(t, "7", string(m.Data))
	require.Equal(t, []string{"3", "3", "0", "0"}, numbers(m))
	require.Contains(t, []string{"0", "2", "5"},
		string(s.ask("get", "", headerRegion, union, headerCollect, modeChoose).Data))
	all := s.stream("get", "", headerRegion, union)
	require.Len(t, all, 4)
	require.Equal(t, []string{"3", "3", "0", "0"}, numbers(all[3]))
	m = s.ask("get", "", headerRegion, "gpu=0 | gpu=7")
	require.Equal(t, "400", code(m))
	require.Contains(t, m.Header.Get(actor.HeaderError), "gpu=0 | gpu=7")
	require.Equal(t, "400", code(s.ask("get", "", headerRegion, "none")))
}

func TestGateway_chooseAsksAnotherRankIfTheActorHasEnded(t *testing.T) {
	s := newSystem(t)
	_, probes := s.spawnNamed("demo", 2)
	require.Equal(t, "[0,1]", string(s.ask("get", "").Data))
	require.NoError(t, probes.Slice("gpu", 0, 1).Stop(s.Context()))
	for range 20 {
		m := s.ask("get", "", headerCollect, modeChoose)
		require.Equal(t, "1", string(m.Data), "%v", m.Header)
		require.Equal(t, "1", m.Header.Get(actor.HeaderRank))
	}
}

func TestGateway_followsAMeshThatGrowsAndShrinks_MESH24(t *testing.T) {
	s := newSystem(t)
	procs := s.spawn(2)
	require.Equal(t, "[0,1]", string(s.ask("get", "").Data))
	_, b := s.withHost("b")
	hosts, err := s.net.Attach(s.Context(), "more", b.ID())
	require.NoError(t, err)
	_, err = procs.Grow(testkit.Soon(t), hosts)
	require.NoError(t, err)
	answer := func(want string) {
		t.Helper()
		testkit.Until(t, want, func() bool { return string(s.ask("get", "").Data) == want })
	}
	answer("[0,1,2,3]")
	require.Equal(t, "[2,3]", string(s.ask("get", "", headerRegion, "host=1").Data))
	_, err = procs.Shrink(testkit.Soon(t), 1)
	require.NoError(t, err)
	answer("[0,1]")
}

func TestGateway_looksUpAStaleMeshOnce_GW5(t *testing.T) {
	s := newSystem(t)
	first := s.spawn(2)
	require.Equal(t, "[0,1]", string(s.ask("get", "").Data))
	require.NoError(t, first.Stop(s.Context()))
	s.spawn(3) // under the same label
	for _, headers := range [][]string{nil, {headerReduce, "collect"}} {
		m := s.ask("get", "", headers...)
		require.Equal(t, "[0,1,2]", string(m.Data), "%v", m.Header)
	}
	require.Len(t, s.stream("get", ""), 4)

	// The entry names another actor: all ranks refuse, and no handler has run.
	stale := *s.gateway.directory.entries["demo"]
	s.gateway.directory.mu.Lock()
	stale.actors.Actors = map[string]agent.ActorInfo{"probe-0123456789ab": {Managed: true}}
	s.gateway.directory.entries["demo"] = &stale
	s.gateway.directory.mu.Unlock()
	require.Equal(t, "[3,3,3]", string(s.ask("count", "").Data), "each ran its request once")
}

func TestGateway_limitsConcurrentCasts_GW6(t *testing.T) {
	s := newSystem(t)
	s.spawn(1)
	s.ask("get", "")
	thaw := s.freeze()
	var under sync.WaitGroup
	answers := make(chan bus.Msg, maxCasts)
	for range maxCasts {
		under.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			if m, err := s.client.Request(ctx, s.request("get", "", headerTTL, "1m")); err == nil {
				answers <- m
			}
		})
	}
	require.Eventually(t, func() bool { return s.gateway.active.Load() == maxCasts }, patience, time.Millisecond)
	m := s.ask("get", "")
	require.Equal(t, "503", code(m), "%v", m.Header)
	require.Contains(t, m.Header.Get(actor.HeaderError), fmt.Sprint(maxCasts))
	thaw()
	under.Wait()
	require.Len(t, answers, maxCasts, "the others are answered")
	for range maxCasts {
		m := <-answers
		require.Equal(t, "[0]", string(m.Data), "%v", m.Header)
	}
	require.Equal(t, "[0]", string(s.ask("get", "").Data))
}

func TestGateway_closeAnswersPendingRequests(t *testing.T) {
	s := newSystem(t)
	s.spawn(2)
	s.ask("get", "")
	s.freeze()
	collects := []string{modeGather, modeStream, modeChoose}
	all := make([][]bus.Msg, len(collects))
	var under sync.WaitGroup
	for i, collect := range collects {
		under.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for m, err := range s.client.RequestMany(ctx, s.request("get", "", headerCollect, collect), 0) {
				if err != nil {
					return
				}
				if all[i] = append(all[i], m); collect != modeStream || len(m.Data) == 0 {
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return s.gateway.active.Load() == 3 }, patience, time.Millisecond)
	require.NoError(t, s.gateway.Close(t.Context()))
	under.Wait()
	for i, collect := range collects {
		n := len(all[i])
		require.NotZero(t, n, collect)
		last := all[i][max(0, n-2)] // before the end of a stream
		require.Equal(t, "503", code(last), "%s: %v", collect, last.Header)
		require.Contains(t, last.Header.Get(actor.HeaderError), "the cast may have run")
	}
	require.Contains(t, [][]string{{"2", "0", "0", "2"}, {"0", "0", "0", "0"}}, numbers(all[1][len(all[1])-1]),
		"cast, or not yet")
}

func TestGateway_reportsABrokenBus(t *testing.T) {
	s := newSystem(t)
	g := s.another("b")
	_, err := g.data.Subscribe("panic", func(bus.Msg) { panic("a test") })
	require.NoError(t, err)
	require.NoError(t, s.client.Publish("panic", nil))
	select {
	case <-g.Done():
		require.ErrorIs(t, g.Err(), bus.ErrHandlerPanic)
		require.False(t, g.Announced().IsValid(), "its host announces none")
	case <-time.After(patience):
		require.FailNow(t, "no claim is published")
	}
}

func TestGateway_boundsBodiesInFlight_GW6(t *testing.T) {
	var g Gateway
	large := bus.Msg{Data: make([]byte, maxBytes/4)}
	for range 4 {
		require.Nil(t, g.acquire(large))
	}
	refused := g.acquire(bus.Msg{Data: []byte("1")})
	require.Equal(t, 503, refused.HTTPCode())
	require.ErrorContains(t, refused, "67108864 bytes")
	g.releaseRequest(bus.Msg{Data: []byte("1")})
	for range 4 {
		g.releaseRequest(large)
	}
	require.Nil(t, g.acquire(bus.Msg{Data: make([]byte, maxBytes+1)}), "one of any size within the server's limit")
}

// The requests are in the gateway's queue, behind a slow handler.
func TestGateway_closeAnswersRequestsInFlight_GW1(t *testing.T) {
	s := newSystem(t)
	busy, goOn := make(chan struct{}), make(chan struct{})
	_, err := s.gateway.requests().Subscribe("busy", func(bus.Msg) { close(busy); <-goOn })
	require.NoError(t, err)
	require.NoError(t, s.client.Publish("busy", nil))
	<-busy
	answers, nobody := make(chan bus.Msg, 1<<16), make(chan struct{})
	_, err = s.client.Subscribe("answers.*", func(m bus.Msg) {
		if m.NoResponders {
			close(nobody)
			return
		}
		answers <- m
	})
	require.NoError(t, err)
	n := 0
	ask := func() {
		m := s.request("get", "")
		m.Reply = fmt.Sprint("answers.", n)
		n++
		require.NoError(t, s.client.PublishMsg(m))
	}
	for range 100 {
		ask()
	}
	require.NoError(t, s.client.Flush(s.Context()))
	over, reached := make(chan error, 1), make(chan struct{})
	go func() { over <- s.gateway.Close(s.Context()) }()
	for open := true; open; { // until the server sends it no more
		ask()
		s.client.AfterReceived(func() { reached <- struct{}{} })
		<-reached
		select {
		case <-nobody:
			open = false
			n-- // the server has answered it
		default:
		}
	}
	close(goOn)
	require.NoError(t, <-over)
	require.NoError(t, s.client.Flush(s.Context()))
	said := map[string]bool{}
	for range n {
		select {
		case m := <-answers:
			require.Equal(t, "503", code(m))
			require.Contains(t, m.Header.Get(actor.HeaderError), "nothing was cast")
			said[m.Subject] = true
		case <-time.After(patience):
			require.FailNow(t, "requests are lost", "%d of %d are answered", len(said), n)
		}
	}
	require.Len(t, said, n)
}

func TestGateway_closeRespectsItsDeadline(t *testing.T) {
	s := newSystem(t)
	g, err := Start(t.Context(), Options{Label: "b",
		Bus: &bus.Options{URL: s.cluster.Server.URL(), Token: "secret"}})
	require.NoError(t, err)
	release, over := make(chan struct{}), make(chan struct{})
	require.True(t, g.spawn(func(context.Context) {
		defer close(over)
		<-release
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, g.Close(ctx), context.DeadlineExceeded)
	close(release)
	<-over
}

// Before each of its requests, flood sends up to its limit of others.
func TestGateway_refusesOnlyAFloodingClient_GW6(t *testing.T) {
	s := newSystem(t)
	s.spawn(1)
	s.ask("get", "")
	admit := s.gateway.admit
	s.gateway.admit = func(from subjects.Sender) *actor.Error {
		err := admit(from)
		for from.String() == "u-anon.flood" && err == nil {
			err = admit(from)
		}
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := s.client.Request(ctx, bus.Msg{Subject: "castnet.v1.default.cast.demo.probe.get.u-anon.flood"})
	require.NoError(t, err)
	require.Equal(t, "429", code(m), "%v", m.Header)
	require.Contains(t, m.Header.Get(actor.HeaderError), "u-anon.flood sends more than 20000 messages a second")
	require.NotEmpty(t, m.Data)
	require.Empty(t, code(s.ask("get", "")), "others are served")
}
