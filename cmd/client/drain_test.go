package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

func TestHosts_drainMovesRanksToASpare(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	hosts, err := c.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	procs, err := hosts.Slice("host", 0, 1).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "demo", PerHost: shape.Of("gpu", 2), Command: mesh.Command{Path: agent.Builtin},
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Spares: hosts.Slice("host", 1, 2).Hosts()},
	})
	require.NoError(t, err)
	counter := actor.NewType[struct{}, int64]("counter")
	free, err := mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "free", Uncontrolled: true})
	require.NoError(t, err)
	r := c.client(t, "hosts", "drain", "a")
	require.Equal(t, cli.ExitFailure, r.code, r.err)
	require.Equal(t, "castnet: drain "+procs.ID().String()+": its actors would be lost:\n  "+free.Name()+
		" on [*]: no owner restarts them\n"+
		"nothing was drained: --force drains the procs without these actors;\nactors of a mesh that was made "+
		"with --restart transient come back\n", r.err)
	require.Equal(t, "HOST  RESULT   PROCS\na     drained  0 ended, 2 moved\n",
		c.ok(t, "hosts", "drain", "a", "--max-concurrent", "2", "--force"))
	var ranks []string
	for _, r := range decode[[]inspect.Proc](t, c.ok(t, "procs", "-o", "json")) {
		ranks = append(ranks, r.Point+" "+text.HostLabel(r.Host)+" "+r.Status)
	}
	require.Equal(t, []string{"host=0,gpu=0 b running", "host=0,gpu=1 b running"}, ranks,
		"the former host's record of the rank no longer counts")
	moved := decode[[]hostActionRecord](t, c.ok(t, "hosts", "drain", "b", "-o", "json"))
	require.Equal(t, hostActionRecord{Host: "b", ID: moved[0].ID, Result: "drained", Moved: 2}, moved[0],
		"back to the first host, now a spare")

	c.ok(t, "hosts", "cordon", "b")
	r = c.client(t, "hosts", "drain", "a")
	require.Equal(t, cli.ExitFailure, r.code, r.err)
	require.Equal(t, "castnet: drain "+procs.ID().String()+": its ranks [*] end, which cannot move: spare host b is "+
		"cordoned\nnothing was drained: --force drains in any case\n", r.err)
	r = c.client(t, "hosts", "drain", "a", "--force", "--reason", "new disks")
	require.Equal(t, "HOST  RESULT   PROCS\na     drained  2 ended\n", r.out)
	require.Contains(t, r.err, procs.ID().String()+"[*] stopped for good: new disks\n")
}
