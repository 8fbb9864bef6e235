package gateway

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// labels are those of the hosts that are known; none when they may not be all.
func (h *hosts) labels() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all {
		for _, id := range slices.SortedFunc(maps.Keys(h.heard), subjects.HostID.Compare) {
			out = append(out, id.Label())
		}
	}
	return out
}

func (s *system) awaitHosts(labels ...string) {
	s.Helper()
	require.Eventually(s, func() bool { return slices.Equal(labels, s.gateway.hosts.labels()) }, patience, time.Millisecond)
}

func TestGateway_aMeshIsFoundAsSoonAsTheHostsThatAreKnownHaveAnswered_GW5(t *testing.T) {
	s := newSystem(t)
	s.awaitHosts("a")
	s.spawn(2)
	require.Equal(t, "[0,1]", string(s.ask("get", "").Data))
	s.gateway.directory.mu.Lock()
	require.Nil(t, s.gateway.directory.every, "nobody waited for more hosts")
	s.gateway.directory.mu.Unlock()

	nope, err := s.client.Request(t.Context(), bus.Msg{Subject: "castnet.v1.default.cast.nope.probe.get.anon"})
	require.NoError(t, err)
	require.Equal(t, "404", code(nope))
	s.gateway.directory.mu.Lock()
	require.NotNil(t, s.gateway.directory.every, "that there is no such mesh is the word of all")
	s.gateway.directory.mu.Unlock()
}

func TestGateway_hearsOfHostsThatStartAndEnd(t *testing.T) {
	s := newSystem(t)
	s.awaitHosts("a")
	h, _ := s.cluster.Host(t, "b")
	s.awaitHosts("a", "b")
	require.NoError(t, h.Close(t.Context()))
	s.awaitHosts("a")

	s.gateway.hosts.stir(bus.State{Kind: bus.Reconnected}) // what was said meanwhile is lost
	_, err := s.gateway.hosts.Known(t.Context())
	require.ErrorIs(t, err, errNotAllKnown)
	s.spawn(1)
	require.Equal(t, "[0]", string(s.ask("get", "").Data))
	s.awaitHosts("a")
}

func TestGateway_aHostThatIsGoneWithoutAWordIsForgotten(t *testing.T) {
	s := newSystem(t)
	s.awaitHosts("a")
	gone, err := subjects.NewHostID("gone")
	require.NoError(t, err)
	h := s.gateway.hosts
	h.mu.Lock()
	h.heard[gone] = time.Now().Add(-time.Minute)
	h.mu.Unlock()
	s.spawn(1)
	require.Equal(t, "[0]", string(s.ask("get", "").Data), "the others are asked again, and for who else there is")
	s.awaitHosts("a")
}

func TestGateway_saysWhichHostsItHasHeardOf(t *testing.T) {
	s := newSystem(t)
	s.awaitHosts("a")
	ask := func() (ids []subjects.HostID) {
		m, err := s.client.Request(t.Context(), bus.Msg{Subject: subjects.Space{}.Heartbeat(agent.HostList, subjects.Anon)})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(m.Data, &ids))
		return ids
	}
	require.Len(t, ask(), 1)
	gone, err := subjects.NewHostID("gone")
	require.NoError(t, err)
	h := s.gateway.hosts
	h.mu.Lock()
	h.heard[gone], h.next = time.Now().Add(-time.Minute), time.Time{}
	h.mu.Unlock()
	require.Contains(t, ask(), gone)
	s.awaitHosts("a") // whoever asks has it looked up anew
	h.stir(bus.State{Kind: bus.Reconnected})
	require.Nil(t, ask(), "it may have missed one")
	require.Eventually(t, func() bool { return len(ask()) == 1 }, patience, 10*time.Millisecond)
}
