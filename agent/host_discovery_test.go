package agent_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

func TestDiscoverHosts_returnsAnsweringHostsByLabel(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	b := bustest.Open(t, srv)
	// A busy machine may need all of the time for the answers, so the time doubles.
	find := func(want int) (found []agent.HostInfo, err error) {
		for quiet := 150 * time.Millisecond; quiet < testkit.Patience; quiet *= 2 {
			found, _, err = agent.DiscoverHosts(t.Context(), b, subjects.Space{}, quiet)
			if err != nil || len(found) >= want {
				break
			}
		}
		return found, err
	}
	none, err := find(0)
	require.NoError(t, err)
	require.Empty(t, none)

	answer := func(data []byte, header bus.Header) {
		hb := bustest.Open(t, srv)
		_, err := hb.Control().Subscribe("castnet.v1.default.hr.any.info.*.*", func(m bus.Msg) {
			require.NoError(t, hb.Control().PublishMsg(bus.Msg{Subject: m.Reply, Data: data, Header: header}))
		})
		require.NoError(t, err)
	}
	for _, label := range []string{"b", "a"} {
		id := testproc.HostID(t, label)
		data, err := json.Marshal(agent.HostInfo{ID: id, Label: label})
		require.NoError(t, err)
		answer(data, nil)
	}
	answer([]byte(`{"error":"stopped"}`), bus.Header{actor.HeaderError: {"stopped"}})
	found, err := find(2)
	require.NoError(t, err, "a stopping host is omitted")
	require.Len(t, found, 2)
	require.Equal(t, []string{"a", "b"}, []string{found[0].Label, found[1].Label})

	for _, stray := range []string{`{"label":"c"}`, `{"stream":"audit","seq":7}`, ``} {
		answer([]byte(stray), nil)
	}
	found, err = find(2)
	require.NoError(t, err, "invalid answers are ignored")
	require.Len(t, found, 2)
	require.GreaterOrEqual(t, b.IgnoredReplies(), uint64(3), "and counted")
}

// The server reports missing listeners at once, unless there is a wildcard listener.
func TestDiscoverHosts_returnsNoneDespiteAWildcardListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		_, err := bustest.Open(t, srv).Data().Subscribe(">", func(bus.Msg) {})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		for _, find := range []func() ([]agent.HostInfo, []subjects.HostID, error){
			func() ([]agent.HostInfo, []subjects.HostID, error) {
				return agent.DiscoverHosts(ctx, bustest.Open(t, srv), subjects.Space{}, time.Second)
			},
			func() ([]agent.HostInfo, []subjects.HostID, error) {
				return agent.DiscoverListedHosts(ctx, bustest.Open(t, srv), subjects.Space{}, time.Second)
			},
		} {
			none, _, err := find()
			require.NoError(t, err)
			require.Empty(t, none)
		}
		require.Less(t, time.Since(began), 4*time.Second)
	})
}

func TestDiscoverListedHosts_endsSoonAfterKnownHostsAnswered(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		srv := bustest.Server(t)
		const quiet = 20 * time.Second // nobody waits for so long
		var ids []subjects.HostID
		for _, label := range []string{"a", "slow"} {
			id := testproc.HostID(t, label)
			ids = append(ids, id)
		}
		asked := make(chan struct{}, 2)
		hb := bustest.Open(t, srv)
		for i, id := range ids {
			_, err := bustest.Open(t, srv).Control().Subscribe("castnet.v1.default.hr.any.info.*.*", func(m bus.Msg) {
				data, err := json.Marshal(agent.HostInfo{ID: id, Label: id.Label()})
				require.NoError(t, err)
				if i == 1 {
					<-asked // by then the other one has answered, and the gateway may have
				}
				require.NoError(t, hb.Control().PublishMsg(bus.Msg{Subject: m.Reply, Data: data}))
				asked <- struct{}{}
			})
			require.NoError(t, err)
		}
		_, err := hb.Control().Subscribe("castnet.v1.default.hb.hosts.*.*", func(m bus.Msg) {
			data, err := wire.Marshal(agent.HostList{Complete: true,
				Hosts: []agent.KnownHost{{ID: ids[0]}, {ID: ids[1]}}})
			require.NoError(t, err)
			require.NoError(t, hb.Control().PublishMsg(bus.Msg{Subject: m.Reply, Data: data}))
		})
		require.NoError(t, err)
		require.NoError(t, hb.Control().Flush(t.Context()))
		began := time.Now()
		found, _, err := agent.DiscoverListedHosts(t.Context(), bustest.Open(t, srv), subjects.Space{}, quiet)
		require.NoError(t, err)
		require.Len(t, found, 2)
		require.Less(t, time.Since(began), quiet)
	})
}

func TestDiscoverListedHosts_namesListedHostsThatAreSilent(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, slow, dead := testproc.HostID(t, "a"), testproc.HostID(t, "slow"), testproc.HostID(t, "dead")
		hb := bustest.Open(t, srv)
		_, err := hb.Control().Subscribe("castnet.v1.default.hr.any.info.*.*", func(m bus.Msg) {
			data, err := json.Marshal(agent.HostInfo{ID: a, Label: a.Label()})
			require.NoError(t, err)
			require.NoError(t, hb.Control().PublishMsg(bus.Msg{Subject: m.Reply, Data: data}))
		})
		require.NoError(t, err)
		_, err = hb.Control().Subscribe("castnet.v1.default.hb.hosts.*.*", func(m bus.Msg) {
			data, err := wire.Marshal(agent.HostList{Complete: true, Hosts: []agent.KnownHost{
				{ID: a}, {ID: dead, State: agent.HostDead}, {ID: slow, State: agent.HostSuspect}}})
			require.NoError(t, err)
			require.NoError(t, hb.Control().PublishMsg(bus.Msg{Subject: m.Reply, Data: data}))
		})
		require.NoError(t, err)
		require.NoError(t, hb.Control().Flush(t.Context()))
		found, silent, err := agent.DiscoverListedHosts(t.Context(), bustest.Open(t, srv), subjects.Space{}, time.Millisecond)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, []subjects.HostID{slow}, silent)
	})
}

// The list of a gateway shows that there is a host: no reason to give up on it sooner.
func TestDiscoverListedHosts_awaitsTheOnlyHostThoughItIsSlow(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		srv := bustest.Server(t)
		id, hb := testproc.HostID(t, "slow"), bustest.Open(t, srv)
		_, err := bustest.Open(t, srv).Control().Subscribe("castnet.v1.default.hr.any.info.*.*", func(m bus.Msg) {
			data, err := json.Marshal(agent.HostInfo{ID: id, Label: id.Label()})
			require.NoError(t, err)
			time.Sleep(3 * time.Second)
			require.NoError(t, hb.Control().PublishMsg(bus.Msg{Subject: m.Reply, Data: data}))
		})
		require.NoError(t, err)
		_, err = hb.Control().Subscribe("castnet.v1.default.hb.hosts.*.*", func(m bus.Msg) {
			data, err := wire.Marshal(agent.HostList{Complete: true, Hosts: []agent.KnownHost{{ID: id}}})
			require.NoError(t, err)
			require.NoError(t, hb.Control().PublishMsg(bus.Msg{Subject: m.Reply, Data: data}))
		})
		require.NoError(t, err)
		require.NoError(t, hb.Control().Flush(t.Context()))
		found, _, err := agent.DiscoverListedHosts(t.Context(), bustest.Open(t, srv), subjects.Space{}, time.Millisecond)
		require.NoError(t, err)
		require.Len(t, found, 1)
	})
}

func TestListKnownHosts_retriesUntilAGatewayAnswers(t *testing.T) {
	srv := bustest.Server(t)
	b := bustest.Open(t, srv)
	_, err := agent.ListKnownHosts(t.Context(), b, subjects.Space{})
	require.ErrorIs(t, err, bus.ErrNoResponders)

	id := testproc.HostID(t, "a")
	asked := 0
	want := agent.HostList{Complete: true,
		Hosts: []agent.KnownHost{{ID: id, State: agent.HostDead, Reason: "no heartbeat", Silence: time.Minute}}}
	gw := bustest.Open(t, srv)
	_, err = gw.Control().Subscribe("castnet.v1.default.hb.hosts.*.*", func(m bus.Msg) {
		asked++
		if asked < 3 { // as a gateway that hangs
			return
		}
		data, err := wire.Marshal(want)
		require.NoError(t, err)
		require.NoError(t, gw.Control().PublishMsg(bus.Msg{Subject: m.Reply, Data: data}))
	})
	require.NoError(t, err)
	require.NoError(t, gw.Control().Flush(t.Context()))
	got, err := agent.ListKnownHosts(t.Context(), b, subjects.Space{})
	require.NoError(t, err)
	require.Equal(t, want, got)
}
