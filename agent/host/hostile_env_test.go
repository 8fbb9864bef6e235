package host_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
)

// A real process prints the variables that it got. The others are refused before any process starts.
func TestEnvironment_procsGetWhatTheHostAccepts_HOST2(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) { o.AllowUser, o.Allow = true, []string{"/bin", "/usr/bin"} })
	got := func(t *testing.T, entry string) (tail []string, err error) {
		t.Helper()
		m := r.mesh(t, 1)
		key, _, _ := strings.Cut(entry, "=")
		m.Command = agent.Command{Path: "/bin/sh", Env: []string{entry},
			Args: []string{"-c", `env | grep -c "^$0=" >&2; env | grep "^$0=" | cut -c1-40 >&2; exit 3`, strings.Trim(key, "\x00")}}
		_, err = agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
		if err != nil {
			require.Empty(t, r.states(t, m), "a process has started")
			return nil, err
		}
		r.wait(t, m, agent.Failed)
		return r.states(t, m)[0].Proc.StderrTail, nil
	}
	for _, entry := range []string{"A=", "B=c=d", "C=$(id) `id` ;id", "D=--", "E=-c", "LANG=C", "lower=x",
		"F=" + strings.Repeat("x", 128<<10-3)} {
		key, _, _ := strings.Cut(entry, "=")
		tail, err := got(t, entry)
		require.NoError(t, err, key)
		require.Equal(t, []string{"1", entry[:min(len(entry), 40)]}, tail)
	}
	for _, entry := range []string{
		"LD_PRELOAD=hush", "LD_AUDIT=hush", "LD_LIBRARY_PATH=hush", "DYLD_INSERT_LIBRARIES=hush", "GODEBUG=hush",
		"GOTRACEBACK=hush", "BASH_ENV=hush", "ENV=hush", "BASH_FUNC_ls%%=() { hush; }", "SHELLOPTS=hush", "PS4=hush",
		"ZDOTDIR=hush", "IFS=hush", "PATH=hush", "GCONV_PATH=hush", "GLIBC_TUNABLES=hush", "PYTHONSTARTUP=hush",
		"PYTHONPATH=hush", "PYTHONHOME=hush", "PYTHONUSERBASE=hush", "PERL5OPT=hush", "PERL5DB=hush", "RUBYOPT=hush",
		"NODE_OPTIONS=hush", "LUA_INIT=hush", "JAVA_TOOL_OPTIONS=hush", "OPENSSL_CONF=hush", "OPENSSL_MODULES=hush",
		"hush", "=hush", "", "A=hush\x00", "A\x00=hush", "G=" + strings.Repeat("hush", 256<<10), "H=" + strings.Repeat("hush", 32<<10),
	} {
		key, _, _ := strings.Cut(entry, "=")
		_, err := got(t, entry)
		require.Error(t, err, "%.40q", key)
		require.NotContains(t, err.Error(), "hush", "a value may be a secret")
		require.Contains(t, err.Error(), "environment entry 1", "%.40q", key)
	}
}
