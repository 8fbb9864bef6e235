package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/cli"
)

func TestEnv_printsVariablesThatReachTheLocalHostd(t *testing.T) {
	t.Parallel()
	env, path := alone(t)
	require.NoError(t, bus.WriteLocal(path, bus.LocalServer{URL: "nats://127.0.0.1:5222", Token: "it's a secret",
		PID: os.Getpid()}))
	r := runClient(t, env, "env")
	require.Zero(t, r.code, r.err)
	require.Equal(t, "export NATS_URL=nats://127.0.0.1:5222\nexport NATS_TOKEN='it'\\''s a secret'\n", r.out)
	said, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", r.out+`printf '%s' "$NATS_TOKEN"`).Output()
	require.NoError(t, err)
	require.Equal(t, "it's a secret", string(said))
	for _, format := range []string{"json", "ndjson"} {
		require.Equal(t, map[string]string{"NATS_URL": "nats://127.0.0.1:5222", "NATS_TOKEN": "it's a secret"},
			decode[map[string]string](t, runClient(t, env, "env", "-o", format).out))
	}
}

func TestEnv_roundTrips(t *testing.T) {
	t.Parallel()
	vars := map[string]string{}
	for _, v := range envVariables(bus.Options{
		URL: "u", Creds: "c", NKey: "n", User: "me", Password: "p", Token: "t", JWT: "j", Seed: "s",
		CertFile: "cert", KeyFile: "key", CAFile: "ca", Fingerprint: "fp", InboxPrefix: "in",
	}) {
		vars[v.name] = v.value
	}
	require.Len(t, vars, 13)
	require.Equal(t, bus.Options{
		URL: "u", Creds: "c", NKey: "n", User: "me", Password: "p", Token: "t", JWT: "j", Seed: "s",
		CertFile: "cert", KeyFile: "key", CAFile: "ca", Fingerprint: "fp", InboxPrefix: "in",
	}, bus.FromEnv(func(key string) string { return vars[key] }))
}

func TestEnv_reportsAMissingBus(t *testing.T) {
	t.Parallel()
	env, _ := alone(t)
	r := runClient(t, env, "env")
	require.Equal(t, cli.ExitConnection, r.code)
	require.Empty(t, r.out)
	require.Contains(t, r.err, "no bus is named, and no hostd of this user runs here")
}

// alone is an environment without a bus, and the file for a local hostd's server.
func alone(t *testing.T) (env []string, local string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	env = baseEnv(dir)
	local, err := bus.LocalFile(func(key string) string {
		for _, v := range env {
			if value, ok := strings.CutPrefix(v, key+"="); ok {
				return value
			}
		}
		return ""
	})
	require.NoError(t, err)
	return env, local
}
