package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// look runs a command with a terminal as its stderr.
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
	// A busy machine may need all of the time for the search before the cast, so the time doubles. The
	// server may declare a process gone that is frozen for long, so the time is short again then.
	frozen := func(want string, args ...string) (out, screen string) {
		const short = 3 * time.Second
		for timeout, began := short, time.Now(); time.Since(began) < testkit.Patience; {
			proctest.Suspend(t, pid)
			var code int
			out, screen, code = c.look(t, append(args, "--timeout", timeout.String())...)
			proctest.Resume(t, pid)
			if code == cli.ExitPartial && strings.Contains(screen, want) {
				return out, screen
			}
			timeout *= 2
			if strings.Contains(screen, "no responders") {
				timeout = short
				c.ok(t, "cast", "demo", "counter", "get") // the process is back
			}
		}
		require.Contains(t, screen, want)
		return out, screen
	}
	out, screen = frozen("missing 1 [host=1,gpu=1]", "cast", "demo", "counter", "get", "--reduce", "sum")
	require.Equal(t, "3\n", out)
	require.Contains(t, screen, " 3/4 ranks")
	// others name the actor
	out, _ = frozen("1 of 1 ranks gave no value: [host=1,gpu=1] no answer within the deadline",
		"cast", "demo[host=1,gpu=1]", "counter", "get")
	require.Empty(t, out)
}
