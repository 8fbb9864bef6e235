package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o Options) *Manager {
	m := Open(o)
	t.Cleanup(m.Close)
	return m
}

// ownRoot is a cgroup for the test's managers only, so no other one kills leftovers there.
func ownRoot(t *testing.T) string {
	m := open(t, Options{})
	if m.Unavailable() != nil {
		t.Skip("no cgroup here: ", m.Unavailable())
	}
	dir, err := os.MkdirTemp(m.ownDirs[unifiedKey], "test.")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, removeDir(dir)) })
	return dir
}

// leave makes a dead manager's group with a process, and returns the end of that process.
func leave(t *testing.T, root, owner, kind string) (pid int, ended <-chan error) {
	g := Group{Dir: filepath.Join(root, ownerPrefix(owner)+"dead", kind+"left.1")}
	require.NoError(t, os.MkdirAll(g.Dir, 0o755))
	p := exec.Command("sleep", "600")
	require.NoError(t, p.Start())
	end := make(chan error, 1)
	go func() { end <- p.Wait() }()
	t.Cleanup(func() { _ = p.Process.Kill() }) // most have ended
	require.NoError(t, g.AddProcess(p.Process.Pid))
	return p.Process.Pid, end
}

func TestKillLeftovers_sparesOtherOwnersKeptGroups_CGR1(t *testing.T) {
	root := ownRoot(t)
	_, nobodys := leave(t, root, "", stopPrefix)
	_, others := leave(t, root, "other", stopPrefix)
	pid, kept := leave(t, root, "keeper", keptPrefix)
	kill := func(owner string, spared ...Group) []Leftover {
		left, err := open(t, Options{Root: root, Owner: owner}).KillLeftovers(spared, time.Second)
		require.NoError(t, err)
		return left
	}
	left := []Leftover{{Name: "left", Processes: 1}}
	require.Equal(t, left, kill(""), "without an owner: its own only")
	require.Error(t, <-nobodys)
	require.Equal(t, left, kill("third"), "the group without an owner")
	require.Error(t, <-others)

	g := Group{Dir: filepath.Join(root, ownerPrefix("keeper")+"dead", keptPrefix+"left.1")}
	require.NoError(t, g.Adopt(pid))
	require.Empty(t, kill("keeper", g), "an adopted one")
	require.Equal(t, left, kill("keeper"))
	require.Error(t, <-kept)
	require.NoDirExists(t, filepath.Dir(g.Dir))
}

func TestKillLeftovers_sparesTheGroupsOfALiveManager_CGR1(t *testing.T) {
	root := ownRoot(t)
	g, _, err := open(t, Options{Root: root, Owner: "a"}).Create("x", false, Limits{})
	require.NoError(t, err)
	left, err := open(t, Options{Root: root, Owner: "b"}).KillLeftovers(nil, time.Second)
	require.NoError(t, err)
	require.Empty(t, left)
	require.DirExists(t, g.Dir)
	require.NoError(t, g.Remove(0))
}

// A child has the open files of its launcher until its exec, and with them the lock of a dead one.
func TestKillLeftovers_awaitsAChildBeingForked(t *testing.T) {
	root := ownRoot(t)
	_, ended := leave(t, root, "owner", stopPrefix)
	dead, err := lockDir(filepath.Join(root, ownerPrefix("owner")+"dead"))
	require.NoError(t, err)
	executed := time.AfterFunc(50*time.Millisecond, func() { _ = dead.lock.Close() })
	defer executed.Stop()
	left, err := open(t, Options{Root: root, Owner: "owner"}).KillLeftovers(nil, time.Second)
	require.NoError(t, err)
	require.Equal(t, []Leftover{{Name: "left", Processes: 1}}, left)
	require.Error(t, <-ended)
}

// KillLeftovers may lock the directory of a starting manager before the manager does.
func TestKillLeftovers_removesNoDirectoryOfAStartingManager_CGR1(t *testing.T) {
	root := ownRoot(t)
	name := ownerPrefix("starting") + "new"
	require.NoError(t, os.Mkdir(filepath.Join(root, name), 0o755))
	dead, err := lockDir(filepath.Join(root, name))
	require.NoError(t, err)
	removed := make(chan struct{})
	defer time.AfterFunc(50*time.Millisecond, func() { dead.close(); close(removed) }).Stop()
	d, err := createManagerDir(root, name)
	require.NoError(t, err)
	<-removed
	require.DirExists(t, d.path)
	d.close()
}

func TestAdopt_refusesForeignDirectories_CGR1(t *testing.T) {
	for _, g := range []Group{
		{Dir: "/sys/fs/cgroup"}, {Dir: "/x/castnet-1/stop.a.1"}, {Dir: "/x/other-1/keep.a.1"},
		{V1: []string{"/sys/fs/cgroup/memory"}}, {Dir: "/x/castnet-1/keep.a.1"},
	} {
		require.Error(t, g.Adopt(os.Getpid()))
	}
}

func TestClose_leavesNoDirectory(t *testing.T) {
	m := Open(Options{})
	g, _, err := m.Create("x", false, Limits{Pids: 100})
	require.NoError(t, err)
	require.NoError(t, g.Remove(0))
	m.Close()
	for _, base := range m.ownDirs {
		require.NoDirExists(t, filepath.Join(base, m.name))
	}
}

func TestOpen_withoutCgroupsRefusesLimitsWithTheReason(t *testing.T) {
	for root, want := range map[string]string{None: "turned off",
		filepath.Join(t.TempDir(), "absent"): "absent"} {
		m := open(t, Options{Root: root})
		require.ErrorContains(t, m.Unavailable(), want)
	}
	g, refused, err := open(t, Options{Root: None}).Create("x", false, Limits{Memory: 1 << 30, CPU: 1})
	require.NoError(t, err)
	require.Equal(t, Group{}, g)
	require.Len(t, refused, 2)
	require.Equal(t, CPU, refused[1].Controller)
	require.ErrorContains(t, refused[0].Err, "cgroups are turned off")
	require.True(t, g.KillAndWait(0), "no group has no processes")
	require.NoError(t, g.Remove(0))
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

func TestLimits_areInTheSyntaxOfBothVersions(t *testing.T) {
	all := Limits{Memory: 1 << 20, Pids: 7, CPU: 0.001}.settings()
	var v2, v1 []string
	for _, l := range all {
		for _, s := range l.v2 {
			v2 = append(v2, s.file+"="+s.value)
		}
		for _, s := range l.v1 {
			v1 = append(v1, s.file+"="+s.value)
		}
	}
	require.Equal(t, []string{"memory.max=1048576", "memory.swap.max=0", "pids.max=7",
		"cpu.max=1000 100000"}, v2)
	require.Equal(t, []string{"memory.limit_in_bytes=1048576",
		"memory.memsw.limit_in_bytes=1048576", "pids.max=7",
		"cpu.cfs_period_us=100000", "cpu.cfs_quota_us=1000"}, v1)
}
