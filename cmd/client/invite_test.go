package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestGrow_invitesAHost_CTL21(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	b, up := c.up(t, "demo", "--per-host", "gpu=2", "--params", "100")
	file := filepath.Join(t.TempDir(), "b.invite")
	r := c.client(t, "grow", "demo", "--invite", "b", "--for", "1h", "--out", file)
	require.Zero(t, r.code, r.err)
	require.Empty(t, r.out)
	require.Equal(t, "host b may join "+up.Mesh+" within 1h0m0s, once: hostd --label b --join-mesh "+file+"\n", r.err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	i, err := agent.ParseInvitation(string(text[:len(text)-1]))
	require.NoError(t, err)
	h := c.host(t, "b")
	_, err = i.Join(testkit.Soon(t), h.Proc(), h.ID())
	require.NoError(t, err)
	require.Equal(t, "400\n", c.ok(t, "cast", "demo", "counter", "get", "--reduce", "sum"))

	record := decode[inviteRecord](t, c.ok(t, "grow", "demo", "--invite", "d", "-o", "json"))
	require.Equal(t, []string{up.Mesh, "d", "10m0s", ""},
		[]string{record.Mesh, record.Host, record.ValidFor, record.File})
	out := c.ok(t, "grow", "demo", "--invite", "d")
	for _, text := range []string{record.Invite, out[:len(out)-1]} {
		_, err := agent.ParseInvitation(text)
		require.NoError(t, err)
	}
	unmade := filepath.Join(t.TempDir(), "unmade")
	for want, args := range map[string][]string{
		"want no number and no --hosts":                 {"demo", "1", "--invite", "d"},
		"--for 25h0m0s: want at most 24h0m0s":           {"demo", "--invite", "d", "--for", "25h"},
		"--for and --out are for an invite":             {"demo", "1", "--out", unmade},
		"the file exists: want a new one":               {"demo", "--invite", "d", "--out", file},
		"--invite: ":                                    {"demo", "--invite", "a.b"},
		"takes a whole mesh: want demo, got demo[gpu=0": {"demo[gpu=0]", "--invite", "d"},
	} {
		r := c.client(t, append([]string{"grow"}, args...)...)
		require.Equal(t, cli.ExitUsage, r.code, r.err)
		require.Contains(t, r.err, want)
	}
	c.System(t, "s")
	c.ok(t, "spawn", "kept", "--detach")
	r = c.client(t, "grow", "kept", "--invite", "d", "--out", unmade)
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, "it is detached: adopt it first: castnet adopt kept\n")
	require.NoFileExists(t, unmade)
	c.ok(t, "stop", "kept")
	require.Zero(t, exit(t, b, os.Interrupt))
}

func TestGolden_invite(t *testing.T) {
	golden.Check(t, "grow-invite", func(out *output.Printer) error {
		return showInvite(out, inviteRecord{Mesh: demoID, Host: "node-b", ValidFor: "10m0s", Invite: "castnet-invite-1:…"})
	})
}
