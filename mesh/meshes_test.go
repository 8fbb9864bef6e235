package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/subjects"
)

func TestMeshesOn_absentHostIsAnError(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c := testmesh.Start(t, testmesh.InMemory(), testmesh.Hosts("a"))
		absent, err := subjects.NewHostID("absent")
		require.NoError(t, err)
		_, err = c.Net.MeshesOn(testkit.Soon(t), []subjects.HostID{absent})
		require.ErrorIs(t, err, actor.ErrNoProc)
		require.ErrorContains(t, err, "cannot list the procs of host absent")
	})
}

func TestMeshes_silentSystemControllerHidesNoMesh(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	_, err := c.Open(t).Control().Subscribe("$SRV.PING.castnet-system.castnet_v1_default", func(bus.Msg) {})
	require.NoError(t, err)
	p, _ := c.workers(t, 1, 0)
	all, missing, err := inspect.Meshes(testkit.Soon(t), c.Net, false)
	require.NoError(t, err)
	require.ErrorContains(t, missing, "cannot ask the system controller for its meshes")
	require.Len(t, all, 1)
	require.Equal(t, []string{p.ID().String(), inspect.OwnerProgram}, []string{all[0].Mesh, all[0].Owner.Kind})
}
