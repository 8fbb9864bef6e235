package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

func TestGateway_manyAnswersTogetherWaitOnceForAServerThatIsLost_GW1(t *testing.T) {
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
	r := request{reply: "_INBOX.x", format: wire.JSON, from: subjects.Anon, until: time.Now().Add(300 * time.Millisecond)}
	say := g.say(r, g.publish)
	began := time.Now()
	for range 1000 {
		say(outcome{body: 1})
	}
	require.Less(t, time.Since(began), patience)
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond, "it could have come back")
}

func TestGateway_saysThatItGoesOnceItHasAnswered_GW4(t *testing.T) {
	s := newSystem(t)
	s.spawn(1)
	s.ask("get", "")
	s.freeze()
	b, err := bus.Open(t.Context(), bus.Options{URL: s.server.URL(), Token: "secret"})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(context.Background())) }()
	heard := make(chan string, 1000) // in the order in which the gateway said it
	for _, subject := range []string{"reply", "castnet.v1.default.hb.gateway.*"} {
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
			require.FailNow(t, "not said: "+want)
		}
		if i == 0 {
			require.NoError(t, s.gateway.Close(t.Context()))
		}
	}
}
