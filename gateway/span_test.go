package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/internal/testproc"
)

const sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// newTraced is a system whose only gateway has a tracer.
func newTraced(t *testing.T) (*system, *testproc.Spans) {
	t.Helper()
	t.Parallel()
	s, spans := &system{T: t, cluster: testmesh.Start(t)}, &testproc.Spans{}
	s.client, s.net = s.cluster.Open(t).Control(), s.cluster.Net
	s.host, _ = s.cluster.Host(t, "a")
	o := s.cluster.BusOptions(t)
	g, err := Start(t.Context(), Options{Label: "a", Bus: &o, Tracer: spans})
	require.NoError(t, err)
	testkit.Close(t, g.Close)
	s.host.SetGateway(g.Announced)
	s.spawn(2)
	return s, spans
}

func TestSpans_requestIsTheParentOfItsCast_GW1(t *testing.T) {
	s, spans := newTraced(t)
	spans.Clear()
	reply := s.ask("get", "", actor.HeaderTrace, sampled)
	require.Equal(t, sampled, reply.Header.Get(actor.HeaderTrace))
	var all []testproc.Span
	testkit.Until(t, "the request and its cast have ended", func() bool { // the answer comes before
		all = nil
		for _, one := range spans.Ended(t, 1) {
			if one.Op.Endpoint == "get" && strings.HasPrefix(one.Op.Actor.Name, "probe") { // not the lookup
				all = append(all, one)
			}
		}
		return len(all) >= 2
	})
	require.Equal(t, []actor.OperationKind{actor.OpServe, actor.OpCast}, testproc.Kinds(all))
	require.Equal(t, sampled, all[0].Parent.String())
	require.Equal(t, "get", all[0].Op.Endpoint)
	require.Equal(t, all[0].Own, all[1].Parent)
	require.Equal(t, 2, all[1].Outcome.Answered)
}

// The servers on the way report to the client's subject, in the client's trace.
func TestSpans_hopsOfTheServersAreInTheTraceOfTheClient_GW1(t *testing.T) {
	s, spans := newTraced(t)
	events := make(chan bus.Msg, 100)
	_, err := s.client.Subscribe("my.hops", func(m bus.Msg) { events <- m })
	require.NoError(t, err)
	spans.Clear()
	s.ask("get", "", actor.HeaderTrace, sampled, actor.HeaderTraceDest, "my.hops")
	trace := strings.Split(sampled, "-")[1]
	for {
		var event struct {
			Request struct{ Header map[string][]string }
			Events  []struct{ Type, Subj string }
		}
		require.NoError(t, json.Unmarshal(testkit.Next(t, events).Data, &event))
		require.Contains(t, event.Request.Header[actor.HeaderTrace][0], trace)
		if !strings.Contains(event.Events[0].Subj, ".cast.demo.") { // not the request, but the cast
			for _, one := range spans.Ended(t, 1) {
				if one.Op.Kind == actor.OpCast && one.Own.String() == event.Request.Header[actor.HeaderTrace][0] {
					return
				}
			}
		}
	}
}

func TestSpans_subjectThatTheClientMayNotReadGetsNoHops_GW1(t *testing.T) {
	s, _ := newTraced(t)
	seen := make(chan bus.Msg, 1000)
	_, err := s.client.Subscribe("castnet.>", func(m bus.Msg) { seen <- m })
	require.NoError(t, err)
	s.ask("get", "", actor.HeaderTrace, sampled, actor.HeaderTraceDest, "castnet.v1.default.hosts.ping")
	for len(seen) > 0 {
		m := <-seen
		if !strings.Contains(m.Subject, ".cast.demo.") {
			require.Empty(t, m.Header.Get(actor.HeaderTraceDest))
		}
	}
}
