package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh/inspect"
)

func TestHosts_canBeCordonedDrainedAndShutDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	mode := func(want string) {
		t.Helper()
		var got []string
		for _, h := range decode[[]agent.HostInfo](t, c.ok(t, "hosts", "-o", "json")) {
			got = append(got, h.Label+" "+string(h.Mode))
		}
		require.Equal(t, want, strings.Join(got, ", "))
	}
	require.NotContains(t, c.ok(t, "hosts"), "REASON", "no host has a reason")
	require.Equal(t, "HOST  RESULT\na     cordoned\nb     cordoned\n",
		c.ok(t, "hosts", "cordon", "a", "b", "--reason", "new disks"))
	mode("a cordoned, b cordoned, c open")
	require.Regexp(t, `a +cordoned .*  new disks`, c.ok(t, "hosts"))
	c.ok(t, "hosts", "uncordon", "b")
	mode("a cordoned, b open, c open")
	c.ok(t, "hosts", "uncordon", "a")

	c.up(t, "demo", "--per-host", "gpu=2")
	drained := decode[[]hostActionRecord](t, c.ok(t, "hosts", "drain", "b", "--grace", testkit.Patience.String(),
		"--max-concurrent", "2", "-o", "json"))
	require.Len(t, drained, 1)
	require.Equal(t, hostActionRecord{Host: "b", ID: drained[0].ID, Result: "drained", Asked: 2,
		Ended: 2}, drained[0])
	mode("a open, b open, c open")
	require.Equal(t, "HOST  RESULT     PROCS\nb     shut down  0 ended\nc     shut down  2 ended\n",
		c.ok(t, "hosts", "shutdown", "c", "b", "--grace", testkit.Patience.String()))
	again := c.client(t, "hosts", "shutdown", "c", "a", "--timeout", "5s")
	require.Zero(t, again.code, "a departed host is reported again: %s", again.err)
}

func TestHosts_selectByLabelAndComplete(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for label, labels := range map[string]map[string]string{"n1": {"zone": "a", "disk": "nvme"},
		"n2": {"zone": "b"}} {
		c.host(t, label, func(o *host.Options) { o.Labels = labels })
	}
	require.Regexp(t, `(?m)^HOST .* VERSION +LABELS\nn1 .* disk=nvme,zone=a\nn2 .* zone=b$`, c.ok(t, "hosts"))
	picked := decode[[]agent.HostInfo](t, c.ok(t, "hosts", "--label", "zone=a,disk=nvme", "-o", "json"))
	require.Len(t, picked, 1)
	require.Equal(t, "n1", picked[0].Label)
	require.Equal(t, "HOST  RESULT\nn2    cordoned\n", c.ok(t, "hosts", "cordon", "--label", "zone=b"))
	for _, row := range []struct {
		code int
		why  string
		args []string
	}{
		{cli.ExitNotFound, `host with labels "zone=c" does not exist; there is disk=nvme, zone=a, zone=b`,
			[]string{"hosts", "--label", "zone=c"}},
		{cli.ExitNotFound, `host "n3" does not exist; there is n1, n2`, []string{"hosts", "drain", "n1", "n3"}},
		{cli.ExitUsage, "want KEY=VALUE", []string{"hosts", "--label", "zone"}},
		{cli.ExitUsage, "drain: want the labels of hosts", []string{"hosts", "drain"}},
		{cli.ExitUsage, "want a whole number from 1 to 256",
			[]string{"hosts", "drain", "n1", "--max-concurrent", "257"}},
		{cli.ExitUsage, "want a duration", []string{"hosts", "shutdown", "n1", "--grace", "soon"}},
		{cli.ExitUsage, "unknown flag: --grace", []string{"hosts", "cordon", "n1", "--grace", "1s"}},
	} {
		r := c.answered(t, row.args...)
		require.Equal(t, row.code, r.code, "%v: %s", row.args, r.err)
		require.Contains(t, r.err, row.why)
		require.Empty(t, r.out)
	}
	c.requireCompletions(t, "n1\nn2\n:", "hosts", "drain", "")
	c.requireCompletions(t, "n2\n:", "hosts", "drain", "n1", "")
	c.requireCompletions(t, "zone=a\nzone=b\n:", "hosts", "--label", "zone")
}

func TestSpawn_skipsUnschedulableHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.System(t, "s")
	c.ok(t, "hosts", "cordon", "b", "--reason", "new disks")
	r := c.client(t, "spawn", "demo", "--detach", "-o", "ndjson")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "skipped hosts that take no procs: b is cordoned (new disks)\n")
	up := decode[heldmesh.Started](t, r.out)
	require.Equal(t, []string{"a"}, up.Hosts)
	for _, p := range decode[[]inspect.Proc](t, c.ok(t, "procs", "demo", "-o", "json")) {
		c.procs = append(c.procs, p.PID)
	}
	r = c.client(t, "spawn", "named", "--hosts", "a,b", "--detach")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, "host b is cordoned")
	c.ok(t, "hosts", "cordon", "a")
	r = c.client(t, "spawn", "nowhere", "--detach")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Equal(t, "castnet: hosts that take no procs: a is cordoned, b is cordoned (new disks)\n", r.err)
	c.ok(t, "stop", "demo")
}

func TestConfig_showsEffectiveValuesAndTheirSources(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	file := filepath.Join(t.TempDir(), "castnet.yaml")
	require.NoError(t, os.WriteFile(file, []byte("proc.ready-timeout: 2m\n"), 0o600))
	c.env = slices.DeleteFunc(c.env, func(v string) bool {
		return strings.HasPrefix(v, "CASTNET_DELIVERY_") || strings.HasPrefix(v, "CASTNET_BUS_")
	})
	own := c.ok(t, "config", "show", "--changed", "--config", file)
	require.Regexp(t,
		`^KEY +VALUE +FROM +DEFAULT +VARIABLE\nproc\.ready-timeout +2m +\S+castnet\.yaml:1:1 +30s +CASTNET_PROC_READY_TIMEOUT\n$`, own)
	b, up := c.up(t, "demo", "--per-host", "gpu=2", "--config", file)
	require.Regexp(t, `\nproc\.ready-timeout +2m +client +30s `,
		c.ok(t, "config", "show", "--changed", "demo[gpu=1]"))
	entries := decode[[]config.Entry](t, c.ok(t, "config", "show", up.Mesh+"/0.0", "-o", "json"))
	require.Len(t, entries, len(config.Keys()))
	require.Empty(t, decode[[]config.Entry](t,
		c.ok(t, "config", "show", "--host", "a", "--changed", "-o", "json")))
	for _, row := range []struct {
		code int
		why  string
		args []string
	}{
		{cli.ExitUsage, "want one proc, but it has 2 (host=1,gpu=2)", []string{"config", "show", "demo"}},
		{cli.ExitUsage, "want PROC or --host", []string{"config", "show", "demo", "--host", "a"}},
		{cli.ExitNotFound, `mesh "none" does not exist`, []string{"config", "show", "none"}},
		{cli.ExitNotFound, `host "b" does not exist; there is a`, []string{"config", "show", "--host", "b"}},
		{cli.ExitUsage, "/nowhere", []string{"hosts", "--config", "/nowhere"}},
	} {
		r := c.client(t, row.args...)
		require.Equal(t, row.code, r.code, "%v: %s", row.args, r.err)
		require.Contains(t, r.err, row.why)
	}
	require.Zero(t, exit(t, b, os.Interrupt), b.Err)
}
