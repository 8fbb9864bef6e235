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
)

// needCgroups skips where the kernel gives none to make trees of.
func needCgroups(t *testing.T) *Launcher {
	l := newLauncher(t)
	if l.TreeControl() != TreesByCgroup {
		t.Skip("no cgroup here: ", l.cgroups.unavailable)
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

// scattered starts processes that left their session, group and parent, that
// emptied their environment and that hold stdout, and names each of them.
const scattered = `
setsid sh -c 'echo one $$; exec sleep 600' &
(setsid sh -c 'echo two $$; exec sleep 600' &)
(setsid env -i /bin/sh -c 'echo three $$; exec /bin/sleep 600' &)
sleep 600 & echo four $!
`

func pidsOf(t *testing.T, c *Child) (pids []int) {
	for _, name := range []string{"one ", "two ", "three ", "four "} {
		pids = append(pids, pidIn(t, c.StdoutPath(), name))
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
	require.NoDirExists(t, c.handle.tree.unified)
}

func TestTrees_exitLeavesNoDescendant_LCH4(t *testing.T) {
	l := needCgroups(t)
	c := mustLaunch(t, l, sh(t, scattered+"trap 'exit 7' TERM; while :; do sleep 0.01; done"))
	pids := pidsOf(t, c)
	require.NoError(t, c.Signal(syscall.SIGTERM))
	require.Equal(t, 7, exitOf(t, c).Code)
	requireAllEnded(t, pids)
}

// requireAllEnded looks once: when Done is closed they have ended already, and
// what is left of them at most is a zombie that the first process will reap.
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
	dir := c.handle.tree.unified
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	require.NoError(t, c.Kill())
	exitOf(t, c)
	require.NoDirExists(t, dir)
}

func TestTrees_closeLeavesNoDirectory(t *testing.T) {
	l := New(Options{})
	spec := specOf(t, "ready")
	spec.Limits = Limits{Pids: 100}
	mustLaunch(t, l, spec)
	require.NoError(t, l.Close())
	for _, base := range l.cgroups.ownDirs {
		require.NoDirExists(t, filepath.Join(base, l.cgroups.name))
	}
}

func TestTrees_withoutCgroupsUseTheProcessGroup(t *testing.T) {
	l := New(Options{Cgroup: NoCgroup})
	require.Equal(t, TreesByGroup, l.TreeControl())
	c := mustLaunch(t, l, specOf(t, "parent", "stays"))
	grandchild := pidIn(t, c.StdoutPath(), "grandchild ")
	require.NoError(t, l.Close())
	requireGone(t, grandchild)
}

func TestTrees_reportAnUnavailableCgroup(t *testing.T) {
	l := New(Options{Cgroup: filepath.Join(t.TempDir(), "absent")})
	require.Equal(t, TreesByGroup, l.TreeControl())
	require.ErrorContains(t, l.cgroups.unavailable, "absent")
	require.NoError(t, l.Close())
}

// subreaper plays a launcher without cgroups that adopts orphans. It runs the
// script in its arguments twice over and tells who of its processes is left.
func subreaper() {
	l := New(Options{Cgroup: NoCgroup, Subreaper: true})
	fmt.Println("trees", l.TreeControl())
	var children []*Child
	for i := range 2 {
		c, err := l.Launch(Spec{
			Name: fmt.Sprint("sh-", i), Path: os.Args[1], Args: []string{"-c", os.Args[2]},
			Env: []string{"PATH=" + os.Getenv("PATH")}, LogDir: os.Args[3],
		})
		check(err)
		children = append(children, c)
		for !strings.Contains(strings.Join(c.StdoutTail(9), "\n"), "ready") {
			time.Sleep(time.Millisecond)
		}
	}
	// One has ended: its marked orphans have, too, and the other's have not.
	check(children[0].Kill())
	<-children[0].Done()
	left := len(childrenOf(os.Getpid()))
	for end := time.Now().Add(patience); left > 5 && time.Now().Before(end); left = len(childrenOf(os.Getpid())) {
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
	require.Equal(t, "exited with code 0", exitOf(t, c).String(), "%v", c.StderrTail(20))
	require.Equal(t, "subreaper", lineIn(t, c.StdoutPath(), "trees "))
	require.Equal(t, "0", lineIn(t, c.StdoutPath(), "after both "))
	require.Equal(t, "false", lineIn(t, c.StdoutPath(), "zombies "))
	// The second shell, what it scattered, and the first one's that has no marker.
	left, err := strconv.Atoi(lineIn(t, c.StdoutPath(), "after one "))
	require.NoError(t, err)
	require.LessOrEqual(t, left, 5)
	require.GreaterOrEqual(t, left, 1)
}

func TestOwnCgroups_parseProcSelfCgroup(t *testing.T) {
	const mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 31 0:32 /docker/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"36 31 0:36 /elsewhere /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\nshort\n"
	const member = "9:name=systemd:/\n8:pids:/docker/7\n4:memory:/docker/7/a\n1:cpu,cpuacct:/x\n0::/a/b:c\n"
	require.Equal(t, map[string]string{
		"cpu": "/sys/fs/cgroup/cpu/x", "cpuacct": "/sys/fs/cgroup/cpu/x",
		"memory": "/sys/fs/cgroup/memory/a", unifiedKey: "/sys/fs/cgroup/unified/a/b:c",
	}, ownCgroups(member, mounts))
	require.Empty(t, ownCgroups("", ""))
}

// A storm of launches and stops leaves neither zombies nor descriptors.
func TestLaunch_stormOf200LeaksNothing(t *testing.T) {
	l, spec := New(Options{}), specOf(t, "ready")
	exitOf(t, mustLaunch(t, l, specOf(t, "exit", "0"))) // opens the poller
	before := len(openFDs(t, os.Getpid()))
	var storm []*Child
	for i := range 200 {
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
