package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// look runs a command as if a person looked at its stderr.
func (c *cluster) look(t *testing.T, args ...string) (out, screen string, code int) {
	t.Helper()
	r := runOn(t, c.env, true, args...)
	return r.out, r.err, r.code
}

func TestCast_progressBarCountsReplies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "--per-host", "gpu=2", "--params", "1")
	out, screen, code := c.look(t, "cast", "demo", "counter", "get", "--reduce", "sum")
	require.Zero(t, code, screen)
	require.Equal(t, "4\n", out)
	require.Contains(t, screen, " 0/4 ranks")
	require.Contains(t, screen, " 4/4 ranks\r\x1b[K", "it leaves nothing behind")

	pid := decodeLines[inspect.Proc](t, c.ok(t, "procs", "demo[host=1,gpu=1]", "-o", "ndjson"))[0].PID
	frozen := func(args ...string) (out, screen string) { // not for long, or its server takes it for gone
		proctest.Suspend(t, pid)
		defer proctest.Resume(t, pid)
		out, screen, code := c.look(t, append(args, "--timeout", "3s")...)
		require.Equal(t, cli.ExitPartial, code, screen)
		return out, screen
	}
	out, screen = frozen("cast", "demo", "counter", "get", "--reduce", "sum")
	require.Equal(t, "3\n", out)
	require.Contains(t, screen, " 3/4 ranks")
	require.Contains(t, screen, "missing 1 [host=1,gpu=1]")
	out, screen = frozen("cast", "demo[host=1,gpu=1]", "counter", "get") // others say which actor it is
	require.Empty(t, out)
	require.Contains(t, screen, "1 of 1 ranks gave no value: [host=1,gpu=1] no answer within the deadline")
}
