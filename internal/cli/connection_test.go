package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/cli"
)

// contexts writes NATS contexts to the folder that machine reads, and selects one.
func contexts(t *testing.T, getenv func(string) string, selected string, files map[string]string) {
	t.Helper()
	dir := filepath.Join(getenv("XDG_CONFIG_HOME"), "nats")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "context"), 0o700))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "context", name+".json"), []byte(text), 0o600))
	}
	if selected != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "context.txt"), []byte(selected), 0o600))
	}
}

// local writes the record of a hostd in this process.
func local(t *testing.T, getenv func(string) string) {
	t.Helper()
	path, err := bus.LocalFile(getenv)
	require.NoError(t, err)
	require.NoError(t, bus.WriteLocal(path, bus.LocalServer{URL: "nats://127.0.0.1:5222", Token: "local",
		PID: os.Getpid()}))
}

func TestConnection_precedenceIsFlagsVariablesContextLocalFile_CLI1(t *testing.T) {
	getenv := machine(t, map[string]string{
		"NATS_URL": "nats://env", "NATS_CA": "env.ca", "NATS_INBOX_PREFIX": "ENV",
	})
	contexts(t, getenv, "",
		map[string]string{"c": `{"url":"nats://context","ca":"context.ca","inbox_prefix":"CTX","token":"t","tls_first":true}`})
	local(t, getenv)

	o, err := typed(t, "--context", "c", "--server", "nats://flag").Options(getenv)
	require.NoError(t, err)
	require.Equal(t, bus.Options{URL: "nats://flag", CAFile: "env.ca", InboxPrefix: "ENV", Token: "t",
		TLSFirst: true}, o)

	o, err = typed(t, "--context", "c", "--tlsca", "flag.ca", "--insecure", "--timeout", "3s").Options(getenv)
	require.NoError(t, err)
	require.Equal(t, bus.Options{
		URL: "nats://env", CAFile: "flag.ca", InboxPrefix: "ENV", Token: "t", TLSFirst: true, Insecure: true,
		ConnectTimeout: 3 * time.Second,
	}, o)
}

func TestConnection_selectedContextCountsOnlyWithoutURL_CLI1(t *testing.T) {
	vars := map[string]string{}
	getenv := machine(t, vars)
	contexts(t, getenv, "chosen", map[string]string{
		"chosen": `{"url":"nats://chosen","user":"u","password":"p"}`,
		"named":  `{"url":"nats://named","user_jwt":"j","user_seed":"s"}`,
	})
	local(t, getenv)
	resolve := func(args ...string) bus.Options {
		o, err := typed(t, args...).Options(getenv)
		require.NoError(t, err)
		return o
	}
	require.Equal(t, bus.Options{URL: "nats://chosen", User: "u", Password: "p"}, resolve())
	require.Equal(t, bus.Options{URL: "nats://flag"}, resolve("-s", "nats://flag"))
	vars["NATS_CONTEXT"] = "named"
	require.Equal(t, bus.Options{URL: "nats://named", JWT: "j", Seed: "s"}, resolve())
	require.Equal(t, bus.Options{URL: "nats://chosen", User: "u", Password: "p"}, resolve("--context", "chosen"))
	vars["NATS_CONTEXT"], vars["NATS_URL"] = "", "nats://env"
	require.Equal(t, bus.Options{URL: "nats://env"}, resolve())
}

func TestConnection_identityComesFromOneSource_CLI1(t *testing.T) {
	for name, row := range map[string]struct {
		vars map[string]string
		args []string
		want bus.Options
	}{
		"a flag shuts out another kind": {
			map[string]string{"NATS_CREDS": "env.creds", "NATS_TOKEN": "env"},
			[]string{"--user", "me", "--password", "p"},
			bus.Options{User: "me", Password: "p"},
		},
		"the password from the environment": {
			map[string]string{"NATS_USER": "other", "NATS_PASSWORD": "p"}, []string{"--user", "me"},
			bus.Options{User: "me", Password: "p"},
		},
		"the user from the environment": {
			map[string]string{"NATS_USER": "me"}, []string{"--password", "p"}, bus.Options{User: "me", Password: "p"},
		},
		"a variable shuts out the context": {
			map[string]string{"NATS_NKEY": "n"}, []string{"--context", "c"}, bus.Options{NKey: "n"},
		},
		"a certificate and its key": {
			map[string]string{"NATS_CERT": "env.crt", "NATS_KEY": "env.key"},
			[]string{"--tlscert", "a.crt", "--tlskey", "a.key", "--token", "t"},
			bus.Options{CertFile: "a.crt", KeyFile: "a.key", Token: "t"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			getenv := machine(t, row.vars)
			contexts(t, getenv, "", map[string]string{"c": `{"creds":"/context.creds"}`})
			o, err := typed(t, append(row.args, "--server", "nats://x")...).Options(getenv)
			require.NoError(t, err)
			row.want.URL = "nats://x"
			require.Equal(t, row.want, o)
		})
	}
}

func TestConnection_trustComesFromOneSource_CLI1(t *testing.T) {
	flag, env := "sha256:"+strings.Repeat("0a", 32), "sha256:"+strings.Repeat("0b", 32)
	own := "sha256:" + strings.Repeat("0c", 32)
	for name, row := range map[string]struct {
		vars map[string]string
		args []string
		want bus.Options
	}{
		"a fingerprint shuts out a file": {map[string]string{"NATS_CA": "env.ca"},
			[]string{"--tls-fingerprint", flag}, bus.Options{Fingerprint: flag}},
		"a file shuts out a fingerprint": {map[string]string{"NATS_TLS_FINGERPRINT": env},
			[]string{"--tlsca", "flag.ca"}, bus.Options{CAFile: "flag.ca"}},
		"the variable":                 {map[string]string{"NATS_TLS_FINGERPRINT": env}, nil, bus.Options{Fingerprint: env}},
		"that of this machine's hostd": {nil, nil, bus.Options{Fingerprint: own, CAFile: "/local.ca"}},
	} {
		t.Run(name, func(t *testing.T) {
			getenv := machine(t, row.vars)
			path, err := bus.LocalFile(getenv)
			require.NoError(t, err)
			require.NoError(t, bus.WriteLocal(path, bus.LocalServer{URL: "tls://127.0.0.1:5222", Token: "local",
				PID: os.Getpid(), Fingerprint: own, CAFile: "/local.ca"}))
			for _, url := range []string{"nats://127.0.0.1:5222", "tls://127.0.0.1:5222/"} {
				o, err := typed(t, append(row.args, "--server", url)...).Options(getenv)
				require.NoError(t, err)
				row.want.URL, row.want.Token = url, "local"
				require.Equal(t, row.want, o)
			}
		})
	}
	getenv := machine(t, nil)
	_, err := typed(t, "--tls-fingerprint", flag, "--tlsca", "x").Options(getenv)
	require.ErrorContains(t, err, "want one of --tlsca and --tls-fingerprint, got both")
	_, err = typed(t, "--tls-fingerprint", "0a").Options(getenv)
	require.ErrorContains(t, err, `--tls-fingerprint: fingerprint "0a": want sha256:`)
}

func TestConnection_findsTheLocalHostdAndItsToken_CLI1(t *testing.T) {
	getenv := machine(t, nil)
	local(t, getenv)
	for name, row := range map[string]struct {
		args []string
		want bus.Options
	}{
		"when nothing is said": {nil, bus.Options{URL: "nats://127.0.0.1:5222", Token: "local"}},
		"when its URL is said": {[]string{"-s", "nats://127.0.0.1:5222/"},
			bus.Options{URL: "nats://127.0.0.1:5222/", Token: "local"}},
		"but with one's own": {[]string{"-s", "nats://127.0.0.1:5222", "--token", "t"},
			bus.Options{URL: "nats://127.0.0.1:5222", Token: "t"}},
		"its token goes nowhere": {[]string{"-s", "nats://127.0.0.1:4222"},
			bus.Options{URL: "nats://127.0.0.1:4222"}},
	} {
		o, err := typed(t, row.args...).Options(getenv)
		require.NoError(t, err, name)
		require.Equal(t, row.want, o, name)
	}
}

func TestConnection_nameComesFromFlagOrVariable(t *testing.T) {
	vars := map[string]string{}
	getenv := machine(t, vars)
	contexts(t, getenv, "c", map[string]string{"c": `{"url":"nats://c"}`})
	require.False(t, typed(t).IsConfigured(getenv))
	require.True(t, typed(t, "--context", "c").IsConfigured(getenv))
	vars["NATS_URL"] = "nats://env"
	require.True(t, typed(t).IsConfigured(getenv))
}

func TestConnection_contradictionsAreUsageErrors(t *testing.T) {
	vars := map[string]string{}
	getenv := machine(t, vars)
	contexts(t, getenv, "", map[string]string{"broken": `{`,
		"proxied":   `{"url":"nats://c","socks_proxy":"socks5://p"}`,
		"looked-up": `{"nsc":"nsc://operator/account/user"}`})
	for _, row := range []struct {
		want string
		args []string
	}{
		{"want one of --creds, --nkey, --user, --token and --token-file", []string{"--token", "t", "--user", "u"}},
		{"--tlscert and --tlskey go together", []string{"--tlskey", "k"}},
		{"--timeout is 0s, want more than 0", []string{"--timeout", "0"}},
		{"a password needs a user", []string{"--password", "p"}},
		{`cannot read --creds "/nowhere": stat /nowhere: no such file`, []string{"--creds", "/nowhere"}},
		{`cannot read --nkey "/nowhere": stat /nowhere: no such file`, []string{"--nkey", "/nowhere"}},
		{`NATS context "nowhere" does not exist; there is broken, looked-up, proxied`,
			[]string{"--context", "nowhere"}},
		{`NATS context "../x" does not exist`, []string{"--context", "../x"}},
		{`NATS context "broken": unexpected end of JSON`, []string{"--context", "broken"}},
		{`NATS context "looked-up" takes its credentials from nsc (nsc://operator/account/user)`,
			[]string{"--context", "looked-up"}},
		{`NATS context "proxied" goes through the proxy socks5://p`, []string{"--context", "proxied"}},
	} {
		_, err := typed(t, row.args...).Options(getenv)
		require.ErrorContains(t, err, row.want)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
}

func TestConnection_contextPathsExpandHomeAndVariables_CLI1(t *testing.T) {
	getenv := machine(t, map[string]string{"HOME": "/home/me", "SECRETS": "/run/secrets"})
	contexts(t, getenv, "c", map[string]string{"c": `{"description":"unknown keys are passed over","creds":"~/a.creds",
		"cert":"$SECRETS/c.crt","key":"${SECRETS}/c.key","ca":"/plain.ca"}`})
	o, err := typed(t).Options(getenv)
	require.NoError(t, err)
	require.Equal(t, bus.Options{URL: "nats://127.0.0.1:4222", Creds: "/home/me/a.creds",
		CertFile: "/run/secrets/c.crt", KeyFile: "/run/secrets/c.key", CAFile: "/plain.ca"}, o)
}

func TestConnection_contextsAreInTheHomeWithoutAConfigFolder_CLI1(t *testing.T) {
	home := t.TempDir()
	config := map[string]string{"XDG_CONFIG_HOME": filepath.Join(home, ".config")}
	contexts(t, func(key string) string { return config[key] }, "c",
		map[string]string{"c": `{"url":"nats://home"}`})
	o, err := typed(t).Options(machine(t, map[string]string{"HOME": home, "XDG_CONFIG_HOME": ""}))
	require.NoError(t, err)
	require.Equal(t, "nats://home", o.URL)
}

// A secret in a file or in the input is in no list of processes.
func TestConnection_readsTheTokenFromAFile_CLI1(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	getenv := machine(t, map[string]string{"NATS_TOKEN": "env"})
	for _, text := range []string{"s3cret", "s3cret\n", "  s3cret \r\n"} {
		c := typed(t, "--server", "nats://x", "--token-file", file("token", text))
		for range 2 {
			o, err := c.Options(getenv)
			require.NoError(t, err)
			require.Equal(t, bus.Options{URL: "nats://x", Token: "s3cret"}, o)
		}
		c = typed(t, "--server", "nats://x", "--token-file", "-")
		c.Stdin = strings.NewReader(text)
		for range 2 {
			o, err := c.Options(getenv)
			require.NoError(t, err)
			require.Equal(t, "s3cret", o.Token)
		}
	}
	for want, args := range map[string][]string{
		"no such file":                 {"--token-file", filepath.Join(dir, "none")},
		"is a directory":               {"--token-file", dir},
		"want one word":                {"--token-file", file("empty", "\n")},
		`two": want one word`:          {"--token-file", file("two", "a b")},
		"want a token of at most 4096": {"--token-file", file("long", strings.Repeat("x", 4097))},
		"--token and --token-file":     {"--token-file", file("token", "t"), "--token", "t"},
		"--token-file, got several":    {"--token-file", file("token", "t"), "--creds", "c"},
	} {
		_, err := typed(t, args...).Options(getenv)
		require.ErrorContains(t, err, want)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
}
