package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/cli"
)

func TestMeshes_silentSystemControllerHidesNoMesh(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.up(t, "demo", "--per-host", "gpu=1")
	_, err := c.Open(t).Control().Subscribe("$SRV.PING.castnet-system.castnet_v1_default", func(bus.Msg) {})
	require.NoError(t, err)
	r := c.client(t, "meshes")
	require.Equal(t, cli.ExitPartial, r.code)
	require.Contains(t, r.err, "cannot ask the system controller for its meshes")
	require.Regexp(t, `demo-\w+ +mesh .* 1/1 +a +client-`, r.out)
}
