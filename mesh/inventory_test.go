package mesh_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

func TestInventory_isPartialWhileAGatewayHangs_MESH9(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a"))
	inv, err := c.Inventory(t.Context())
	require.NoError(t, err)
	require.NoError(t, inv.Err(), "without a gateway only the answering hosts are known")

	hung := c.Open(t).Control()
	_, err = hung.SubscribeGroup(subjects.Space{}.Heartbeats(agent.KindHostList), "gateway", func(bus.Msg) {})
	require.NoError(t, err)
	require.NoError(t, hung.Flush(t.Context()))
	inv, err = c.Inventory(t.Context())
	require.NoError(t, err)
	require.Len(t, inv.Hosts, 1)
	require.Equal(t, &mesh.MissingHostsError{Hosts: 1, NoHostList: true}, inv.Err())
	require.EqualError(t, inv.Err(), "no gateway listed the hosts: silent hosts may be missing")
}

func TestInventory_isCompleteDespiteAWildcardListener_MESH9(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a"))
	everything := c.Open(t).Data()
	_, err := everything.Subscribe(">", func(bus.Msg) {})
	require.NoError(t, err)
	require.NoError(t, everything.Flush(t.Context()))
	inv, err := c.Inventory(t.Context())
	require.NoError(t, err)
	require.NoError(t, inv.Err())

	hung := c.Open(t).Control()
	_, err = hung.SubscribeGroup(subjects.Space{}.Heartbeats(agent.KindHostList), "gateway", func(bus.Msg) {})
	require.NoError(t, err)
	require.NoError(t, hung.Flush(t.Context()))
	inv, err = c.Inventory(t.Context())
	require.NoError(t, err)
	require.Equal(t, &mesh.MissingHostsError{Hosts: 1, NoHostList: true}, inv.Err())
}

// A gateway knows a silent host: it may have the mesh.
func TestLookup_reportsUnknownOnlyWhenAllHostsAnswered_MESH9(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a"))
	c.AllHosts(t, c.Net)
	_, err := c.Lookup(t.Context(), "nobody")
	require.ErrorAs(t, err, new(*mesh.NotFoundError))
	require.NotErrorAs(t, err, new(*mesh.MissingHostsError), "the only host has answered")

	silent, err := subjects.NewHostID("silent")
	require.NoError(t, err)
	var lists atomic.Int32
	var state atomic.Value
	state.Store(agent.HostAlive)
	gateway := c.Open(t).Control()
	_, err = gateway.Subscribe(subjects.Space{}.Heartbeats(agent.KindHostList), func(m bus.Msg) {
		lists.Add(1)
		list := agent.HostList{Complete: true, Hosts: []agent.KnownHost{{ID: silent, State: state.Load().(string)}}}
		data, err := wire.Marshal(list)
		require.NoError(t, err)
		require.NoError(t, gateway.PublishMsg(bus.Msg{Subject: m.Reply, Data: data}))
	})
	require.NoError(t, err)
	require.NoError(t, gateway.Flush(t.Context()))
	partial := func() *mesh.MissingHostsError {
		_, err := c.Lookup(t.Context(), "nobody")
		require.ErrorAs(t, err, new(*mesh.NotFoundError))
		missing, is := errors.AsType[*mesh.MissingHostsError](err)
		require.True(t, is, "%v", err)
		return missing
	}
	require.Equal(t, "silent", partial().Silent[0].Label)
	require.Greater(t, lists.Load(), int32(2), "it asked again: the host may be slow")

	state.Store(agent.HostDead)
	require.Equal(t, agent.HostDead, partial().Silent[0].State)
}
