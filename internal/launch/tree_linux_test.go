package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/cgroup"
	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/internal/testkit"
)

// needCgroups skips on a kernel without cgroups for trees.
func needCgroups(t *testing.T) *Launcher {
	l := newLauncher(t)
	if l.TreeControl() != TreesByCgroup {
		t.Skip("no cgroup here: ", l.cgroups.Unavailable())
	}
	return l
}

// sh runs a script with the few programs the tests need.
func sh(t *testing.T, script string) Spec {
	spec := specOf(t, "sh")
	path, err := exec.LookPath("sh")
	if err == nil {
		_, err = exec.LookPath("setsid")
	}
	if err != nil {
		t.Skip("no shell: ", err)
	}
	spec.Path, spec.Args = path, []string{"-c", script}
	spec.Env = []string{"PATH=" + os.Getenv("PATH")}
	return spec
}

// scattered starts and names processes outside their session, group and parent, with an empty
// environment and an open stdout.
const scattered = `
setsid sh -c 'echo one $$; exec sleep 600' &
(setsid sh -c 'echo two $$; exec sleep 600' &)
(setsid env -i /bin/sh -c 'echo three $$; exec /bin/sleep 600' &)
sleep 600 & echo four $!
`

func pidsOf(t *testing.T, c *Child) (pids []int) {
	for _, name := range []string{"one ", "two ", "three ", "four "} {
		pids = append(pids, pidIn(t, stdoutOf(c), name))
	}
	return pids
}

func TestTrees_killLeavesNoDescendant_LCH4(t *testing.T) {
	l := needCgroups(t)
	c := mustLaunch(t, l, sh(t, scattered+"wait"))
	pids := pidsOf(t, c)
	require.NoError(t, c.Kill())
	require.Equal(t, int(syscall.SIGKILL), exitOf(t, c).Signal)
	requireAllEnded(t, pids)
	require.NoDirExists(t, c.handle.tree.Dir)
}

func TestTrees_exitLeavesNoDescendant_LCH4(t *testing.T) {
	l := needCgroups(t)
	c := mustLaunch(t, l, sh(t, scattered+"trap 'exit 7' TERM; while :; do sleep 0.01; done"))
	pids := pidsOf(t, c)
	require.NoError(t, c.Signal(syscall.SIGTERM))
	require.Equal(t, 7, exitOf(t, c).Code)
	requireAllEnded(t, pids)
}

// requireAllEnded looks once: when Done is closed they have ended already. At most a zombie is
// left, for the first process to reap.
func requireAllEnded(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		stat, err := procStat(pid)
		require.True(t, err != nil || stat[0] == "Z" || stat[0] == "X", "process %d survives: %v", pid, stat)
	}
}

func TestTrees_removeNestedCgroups(t *testing.T) {
	l := needCgroups(t)
	c := mustLaunch(t, l, specOf(t, "ready"))
	dir := c.handle.tree.Dir
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	require.NoError(t, c.Kill())
	exitOf(t, c)
	require.NoDirExists(t, dir)
}

func TestTrees_withoutCgroupsUseTheProcessGroup(t *testing.T) {
	l := New(Options{Cgroup: cgroup.None})
	require.Equal(t, TreesByGroup, l.TreeControl())
	c := mustLaunch(t, l, specOf(t, "parent", "stays"))
	grandchild := pidIn(t, stdoutOf(c), "grandchild ")
	require.NoError(t, l.Close())
	requireGone(t, grandchild)
}

func TestTrees_reportAnUnavailableCgroup(t *testing.T) {
	l := New(Options{Cgroup: filepath.Join(t.TempDir(), "absent")})
	require.Equal(t, TreesByGroup, l.TreeControl())
	require.ErrorContains(t, l.cgroups.Unavailable(), "absent")
	require.NoError(t, l.Close())
}

// subreaper plays a launcher without cgroups that adopts orphans. It runs the script in its
// arguments twice and prints its remaining processes.
func subreaper() {
	l := New(Options{Cgroup: cgroup.None, Subreaper: true})
	fmt.Println("trees", l.TreeControl())
	var children []*Child
	for i := range 2 {
		c, err := l.Launch(Spec{
			Name: fmt.Sprint("sh-", i), Path: os.Args[1], Args: []string{"-c", os.Args[2]},
			Env: []string{"PATH=" + os.Getenv("PATH")}, LogDir: os.Args[3],
		})
		check(err)
		children = append(children, c)
		for !strings.Contains(strings.Join(c.Output()[logfile.Stdout].Tail(9), "\n"), "ready") {
			time.Sleep(time.Millisecond)
		}
	}
	// One launcher has ended, and so have its marked orphans, but not those of the other.
	check(children[0].Kill())
	<-children[0].Done()
	left := len(childrenOf(os.Getpid()))
	for end := time.Now().Add(patience); left > 5 &&
		time.Now().Before(end); left = len(childrenOf(os.Getpid())) {
		time.Sleep(time.Millisecond) // what the second script ran in passing may not have ended
	}
	fmt.Println("after one", left)
	check(children[1].Kill())
	<-children[1].Done()
	fmt.Println("after both", len(childrenOf(os.Getpid())))
	check(l.Close())
	_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
	fmt.Println("zombies", err != unix.ECHILD)
}

func TestTrees_subreaperEndsAndReapsOrphans(t *testing.T) {
	script := sh(t, scattered+"sleep 0.01; (true &); for i in 1 2 3; do (setsid true &); done; echo ready; wait")
	spec := specOf(t, "subreaper", script.Path, script.Args[1], t.TempDir())
	spec.Env = append(spec.Env, script.Env...)
	c := mustLaunch(t, newLauncher(t), spec)
	require.Equal(t, "exited with code 0", exitOf(t, c).String(), "%v", c.Output()[logfile.Stderr].Tail(20))
	require.Equal(t, "subreaper", lineIn(t, stdoutOf(c), "trees "))
	require.Equal(t, "0", lineIn(t, stdoutOf(c), "after both "))
	require.Equal(t, "false", lineIn(t, stdoutOf(c), "zombies "))
	// The second shell with its descendants, and the unmarked one of the first shell.
	left, err := strconv.Atoi(lineIn(t, stdoutOf(c), "after one "))
	require.NoError(t, err)
	require.LessOrEqual(t, left, 5)
	require.GreaterOrEqual(t, left, 1)
}

// A storm of launches and stops leaves neither zombies nor descriptors.
func TestLaunch_stormLeaksNothing(t *testing.T) {
	n := 50
	if testkit.Long() {
		n = 200
	}
	l, spec := New(Options{}), specOf(t, "ready")
	exitOf(t, mustLaunch(t, l, specOf(t, "exit", "0"))) // opens the poller
	before := len(openFDs(t, os.Getpid()))
	var storm []*Child
	for i := range n {
		mine := spec
		mine.Name = "storm-" + strconv.Itoa(i)
		storm = append(storm, mustLaunch(t, l, mine))
	}
	for _, c := range storm {
		c.Terminate(patience)
	}
	for _, c := range storm {
		require.NotEqual(t, int(syscall.SIGKILL), exitOf(t, c).Signal, "within its grace")
	}
	require.Len(t, openFDs(t, os.Getpid()), before)
	require.NoError(t, l.Close())
	_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
	require.ErrorIs(t, err, unix.ECHILD, "no child is left, not even a zombie")
}
