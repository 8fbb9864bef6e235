package integration

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

// start starts a program of this cluster's.
func (c *cluster) start(t *testing.T, name string, args ...string) *testkit.Process {
	t.Helper()
	return testkit.Start(t, c.command(t, program(name), args...))
}

// run waits for a program and returns its output and exit code.
func (c *cluster) run(t *testing.T, name string, args ...string) (string, int) {
	t.Helper()
	p := c.start(t, name, args...)
	code := p.Exit(t)
	return p.Said(), code
}

// requireReport checks the word count's report of a folder on 2 hosts × 4 procs.
func requireReport(t *testing.T, out, folder string) {
	t.Helper()
	counts, files, words := oracle(t, folder, ".go")
	require.Contains(t, out, fmt.Sprintf("\n%d files, %d words, %d of them different\n", files,
		words, len(counts)))
	for rank := range 8 {
		require.Regexp(t, fmt.Sprintf(`(?m)^ +%d  host=%d,proc=%d +%s +\d+ +\d+ +\d+$`, rank, rank/4, rank%4,
			string(rune('a'+rank/4))), out)
	}
	var first string
	for w, n := range counts {
		if first == "" || n > counts[first] || n == counts[first] && w < first {
			first = w
		}
	}
	require.Regexp(t, fmt.Sprintf(`(?m)^   1  %s +%d  █+$`, first, counts[first]), out)
	require.Regexp(t, `its owner knows after [0-9.]+ m?s: .* failed on b-.*killed by signal 9`, out)
	require.Regexp(t, `the others still answer, in [0-9.]+ m?s: `+
		`asked 8 · answered 7 · failed 1 \[host=1,proc=1\] · missing 0`, out)
	require.Contains(t, out, "\ncleaned up in ")
}

func TestDemo_runsWithItsOwnServerAndHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	folder := corpus(t)
	out, code := c.run(t, "wordcount", "--hostd", program("hostd"), folder)
	require.Zero(t, code, out)
	requireReport(t, out, folder)
	require.Empty(t, c.running(t, os.Getenv(binVariable)), "nothing is left when it returns")
}

func TestDemo_runsOnExistingHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	folder := corpus(t)
	c.connect(t) // whatever the first client makes hosts keep is no leak of the others
	// The gateway of each host may be the one that asks the hosts. It then follows the other host.
	most := c.server.NumSubs() + 2*4
	for range 4 {
		out, code := c.run(t, "wordcount", "--hosts", "2", folder)
		require.Zero(t, code, out)
		requireReport(t, out, folder)
		require.Eventually(t, func() bool { return c.server.NumSubs() <= most }, testkit.Patience, poll,
			"%d subscriptions of at most %d", c.server.NumSubs(), most)
	}
}

func TestDemo_refusesBadInputBeforeAnythingStarts(t *testing.T) { // DEMO-1
	t.Parallel()
	c := newCluster(t)
	for name, bad := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no such folder": {[]string{"--hostd", program("hostd"), "/does/not/exist"}, 1,
			"open /does/not/exist: no such file or directory"},
		"no such hostd": {[]string{"--hostd", "/does/not/exist", "/"}, 1,
			"/does/not/exist: no such file or directory"},
		"a hostd that ends": {[]string{"--hostd", "/bin/false", "/"}, 1, " ended: exit status 1\n"},
		"no hosts":          {[]string{"/"}, 1, "0 of 1 hosts answer"},
		"two folders":       {[]string{"/a", "/b"}, 2, "2 folders: want one"},
		"unknown flag":      {[]string{"--what", "/"}, 2, "flag provided but not defined: -what"},
		"no procs":          {[]string{"--procs", "0", "/"}, 2, "--procs"},
		"too many hosts":    {[]string{"--hostd", "x", "--hosts", "27", "/"}, 2, "at most 26"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--await", "1s"}, bad.args...)
			out, code := c.run(t, "wordcount", args...)
			require.Equal(t, bad.code, code, out)
			require.Contains(t, out, bad.says)
			require.True(t, strings.HasPrefix(out, "wordcount: "), out)
			require.Empty(t, c.running(t, os.Getenv(binVariable)))
		})
	}
}

func TestDemo_interruptCleansUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.start(t, "wordcount", "--hostd", program("hostd"))
	p.Out.Await(t, "\ncorpus ")
	p.Send(t, syscall.SIGINT)
	require.Equal(t, 130, p.Exit(t), p.Said())
	require.Contains(t, p.Said(), "wordcount: interrupted\n")
	require.Empty(t, c.running(t, os.Getenv(binVariable)), "nothing is left when it returns")
}

func TestDemo_killEndsItsHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.start(t, "wordcount", "--hostd", program("hostd"))
	p.Out.Await(t, "\ncorpus ")
	p.Send(t, syscall.SIGKILL)
	require.Equal(t, -1, p.Exit(t))
	c.awaitNoProcess(t, os.Getenv(binVariable)) // DEMO-1
	sweep(t, p.Env)
}

func TestHello_countsOnEveryProc(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	_, err := c.connect(t).AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	out, code := c.run(t, "hello")
	require.Zero(t, code, out)
	require.Equal(t, "host=2,gpu=4: gpu 3 of host 0 counts 5; gpus 0 and 1 of all hosts count 4\n", out)
}

func TestHello_reportsThatThereIsNoHost(t *testing.T) {
	t.Parallel()
	out, code := newCluster(t).run(t, "hello")
	require.Equal(t, 1, code)
	require.Contains(t, out, "hello: no host answers")
	require.Equal(t, 1, bytes.Count([]byte(out), []byte("\n")), "one line")
}
