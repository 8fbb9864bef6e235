package gateway

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

// labels are those of the present hosts; none if the list may be incomplete.
func (h *hosts) labels() (out []string) {
	if ids, all := h.reachable(); all {
		for _, id := range ids {
			out = append(out, id.Label())
		}
	}
	return out
}

func (s *system) awaitHosts(labels ...string) {
	s.Helper()
	require.Eventually(s, func() bool { return slices.Equal(labels, s.gateway.hosts.labels()) }, patience,
		time.Millisecond)
}

func TestGateway_findsAMeshOnceKnownHostsAnswered_GW5(t *testing.T) {
	s := newSystem(t)
	s.awaitHosts("a")
	s.spawn(2)
	require.Equal(t, "[0,1]", string(s.ask("get", "").Data))
	s.gateway.directory.mu.Lock()
	require.Nil(t, s.gateway.directory.lastFullScan, "no full scan was made")
	s.gateway.directory.mu.Unlock()

	nope, err := s.client.Request(t.Context(), bus.Msg{Subject: "castnet.v1.default.cast.nope.probe.get.u-anon.x"})
	require.NoError(t, err)
	require.Equal(t, "404", code(nope))
	s.gateway.directory.mu.Lock()
	require.NotNil(t, s.gateway.directory.lastFullScan, "a missing mesh needs a full scan")
	s.gateway.directory.mu.Unlock()
}

// A known host without an answer may have the mesh, until it is dead.
func TestGateway_aMeshIsUnavailableWhileASilentHostMayHaveIt_MESH9(t *testing.T) {
	s := newSystem(t)
	s.awaitKnown("a alive")
	silent := testproc.HostID(t, "silent")
	s.gateway.hosts.noteAlive(silent, time.Now())
	ask := func() bus.Msg {
		m, err := s.client.Request(t.Context(), bus.Msg{Subject: "castnet.v1.default.cast.nope.probe.get.u-anon.x"})
		require.NoError(t, err)
		return m
	}
	m := ask()
	require.Equal(t, "503", code(m))
	require.Contains(t, string(m.Data), "1 of 2 hosts did not answer: silent (suspect")
	s.gateway.hosts.mu.Lock()
	s.gateway.hosts.known[silent].missing = true
	s.gateway.hosts.mu.Unlock()
	require.Contains(t, s.gateway.hosts.expected(), silent, "the next search waits for it again")
	s.awaitKnown("a alive", "silent dead")
	require.NotContains(t, s.gateway.hosts.expected(), silent)
	m = ask()
	require.Equal(t, "404", code(m))
	require.Contains(t, string(m.Data), "1 of 2 hosts did not answer: silent (dead")
}

func TestGateway_noticesHostStartsAndEnds(t *testing.T) {
	s := newSystem(t)
	s.awaitHosts("a")
	h, _ := s.cluster.Host(t, "b")
	s.awaitHosts("a", "b")
	require.NoError(t, h.Close(t.Context()))
	s.awaitHosts("a")

	s.gateway.hosts.onBusState(bus.State{Kind: bus.Reconnected}) // what was said meanwhile is lost
	_, err := s.gateway.hosts.KnownMeshes(t.Context())
	require.ErrorIs(t, err, errHostsIncomplete)
	s.spawn(1)
	require.Equal(t, "[0]", string(s.ask("get", "").Data))
	s.awaitHosts("a")
}

func TestGateway_departedHostStaysGoneDespiteALateReply(t *testing.T) {
	s := newSystem(t)
	s.awaitHosts("a")
	h, _ := s.cluster.Host(t, "b")
	s.awaitHosts("a", "b")
	asked := time.Now()
	require.NoError(t, h.Close(t.Context()))
	s.awaitHosts("a")

	s.gateway.hosts.noteAlive(h.ID(), asked) // the look that had asked it
	s.gateway.hosts.prune()
	states, _ := s.known()
	require.Equal(t, []string{"a alive"}, states)
}

func TestGateway_forgetsASilentlyLostHost(t *testing.T) {
	s := newSystem(t)
	s.awaitHosts("a")
	gone := testproc.HostID(t, "gone")
	s.gateway.hosts.noteAlive(gone, time.Now().Add(-time.Minute))
	s.spawn(1)
	require.Equal(t, "[0]", string(s.ask("get", "").Data),
		"the others are asked again, and a scan looks for more hosts")
	s.awaitHosts("a")
}

// known asks the gateway for its hosts: each label with its state, and whether the list is
// complete.
func (s *system) known() (states []string, all bool) {
	l, err := agent.ListKnownHosts(s.Context(), s.net.Bus(), subjects.Space{})
	require.NoError(s, err)
	for _, h := range l.Hosts {
		states = append(states, h.ID.Label()+" "+h.State)
	}
	return states, l.Complete
}

func (s *system) awaitKnown(want ...string) {
	s.Helper()
	require.Eventually(s, func() bool {
		states, all := s.known()
		return all && slices.Equal(want, states)
	}, patience, 10*time.Millisecond)
}

func TestGateway_listsADeadHostUntilItExpires(t *testing.T) {
	s := newSystem(t)
	s.awaitKnown("a alive")
	h, _ := s.cluster.Host(t, "b")
	s.awaitKnown("a alive", "b alive")
	require.NoError(t, h.Close(t.Context()))
	s.awaitKnown("a alive") // it has left in order

	dead := testproc.HostID(t, "dead")
	hosts := s.gateway.hosts
	hosts.noteAlive(dead, time.Now().Add(-hosts.remember/2))
	s.awaitKnown("a alive", "dead dead")
	l := hosts.listing()
	require.InDelta(t, hosts.remember/2, l.Hosts[1].Silence, float64(time.Minute))
	require.Contains(t, l.Hosts[1].Reason, "no heartbeat")
	s.awaitHosts("a") // it is not asked

	next := s.another("a")
	next.hosts.mu.Lock()
	known := next.hosts.known[dead]
	next.hosts.mu.Unlock()
	require.NotNil(t, known, "a gateway asks the others first")
	require.False(t, known.mayBeAlive(), "the others saw it die")

	hosts.mu.Lock()
	hosts.known[dead].lastHeard = time.Now().Add(-2 * hosts.remember)
	hosts.mu.Unlock()
	require.Len(t, hosts.listing().Hosts, 1)
}

func TestGateway_listsAHostWithANewIDOnce(t *testing.T) {
	s := newSystem(t)
	s.awaitKnown("a alive")
	before := testproc.HostID(t, "a")
	s.gateway.hosts.noteAlive(before, time.Now().Add(-time.Minute))
	s.awaitKnown("a alive")
}

func TestGateway_hostListSaysThatItIsIncomplete(t *testing.T) {
	s := newSystem(t)
	s.awaitKnown("a alive")
	s.gateway.hosts.mu.Lock()
	s.gateway.hosts.nextScan = time.Now().Add(time.Hour)
	s.gateway.hosts.mu.Unlock()
	s.gateway.hosts.onBusState(bus.State{Kind: bus.Reconnected})
	_, all := s.known()
	require.False(t, all)
	s.gateway.hosts.mu.Lock()
	s.gateway.hosts.nextScan = time.Time{}
	s.gateway.hosts.mu.Unlock()
	s.awaitKnown("a alive")
}
