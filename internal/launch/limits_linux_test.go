package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/cgroup"
	"github.com/castnet-io/castnet/internal/logfile"
)

// limited launches spec, and skips on a kernel without its limits.
func limited(t *testing.T, l *Launcher, spec Spec) *Child {
	t.Helper()
	c := mustLaunch(t, l, spec)
	if missing := c.Unenforced(); len(missing) > 0 {
		require.NoError(t, c.Kill())
		exitOf(t, c)
		t.Skip("not in force here: ", strings.Join(missing, "; "))
	}
	return c
}

// inGroup returns a file of the child's cgroup for a controller.
func inGroup(t *testing.T, c *Child, file string) string {
	for _, dir := range append([]string{c.handle.tree.Dir}, c.handle.tree.V1...) {
		if path := filepath.Join(dir, file); dir != "" {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	require.Fail(t, "no "+file)
	return ""
}

func TestLimits_memoryKillIsNamedInTheExit(t *testing.T) {
	spec := specOf(t, "eat", "1024")
	spec.Limits = Limits{Memory: 64 << 20}
	e := exitOf(t, limited(t, newLauncher(t), spec))
	require.True(t, e.OOM, "%v", e)
	require.Equal(t, "killed by the kernel: out of memory (limit 64 MiB)", e.String())
	require.False(t, e.Clean())
}

func TestLimits_sufficientMemoryIsNotReported(t *testing.T) {
	spec := specOf(t, "eat", "8")
	spec.Limits = Limits{Memory: 512 << 20}
	e := exitOf(t, limited(t, newLauncher(t), spec))
	require.False(t, e.OOM)
	require.Equal(t, "exited with code 0", e.String())
}

// eat touches a number of MiB of memory.
func eat() {
	data := make([]byte, number(1)<<20)
	for i := 0; i < len(data); i += 4096 {
		data[i] = 1
	}
	fmt.Println("ready", len(data))
}

// Each part of the fork bomb leaves session and parent. It stays within its limit and ends with its
// child.
func TestLimits_forkBombIsContainedAndEnds_LCH4(t *testing.T) {
	l := needCgroups(t)
	spec := sh(t, "(while :; do (setsid sleep 600 &) done) 2>/dev/null; exec sleep 600")
	spec.Limits = Limits{Pids: 40}
	c := limited(t, l, spec)
	events, current := inGroup(t, c, "pids.events"), inGroup(t, c, "pids.current")
	require.Eventually(t, func() bool {
		return strings.Contains(readFile(t, events), "max ") && !strings.Contains(readFile(t, events), "max 0\n")
	}, patience, 1e6)
	n, err := strconv.Atoi(strings.TrimSpace(readFile(t, current)))
	require.NoError(t, err)
	require.LessOrEqual(t, n, 40)
	pids := strings.Fields(readFile(t, filepath.Join(c.handle.tree.Dir, "cgroup.procs")))
	require.Greater(t, len(pids), 20)

	require.NoError(t, c.Kill())
	require.Equal(t, int(syscall.SIGKILL), exitOf(t, c).Signal)
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		requireAllEnded(t, []int{pid})
	}
	require.NoError(t, l.Close())
	require.NoDirExists(t, filepath.Dir(current), "also the hierarchy with its limits only")
}

func TestLimits_cpuLimitIsSetInTheCgroup(t *testing.T) {
	spec := specOf(t, "ready")
	spec.Limits = Limits{CPU: 0.5}
	c := limited(t, newLauncher(t), spec)
	want, file := "50000", "cpu.cfs_quota_us"
	if len(c.handle.tree.V1) == 0 {
		want, file = "50000 100000", "cpu.max"
	}
	path := inGroup(t, c, file)
	require.Equal(t, want, strings.TrimSpace(readFile(t, path)))
	require.Contains(t, strings.Fields(readFile(t, filepath.Join(filepath.Dir(path), "cgroup.procs"))),
		strconv.Itoa(c.PID()))
}

func TestLimits_cpusAndFilesApplyFromTheFirstInstruction(t *testing.T) {
	var mask unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &mask))
	cpu := 0
	for !mask.IsSet(cpu) {
		cpu++
	}
	spec := specOf(t, "limits")
	spec.Limits = Limits{CPUs: []int{cpu}, Files: 77}
	c := limited(t, newLauncher(t), spec)
	require.True(t, exitOf(t, c).Clean(), "%v", c.Output()[logfile.Stderr].Tail(9))
	require.Equal(t, fmt.Sprintf("1 %d 77 77\n", cpu), readFile(t, stdoutOf(c)))
}

// limits prints the Go runtime's limits at its start, and the files.
func limits() {
	var mask unix.CPUSet
	check(unix.SchedGetaffinity(0, &mask))
	cpu := 0
	for !mask.IsSet(cpu) {
		cpu++
	}
	var files unix.Rlimit
	check(unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	fmt.Println(runtime.NumCPU(), cpu, files.Cur, files.Max)
}

func TestLimits_unenforcedLimitsAreReported(t *testing.T) {
	l := New(Options{Cgroup: cgroup.None})
	defer l.Close()
	spec := specOf(t, "ready")
	spec.Limits = Limits{Memory: 3 << 30, Pids: 9, CPU: 1.5, CPUs: []int{1000}, Files: 100}
	c := mustLaunch(t, l, spec)
	missing := c.Unenforced()
	require.Len(t, missing, 4, "%v", missing)
	for i, want := range []string{"memory 3 GiB: ", "pids 9: ", "cpu 1.5 cores: ",
		"cpus [1000]: invalid argument"} {
		require.True(t, strings.HasPrefix(missing[i], want), missing[i])
	}
	require.Contains(t, missing[0], "cgroups are turned off")
	lineIn(t, stdoutOf(c), "ready")
}

// F29: descriptors run out, and the launcher lives.
func TestLaunch_withoutDescriptorsFailsAndTheNextSucceeds_LCH3(t *testing.T) {
	spec := specOf(t, "exhaust", t.TempDir())
	spec.Limits = Limits{Files: 60}
	c := mustLaunch(t, newLauncher(t), spec)
	require.Equal(t, "exited with code 0", exitOf(t, c).String(), "%v", c.Output()[logfile.Stderr].Tail(20))
	require.Equal(t, "true", lineIn(t, stdoutOf(c), "refused "))
	require.Equal(t, "true", lineIn(t, stdoutOf(c), "tidy "))
}

// exhaust launches until no descriptors are left, at every possible point, and then once more with
// free ones.
func exhaust() {
	l := New(Options{})
	spec := Spec{Name: "ready", Path: os.Args[0], Env: []string{modeVar + "=exit"}, Args: []string{"0"},
		LogDir: os.Args[1]}
	c, err := l.Launch(spec) // opens the poller
	check(err)
	<-c.Done()
	held := []*os.File{}
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	refused, tidy := true, true
	for free := range 12 {
		for _, f := range held[len(held)-free:] {
			check(f.Close())
		}
		held = held[:len(held)-free]
		c, err := l.Launch(spec)
		if err == nil {
			<-c.Done()
		} else if !strings.Contains(err.Error(), "too many open files") {
			refused = false
			fmt.Fprintln(os.Stderr, err)
		}
		for range free {
			f, err := os.Open(os.DevNull)
			tidy = tidy && err == nil
			held = append(held, f)
		}
	}
	for _, f := range held {
		_ = f.Close()
	}
	c, err = l.Launch(spec)
	check(err)
	<-c.Done()
	check(l.Close())
	fmt.Println("refused", refused)
	fmt.Println("tidy", tidy)
}

// F29: without descriptors no write to a cgroup succeeds. Once there are some, the tree ends.
func TestTrees_endWithoutFreeDescriptors_LCH4(t *testing.T) {
	needCgroups(t)
	script := sh(t, scattered+"wait")
	spec := specOf(t, "exhaustKill", t.TempDir(), script.Path, script.Args[1])
	spec.Env = append(spec.Env, script.Env...)
	spec.Limits = Limits{Files: 60}
	c := mustLaunch(t, newLauncher(t), spec)
	require.Equal(t, "exited with code 0", exitOf(t, c).String(), "%v", c.Output()[logfile.Stderr].Tail(20))
	require.Equal(t, "0", lineIn(t, stdoutOf(c), "survivors "))
}

func exhaustKill() {
	l := New(Options{})
	c, err := l.Launch(Spec{
		Name: "sh", Path: os.Args[2], Args: []string{"-c", os.Args[3]}, LogDir: os.Args[1],
		Env: []string{"PATH=" + os.Getenv("PATH")},
	})
	check(err)
	var pids []int
	for len(pids) < 4 {
		pids = nil
		for _, line := range c.Output()[logfile.Stdout].Tail(9) {
			fields := strings.Fields(line)
			pid, err := strconv.Atoi(fields[len(fields)-1])
			check(err)
			pids = append(pids, pid)
		}
		time.Sleep(time.Millisecond)
	}
	var held []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	_ = c.Kill() // says that the cgroup could not be written
	check(c.Signal(syscall.SIGKILL))
	select {
	case <-c.Done():
		fmt.Println("done too early")
	case <-time.After(100 * time.Millisecond):
	}
	for _, f := range held {
		_ = f.Close()
	}
	<-c.Done()
	survivors := 0
	for _, pid := range pids {
		if stat, err := procStat(pid); err == nil && stat[0] != "Z" {
			survivors++
		}
	}
	check(l.Close())
	fmt.Println("survivors", survivors)
}
