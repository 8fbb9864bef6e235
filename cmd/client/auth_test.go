package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/cli"
)

func TestAuth_keepsSecretsInFilesAndShowsNone(t *testing.T) {
	t.Parallel()
	env, _ := alone(t)
	dir := filepath.Join(t.TempDir(), "auth")
	run := func(args ...string) result {
		r := runClient(t, env, append([]string{"auth", "--dir", dir}, args...)...)
		require.Zero(t, r.code, "%s: %s", args, r.err)
		return r
	}
	require.Contains(t, run("init").err, "the keys are in "+dir)
	key := run("host", "add", "n07")
	require.Contains(t, key.out, `"principal": "p-n07"`)
	require.Contains(t, key.err, "servers that run do not know it yet: castnet auth push --server URL")
	out := filepath.Join(t.TempDir(), "alice.creds")
	minted := run("mint", "alice", "--role", "program", "--out", out)
	require.Contains(t, minted.err, "u-alice until ")
	require.Empty(t, minted.out)
	info, err := os.Stat(out)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	again := run("mint", "alice", "--role", "program")
	require.Contains(t, again.out, "BEGIN NATS USER JWT")
	require.NotContains(t, again.err, "do not know", "the account did not change")

	a, err := auth.Read(dir)
	require.NoError(t, err)
	run("revoke", "u-alice")
	run("host", "rm", "n07")
	for _, shown := range []string{run("ls").out, run("ls", "-o", "json").out, run("conf").out} {
		for _, secret := range []string{a.OperatorSeed, a.AccountSeed, a.SystemSeed, a.Keys[0].Seed, a.Keys[2].Seed} {
			require.NotContains(t, shown, secret)
		}
	}
	rows := decode[[]authRow](t, run("ls", "-o", "json").out)
	require.Len(t, rows, 5)
	for _, r := range rows {
		require.Equal(t, "revoked", r.Status)
	}
	secrets := filepath.Join(t.TempDir(), "secrets")
	conf := run("conf", "--users", "s-a,u-alice", "--passwords", secrets)
	require.Contains(t, conf.err, "wrote 3 files in "+secrets+": s-a.password u-alice.password a.key")
	password, err := os.ReadFile(filepath.Join(secrets, "u-alice.password"))
	require.NoError(t, err)
	require.NotContains(t, conf.out, string(password[:len(password)-1]))
}

func TestAuth_refusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	env, _ := alone(t)
	dir := filepath.Join(t.TempDir(), "auth")
	try := func(args ...string) result {
		return runClient(t, env, append([]string{"auth", "--dir", dir}, args...)...)
	}
	require.Contains(t, try("ls").err, "make one with castnet auth init")
	require.Zero(t, try("init").code)
	for want, args := range map[string][]string{
		"has an authority already":               {"init"},
		"want --role program, operator":          {"mint", "alice"},
		`role "root": want program`:              {"mint", "alice", "--role", "root"},
		"for hosts, castnet auth host add":       {"mint", "alice", "--role", "host"},
		`name "*": want`:                         {"mint", "*", "--role", "program"},
		`name "a.b": want`:                       {"host", "add", "a.b"},
		"want 1s to":                             {"mint", "alice", "--role", "program", "--for", "0s"},
		"there is no host n07":                   {"host", "rm", "n07"},
		`cannot revoke "alice": want`:            {"revoke", "alice"},
		"--users and --passwords go together":    {"conf", "--users", "u-a"},
		`user p-a: want u-, o-, w-, c-, h- or s`: {"conf", "--users", "p-a", "--passwords", dir},
	} {
		r := try(args...)
		require.NotZero(t, r.code, args)
		require.Contains(t, r.err, want)
		require.Empty(t, r.out)
	}
	r := try("push", "--server", "nats://127.0.0.1:1")
	require.Equal(t, cli.ExitConnection, r.code, r.err)
	r = try("mint", "alice", "--role", "program", "--server", "nats://127.0.0.1:1", "--out", filepath.Join(dir, "x"))
	require.Contains(t, r.err, "repeat with castnet auth push")
}
