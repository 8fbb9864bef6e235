package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
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
