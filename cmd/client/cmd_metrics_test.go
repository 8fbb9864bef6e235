package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestMetrics_addUpTheProcsOfEachHost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "--per-host", "gpu=2", "--params", "10")
	c.ok(t, "cast", "demo", "counter", "add", "1")
	testkit.Until(t, "each host adds up its two procs", func() bool {
		out := c.ok(t, "metrics")
		return !slices.ContainsFunc([]string{"a", "b"}, func(host string) bool {
			return !strings.Contains(out, `castnet_ranks{host="`+host+`",mesh="demo",phase="running"} 2`+"\n") ||
				!strings.Contains(out, `castnet_messages_handled_total{endpoint="add",host="`+host+
					`",mesh="demo",type="counter"} 2`+"\n")
		})
	})
	require.NotContains(t, c.ok(t, "metrics", "b"), `host="a"`)

	all := decode[[]agent.Metrics](t, c.ok(t, "metrics", "a", "-o", "json"))
	require.Len(t, all, 1)
	require.Equal(t, "a", all[0].Host)
	require.Equal(t, "demo", all[0].Meshes[1].Mesh)

	var shown []map[string]any
	require.NoError(t, json.Unmarshal([]byte(c.ok(t, "metrics", "a", "-o", "json")), &shown))
	requireSnakeCase(t, shown[0])
	demo := shown[0]["meshes"].([]any)[1].(map[string]any)
	require.Equal(t, map[string]any{"running": 2.0}, demo["ranks"])
	require.Contains(t, demo["stats"].(map[string]any)["links"], "sent")

	r := c.client(t, "metrics", "c")
	require.Equal(t, cli.ExitNotFound, r.code)
	require.Equal(t, "castnet: host \"c\" does not exist; there is a, b\n", r.err)
	require.Empty(t, r.out)
}

// requireSnakeCase refuses names of Go among the keys of a document.
func requireSnakeCase(t *testing.T, document any) {
	t.Helper()
	switch d := document.(type) {
	case []any:
		for _, item := range d {
			requireSnakeCase(t, item)
		}
	case map[string]any:
		for key, value := range d {
			require.Regexp(t, `^[a-z0-9_]+$`, key)
			requireSnakeCase(t, value)
		}
	}
}
