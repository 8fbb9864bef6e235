package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/cli"
)

func TestTop_screenShowsRanksTheirEndsAndTheirOutput(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	_, up := c.up(t, "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	s := onTerminal(t, c.env, 100, 30, "top", "--interval", "200ms")
	s.await(t, `host a +alive[^$]+demo\[host=0,gpu=1\] +running[^$]+host b +alive`)
	s.awaitMode(t, alternateScreen, true)

	c.ok(t, "cast", "demo", "talker", "talk", `"hello"`)
	s.press(t, "/gpu=1\rl")
	s.await(t, `output of demo\[host=0,gpu=1\][^$]+hello from 1`)
	s.press(t, "\r")
	s.await(t, `demo rank 1 \[host=0,gpu=1\]  running[^$]+talker running[^$]+· talk\(`)
	s.press(t, "e")
	c.kill(t, up.Mesh, "host=0,gpu=1")
	s.await(t, `demo rank 1 \[host=0,gpu=1\]  failed: killed by signal 9[^$]+last failure at [^$]+killed by signal 9`)
	s.press(t, "\x1b")
	s.await(t, `demo\[host=0,gpu=1\] +failed[^$]+demo\[host=1,gpu=0\] +running[^$]+demo\[host=0,gpu=1\] failed: killed`)

	s.resize(t, 60, 20)
	s.await(t, `(?m)^NAME▾ +STATUS +MSG/S +QUEUED +LATENCY +CPU$`)
	s.press(t, "q")
	require.Equal(t, cli.ExitOK, s.Exit(t))
	s.awaitMode(t, alternateScreen, false)
	s.awaitMode(t, visibleCursor, true)
}

func TestTop_screenSaysThatTheBusIsLostAndThatAMeshHasEnded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.up(t, "--per-host", "gpu=2", "--actor", "counter")
	road := bustest.NewAddress(t)
	road.Serve(c.Server)
	env := append([]string{}, c.env...)
	for i, v := range env {
		if strings.HasPrefix(v, "NATS_URL=") {
			env[i] = "NATS_URL=" + road.URL()
		}
	}
	s := onTerminal(t, append(env, "NO_COLOR=1"), 80, 24, "top", "demo", "--interval", "200ms")
	s.await(t, `castnet top demo  1 host, 2 ranks: 2 running`)
	road.Leave()
	s.await(t, `BUS LOST for \d+s: trying again`)
	s.press(t, "?")
	s.await(t, `any key back`)
	s.press(t, "?")
	road.Serve(c.Server)
	require.Eventually(t, func() bool { return !strings.Contains(s.frame(), "BUS LOST") }, 30*time.Second, 20*time.Millisecond)
	c.ok(t, "stop", "demo")
	s.await(t, `demo HAS ENDED: none of its ranks is left`)
	require.Equal(t, cli.ExitOK, exit(t, s.Process, os.Interrupt))
	s.awaitMode(t, alternateScreen, false)
}
