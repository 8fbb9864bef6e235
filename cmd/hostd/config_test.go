package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/embed"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestHostd_badInputPrintsOneLineAndLeavesNothing_HOSTD1(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	srv, err := embed.Start(testkit.Soon(t), embed.Options{Token: "right"})
	require.NoError(t, err)
	defer srv.Shutdown()
	s := newSite(t)
	garbage := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(garbage, []byte("listen: {"), 0o600))
	for name, row := range map[string]struct {
		code int
		why  string
		args []string
	}{
		"nothing listens": {6, "connect to nats://127.0.0.1:1: nothing is listening there",
			[]string{"--nats", "nats://127.0.0.1:1"}},
		"no credentials": {6, "the server refused the credentials", []string{"--nats", srv.URL()}},
		"wrong credentials": {6, "the server refused the credentials",
			[]string{"--nats", srv.URL(), "--token", "wrong"}},
		"no such creds": {2, `cannot read --creds "/nowhere"`,
			[]string{"--nats", srv.URL(), "--creds", "/nowhere"}},
		"password stays unsaid": {6, "connect to nats://127.0.0.1:1:",
			[]string{"--nats", "nats://u:p@127.0.0.1:1"}},
		"port in use": {1, "--listen " + taken.Addr().String() + ": bind: address already in use",
			[]string{"--listen", taken.Addr().String()}},
		"address of another": {1, "cannot assign requested address", []string{"--listen", "192.0.2.1:4222"}},
		"port that is none": {2, `--listen "127.0.0.1:65536": want a port`,
			[]string{"--listen", "127.0.0.1:65536"}},
		"address that is none": {2, `--listen "4222": want HOST:PORT`, []string{"--listen", "4222"}},
		"open to the network": {1, "a server off loopback needs authentication",
			[]string{"--nats-config", garbage, "--listen", "0.0.0.0:0"}},
		"label of no letters":  {2, `invalid argument "" for --label: want NAME`, []string{"--label", ""}},
		"label with a dot":     {2, `host label "a.b": want 1 to 32 characters`, []string{"--label", "a.b"}},
		"label with a space":   {2, `host label "a b": want`, []string{"--label", "a b"}},
		"namespace with a dot": {2, `namespace "a.b": want`, []string{"--namespace", "a.b"}},
		"unknown flag":         {2, "unknown flag: --fast", []string{"--fast"}},
		"unknown word":         {2, `unknown command "up"`, []string{"up"}},
		"proc by hand":         {2, "only hosts run this command", []string{"proc"}},
		"program not there": {2, `--allow "/nowhere": want a program or a directory`,
			[]string{"--allow", "/nowhere"}},
		"no such file": {2, `--nats-config "/nowhere": want a file`,
			[]string{"--nats-config", "/nowhere"}},
		"no system creds": {2, `--system-creds "/nowhere": want a file`,
			[]string{"--system-creds", "/nowhere"}},
		"creds of no use": {6, "--system-creds: bus: connect to",
			[]string{"--nats", srv.URL(), "--token", "right", "--system-creds", garbage}},
		"both kinds of server":   {2, "want them without --nats", []string{"--nats", srv.URL(), "--data", "/tmp"}},
		"credentials for no bus": {2, "want --nats or --nats-config", []string{"--creds", "x"}},
		"no such level": {2, `--log-level "loud": want debug, info, warn or error`,
			[]string{"--log-level", "loud"}},
		"no such format":        {2, `--log-format "xml": want json or console`, []string{"--log-format", "xml"}},
		"no time to get ready":  {2, "--ready-timeout is 0s", []string{"--ready-timeout", "0"}},
		"label without a value": {2, `--host-label "zone": want KEY=VALUE`, []string{"--host-label", "zone"}},
		"label twice": {2, `--host-label "zone=b": zone is "a" already`,
			[]string{"--host-label", "zone=a", "--host-label", "zone=b"}},
		"label of no name": {2, `--host-label "a.b=c": key "a.b": want`, []string{"--host-label", "a.b=c"}},
		"probes nowhere":   {2, `--http "8222": want HOST:PORT or :PORT`, []string{"--http", "8222"}},
		"probes where it is full": {1, "--http " + taken.Addr().String() + ": bind: address already in use",
			[]string{"--http", taken.Addr().String()}},
		"lame for less than 0": {2, "--lame-duck is -1s", []string{"--lame-duck", "-1s"}},
		"no such context":      {2, `NATS context "x" does not exist`, []string{"--context", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "open to the network" {
				open := filepath.Join(t.TempDir(), "open.conf")
				require.NoError(t, os.WriteFile(open, nil, 0o600))
				row.args[1] = open
			}
			code, why := s.requireFailedStart(t, row.args...)
			require.Contains(t, why, row.why)
			require.Equal(t, row.code, code)
			s.requireClean(t)
		})
	}
	code, why := s.requireFailedStart(t, "--nats-config", garbage)
	require.Equal(t, 1, code)
	require.Contains(t, why, garbage)
}

func TestHostLabel_defaultsToTheFirstPartOfTheHostname(t *testing.T) {
	named := func(name string) func() (string, error) { return func() (string, error) { return name, nil } }
	for name, want := range map[string]string{"rack3n07": "rack3n07", "rack3n07.example.org": "rack3n07",
		"a_b-c": "a_b-c"} {
		label, err := hostLabel("", named(name))
		require.NoError(t, err)
		require.Equal(t, want, label)
	}
	for _, name := range []string{"", ".local", "-x", "büro", "a-very-long-name-that-is-longer-than-a-label"} {
		_, err := hostLabel("", named(name))
		require.ErrorContains(t, err, "set --label", name)
	}
	_, err := hostLabel("", func() (string, error) { return "", errors.New("no name") })
	require.ErrorContains(t, err, "no name")
	label, err := hostLabel("mine", named("-x"))
	require.NoError(t, err)
	require.Equal(t, "mine", label)
}

func TestConfig_onlyAPrivateBusAllowsAnyProgram_HOSTD3(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, row := range []struct {
		vars map[string]string
		set  func(*flags)
		any  bool
	}{
		{nil, func(*flags) {}, true},
		{nil, func(f *flags) { f.listen = "[::1]:0" }, true},
		{nil, func(f *flags) { f.listen = "localhost:0" }, true},
		{nil, func(f *flags) { f.listen = "0.0.0.0:0" }, false},
		{nil, func(f *flags) { f.listen = ":0" }, false},
		{nil, func(f *flags) { f.conn.Insecure = true }, false},
		{nil, func(f *flags) { f.conn.Token = "typed" }, false},
		{map[string]string{"NATS_TOKEN": "told"}, func(*flags) {}, true},
		{nil, func(f *flags) { f.natsConfig = self }, false},
		{nil, func(f *flags) { f.allow = []string{self} }, false},
		{nil, func(f *flags) { f.conn.Server = "nats://127.0.0.1:4222" }, false},
		{map[string]string{"NATS_URL": "nats://127.0.0.1:4222"}, func(*flags) {}, false},
	} {
		f := flags{label: "x", logLevel: "info"}
		f.conn.Namespace = "default"
		row.set(&f)
		c, err := f.newConfig(func(key string) string {
			if v, ok := row.vars[key]; ok {
				return v
			}
			return s.getenv(key)
		})
		require.NoError(t, err)
		require.Equal(t, row.any, c.allowsUserPrograms(), "%+v", f)
	}
}

func TestClientCommands_requireTheFlagOrTheVariable_HOSTD3(t *testing.T) {
	for _, row := range []struct {
		flag bool
		env  string
		want bool
	}{{false, "", false}, {true, "", true}, {false, "on", true}} {
		c, err := flags{allowExec: row.flag}.loadKeys(func(key string) string {
			return map[string]string{"CASTNET_HOST_ALLOW_EXEC": row.env}[key]
		})
		require.NoError(t, err)
		require.Equal(t, row.want, keys.HostAllowExec.Get(c))
	}
}

func TestReachable_isNeverAllAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"nats://127.0.0.1:4222": "nats://127.0.0.1:4222",
		"nats://0.0.0.0:4222":   "nats://127.0.0.1:4222",
		"tls://[::]:4222":       "tls://[::1]:4222",
		"nats://node:4222":      "nats://node:4222",
	} {
		require.Equal(t, want, loopbackURL(in))
	}
}

func TestWithoutUserinfo_hidesPasswords(t *testing.T) {
	require.Equal(t, "nats://a:4222,nats://b", redactUserinfo("nats://u:p@a:4222, nats://token@b"))
}
