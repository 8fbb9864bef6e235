package main

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
)

func TestHosts_aDrainMovesWhatHasASpareHostAndSaysHowMuch(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	net, err := mesh.Connect(t.Context(), mesh.Options{Bus: &bus.Options{URL: c.url, Token: "secret"}, Log: zerolog.Nop()})
	require.NoError(t, err)
	defer func() { require.NoError(t, net.Close(t.Context())) }()
	hosts, err := net.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	_, err = hosts.Slice("host", 0, 1).SpawnProcs(t.Context(), mesh.Spawning{
		Name: "demo", PerHost: shape.Of("gpu", 2), Command: mesh.Command{Path: agent.Builtin},
		Policy: mesh.Policy{Recovery: mesh.Replace, Spares: hosts.Slice("host", 1, 2).Hosts()},
	})
	require.NoError(t, err)
	require.Equal(t, "HOST  RESULT   PROCS\na     drained  0 ended, 2 moved\n", c.ok(t, "hosts", "drain", "a", "--at-once", "2"))
	var ranks []string
	for _, r := range decode[[]procRecord](t, c.ok(t, "procs", "-o", "json")) {
		ranks = append(ranks, r.Point+" "+hostLabel(r.Host)+" "+r.Status)
	}
	require.Equal(t, []string{"host=0,gpu=0 b running", "host=0,gpu=1 b running"}, ranks, "what its former host knows of a rank is over")
	moved := decode[[]deedRecord](t, c.ok(t, "hosts", "drain", "b", "-o", "json"))
	require.Equal(t, deedRecord{Host: "b", ID: moved[0].ID, Result: "drained", Moved: 2}, moved[0], "back to the first, which is a spare host now")
}
