package launch

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLaunch_childrenCannotGetPrivileges_LCH10(t *testing.T) {
	// grep is a child of the child
	c := mustLaunch(t, newLauncher(t), sh(t, "grep NoNewPrivs /proc/self/status /proc/$$/status"))
	require.True(t, exitOf(t, c).Clean())
	out, err := os.ReadFile(stdoutOf(c))
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(out), "NoNewPrivs:\t1"), "%s", out)
}

func TestLaunch_childrenHaveTheIDsOfTheirUser_LCH10(t *testing.T) {
	if os.Geteuid() != 0 {
		_, err := FindUser("nobody")
		require.ErrorContains(t, err, "only root can")
		t.Skip("only root can start processes of another user")
	}
	for spec, want := range map[string]string{
		"nobody": "65534 65534 65534", "65534": "65534 65534 65534", "nobody:daemon": "65534 1 1 65534",
		"nobody:1": "65534 1 1 65534",
	} {
		u, err := FindUser(spec)
		require.NoError(t, err, spec)
		l := New(Options{User: u})
		c := mustLaunch(t, l, sh(t, `echo $(id -u) $(id -g) $(id -G)`))
		require.Equal(t, want, lineIn(t, stdoutOf(c), ""), spec)
		require.True(t, exitOf(t, c).Clean())
		require.NoError(t, l.Close())
		require.Equal(t, "USER=nobody", u.Env()[1])
	}
	for spec, want := range map[string]string{
		"": `cannot find user ""`, "no-such-user": `cannot find user "no-such-user"`,
		"4000000000": `cannot find user "4000000000"`, "nobody:": `cannot find group ""`,
		"nobody:no-such-group": `cannot find group "no-such-group"`, "root": "want another user than root",
		"0": "want another user than root", "nobody:daemon:x": `cannot find group "daemon:x"`,
	} {
		_, err := FindUser(spec)
		require.ErrorContains(t, err, want, spec)
	}
}

func TestLaunch_childrenHaveTheLimitsOfTheLauncher_LCH10(t *testing.T) {
	limits := ProcessLimits{Files: 99, Processes: 5000, AddressSpace: 1 << 30}
	require.NoError(t, limits.Check())
	l := New(Options{ProcessLimits: limits})
	defer l.Close()
	for asked, want := range map[uint64]string{0: "99", 50: "50", 500: "99"} {
		// cat is a child of the child
		spec := sh(t, "cat /proc/self/limits /proc/$$/limits")
		spec.Limits.Files = asked
		c := mustLaunch(t, l, spec)
		require.True(t, exitOf(t, c).Clean())
		out, err := os.ReadFile(stdoutOf(c))
		require.NoError(t, err)
		text := strings.Join(strings.Fields(string(out)), " ")
		for _, line := range []string{"Max open files " + want + " " + want + " ", "Max processes 5000 5000 ",
			"Max address space 1073741824 1073741824 "} {
			require.Equal(t, 2, strings.Count(text, line), "%s", out)
		}
	}
}

func TestLaunch_failsWithoutTheLimitsOfTheLauncher_LCH10(t *testing.T) {
	if os.Geteuid() == 0 {
		l := New(Options{ProcessLimits: ProcessLimits{Files: 1 << 40}}) // above fs.nr_open
		defer l.Close()
		_, err := l.Launch(sh(t, "true"))
		require.ErrorContains(t, err, "cannot set the limit files=1099511627776")
	}
	require.ErrorContains(t, ProcessLimits{Files: 1 << 40}.Check(), "want at most ")
}
