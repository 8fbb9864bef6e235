package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
)

func TestMetrics_addUpTheProcsOfEachHost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "--per-host", "gpu=2", "--params", "10")
	c.ok(t, "cast", "demo", "counter", "add", "1")
	out := c.ok(t, "metrics")
	for _, host := range []string{"a", "b"} {
		require.Contains(t, out, `castnet_ranks{host="`+host+`",mesh="demo",phase="running"} 2`+"\n")
		require.Contains(t, out,
			`castnet_messages_handled_total{endpoint="add",host="`+host+`",mesh="demo",type="counter"} 2`+"\n")
	}
	require.NotContains(t, c.ok(t, "metrics", "b"), `host="a"`)

	all := decode[[]agent.Metrics](t, c.ok(t, "metrics", "a", "-o", "json"))
	require.Len(t, all, 1)
	require.Equal(t, "a", all[0].Host)
	require.Equal(t, "demo", all[0].Meshes[1].Mesh)

	r := c.client(t, "metrics", "c")
	require.Equal(t, cli.ExitNotFound, r.code)
	require.Equal(t, "castnet: host \"c\" does not exist; there is a, b\n", r.err)
	require.Empty(t, r.out)
}
