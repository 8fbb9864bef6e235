package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
)

func TestBadInput_isReportedWithoutAnyHost_CLIC2(t *testing.T) {
	t.Parallel()
	env := append(baseEnv(t.TempDir()), "NATS_URL=nats://127.0.0.1:1", "NATS_TOKEN=secret") // where nothing is
	for want, args := range map[string][]string{
		`selection "gpu=x": want an index`:    {"procs", "demo[gpu=x]"},
		`selection "gpu=0:2 1": want an oper`: {"cast", "demo[gpu=0:2 1]", "counter", "get"},
		`actor "a.b": want`:                   {"call", "demo", "a.b", "get"},
		`where "demo/x": want MESH/RANK`:      {"where", "demo/x"},
		`proc ID "x/y/z": want mesh/rank.gen`: {"config", "show", "x/y/z"},
		`mesh "a.b": want`:                    {"config", "show", "a.b"},
		`"" for --server: want URL`:           {"hosts", "--server", ""},
		`"" for --namespace: want NAME`:       {"hosts", "--namespace="},
		`"" for --hosts: want HOSTS`:          {"spawn", "demo", "--hosts", ""},
		`"" for --label: want KEY=VALUE`:      {"spawn", "demo", "--label", ""},
		`"" for --invite: want LABEL`:         {"grow", "demo", "--invite", ""},
	} {
		r := runClient(t, env, args...)
		require.Equal(t, cli.ExitUsage, r.code, "%v: %s", args, r.err)
		require.Contains(t, r.err, want)
	}
	require.Equal(t, cli.ExitConnection, runClient(t, env, "procs", "demo[gpu=7,cpu=1]").code,
		"another mesh may have these")
}
