package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/cgroup"
	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/internal/testkit"
)

// PDEATHSIG is a setting of a thread: the modes that use it stay on the main thread.
func init() {
	if os.Getenv(modeVar) != "" {
		runtime.LockOSThread()
	}
}

// forgetParent turns PDEATHSIG off, so only the lifeline acts.
func forgetParent() { check(unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)) }

// requireGone waits until a process, perhaps not a child of ours, has ended.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	require.NoError(t, err)
	defer func() { _ = unix.Close(pidfd) }()
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	deadline := time.Now().Add(patience)
	for {
		n, err := unix.Poll(fds, int(time.Until(deadline).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, n, "process %d lives", pid)
		return
	}
}

func pidIn(t *testing.T, path, prefix string) int {
	t.Helper()
	pid, err := strconv.Atoi(lineIn(t, path, prefix))
	require.NoError(t, err)
	return pid
}

func TestKill_endsTheWholeGroup_LCH4(t *testing.T) {
	c := mustLaunch(t, newLauncher(t), specOf(t, "parent", "stays"))
	grandchild := pidIn(t, stdoutOf(c), "grandchild ")
	require.NoError(t, c.Kill())
	require.Equal(t, int(syscall.SIGKILL), exitOf(t, c).Signal)
	requireGone(t, grandchild)
}

// The grandchild holds the log files and the payload pipe open. The exit must not wait for that.
func TestExit_endsGrandchildrenInTheGroup_LCH4(t *testing.T) {
	spec := specOf(t, "parent", "exits")
	spec.Payload = make([]byte, MaxPayload) // more than a pipe holds
	c := mustLaunch(t, newLauncher(t), spec)
	require.Equal(t, 5, exitOf(t, c).Code)
	requireGone(t, pidIn(t, stdoutOf(c), "grandchild "))
}

func TestTerminate_wakesAStoppedChild(t *testing.T) {
	c := mustLaunch(t, newLauncher(t), specOf(t, "ready"))
	lineIn(t, stdoutOf(c), "ready")
	require.NoError(t, c.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		return strings.Contains(readFile(t, fmt.Sprintf("/proc/%d/stat", c.PID())), ") T ")
	}, patience, time.Millisecond)
	c.Terminate(time.Hour)
	require.Equal(t, int(syscall.SIGTERM), exitOf(t, c).Signal)
}

// launchInner starts a launcher process that launches mode, kills it, and returns the pid and the
// stdout of the orphan.
func launchInner(t *testing.T, mode string) (pid int, stdout string) {
	dir := t.TempDir()
	// It runs outside of a cgroup, as the inner one does. The end of its launcher's tree, or a census,
	// would end the orphan too.
	l := New(Options{Cgroup: cgroup.None})
	outer := mustLaunch(t, l, specOf(t, "launcher", mode, dir))
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	stdout = filepath.Join(dir, "inner.stdout.log")
	lineIn(t, stdoutOf(outer), "launched")
	lineIn(t, stdout, "ready")
	pid = childOf(t, outer.PID())
	require.NoError(t, outer.Signal(syscall.SIGKILL))
	require.Equal(t, int(syscall.SIGKILL), exitOf(t, outer).Signal)
	return pid, stdout
}

// takeCensus removes the leftovers of killed launchers.
func takeCensus(t *testing.T) {
	_, err := newLauncher(t).KillLeftovers()
	require.NoError(t, err)
}

func childOf(t *testing.T, parent int) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	require.NoError(t, err)
	var pids []string
	for _, path := range tasks {
		pids = append(pids, strings.Fields(readFile(t, path))...)
	}
	require.Len(t, pids, 1)
	pid, err := strconv.Atoi(pids[0])
	require.NoError(t, err)
	return pid
}

func TestLauncherKilled_childReactsToItsLifeline(t *testing.T) {
	pid, stdout := launchInner(t, "lifeline")
	defer func() {
		if t.Failed() {
			state, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			t.Logf("the child: %s %v", state, err)
		}
	}()
	lineIn(t, stdout, "the launcher is gone")
	requireGone(t, pid)
}

func TestLauncherKilled_childThatIgnoresTheLifelineIsKilled(t *testing.T) {
	pid, _ := launchInner(t, "ready")
	requireGone(t, pid)
}

// Many threads end; a child forked by one of them would be killed.
func TestLaunch_childSurvivesTheEndOfOtherThreads_LCH1(t *testing.T) {
	l := newLauncher(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var threads []int
	var children []*Child
	begin := make(chan struct{})
	for i := range 50 {
		wg.Go(func() {
			runtime.LockOSThread() // and never unlock: the thread ends here
			<-begin
			if i < 3 {
				c, err := l.Launch(specOf(t, "answer"))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				children = append(children, c)
				mu.Unlock()
			}
			mu.Lock()
			threads = append(threads, unix.Gettid())
			mu.Unlock()
		})
	}
	close(begin)
	wg.Wait()
	for _, thread := range threads {
		if thread != os.Getpid() { // the main thread never ends
			require.Eventually(t, func() bool {
				_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
				return err != nil
			}, patience, time.Millisecond)
		}
	}
	require.Len(t, children, 3)
	for _, c := range children {
		lineIn(t, stdoutOf(c), "ready")
		require.NoError(t, c.Signal(syscall.SIGUSR1))
		lineIn(t, stdoutOf(c), "alive")
	}
}

// The counterpart: without the spawner's thread the child is lost, so the test
// above can fail.
func TestSpawner_itsThreadsEndKillsItsChildren_LCH1(t *testing.T) {
	s := startSpawner()
	spec := specOf(t, "ready")
	p, err := openChildFiles(&spec)
	require.NoError(t, err)
	defer p.undo()
	var h *handle
	spec.deathSignal = syscall.SIGKILL
	s.do(func() { h, err = start(&spec, p.descriptors(), new(tree)) })
	require.NoError(t, err)
	defer h.close()
	lineIn(t, p.output[logfile.Stdout].Path, "ready")
	s.stop()
	require.True(t, h.await())
	status, known := h.reap()
	require.True(t, known)
	require.Equal(t, syscall.SIGKILL, status.Signal())
}

func TestExit_reapedByAnotherIsUnknown(t *testing.T) {
	c := mustLaunch(t, newLauncher(t), specOf(t, "ready"))
	c.mu.Lock()
	require.NoError(t, unix.Kill(c.PID(), unix.SIGKILL))
	_, err := unix.Wait4(c.PID(), nil, 0, nil)
	c.mu.Unlock()
	require.NoError(t, err)
	e := exitOf(t, c)
	require.True(t, e.Unknown)
	require.False(t, e.Clean())
}

// Close abandons a process that survives SIGKILL. The test uses an unkilled process, because a real
// survivor cannot be made.
func TestClose_timesOutOnHungChildren_LCH6(t *testing.T) { // LCH-4
	l := New(Options{})
	c := mustLaunch(t, l, specOf(t, "ready"))
	c.handle.interrupt()
	require.True(t, exitOf(t, c).Unknown)
	require.NoError(t, c.Kill(), "LCH-4: no further signal")

	require.NoError(t, unix.Kill(c.PID(), 0), "it was left alone")
	require.NoError(t, unix.Kill(c.PID(), unix.SIGKILL))
	_, err := unix.Wait4(c.PID(), nil, 0, nil)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	takeCensus(t)
}

// openFDs lists a process's descriptors with their targets.
func openFDs(t *testing.T, pid int) map[string]string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	fds := make(map[string]string, len(entries))
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			fds[e.Name()] = target // else it was the one ReadDir used
		}
	}
	return fds
}

// ofRuntime reports whether a child's own Go runtime opens such a file.
func ofRuntime(target string) bool {
	for _, prefix := range []string{"anon_inode:", "/sys/fs/cgroup/", "/proc/"} {
		if strings.HasPrefix(target, prefix) {
			return true
		}
	}
	return false
}

func TestLaunch_childHasOnlyItsFiveDescriptors_LCH1(t *testing.T) {
	l := newLauncher(t)
	careless, err := unix.Dup(2) // without close-on-exec
	require.NoError(t, err)
	defer func() { _ = unix.Close(careless) }()
	seen := make(map[string]bool)
	for range 3 {
		c := mustLaunch(t, l, specOf(t, "ready"))
		lineIn(t, stdoutOf(c), "ready")
		fds := openFDs(t, c.PID())
		require.Equal(t, "/dev/null", fds["0"])
		require.Equal(t, stdoutOf(c), fds["1"])
		require.Equal(t, stderrOf(c), fds["2"])
		for _, fd := range []string{"3", "4"} {
			require.True(t, strings.HasPrefix(fds[fd], "pipe:"), fds[fd])
			require.False(t, seen[fds[fd]], "shared with a sibling")
			seen[fds[fd]] = true
		}
		for fd, target := range fds {
			if fd > "4" || len(fd) > 1 {
				require.True(t, ofRuntime(target), "%s is %s", fd, target)
			}
		}
	}
}

func TestLaunch_failuresLeakNoDescriptors_LCH3(t *testing.T) {
	l := newLauncher(t)
	exitOf(t, mustLaunch(t, l, specOf(t, "exit", "0"))) // opens the poller
	before := openFDs(t, os.Getpid())
	garbage := specOf(t, "exit")
	garbage.Path = filepath.Join(t.TempDir(), "garbage")
	testkit.WriteProgram(t, garbage.Path, []byte("not a program"))
	absent := specOf(t, "exit")
	absent.Path = "/no/such/program"
	for range 10 {
		_, err := l.Launch(garbage)
		require.ErrorIs(t, err, syscall.ENOEXEC)
		_, err = l.Launch(absent)
		require.ErrorIs(t, err, syscall.ENOENT)
	}
	require.Equal(t, before, openFDs(t, os.Getpid()))
}

// TestMain checks the goroutines.
func TestLaunch_concurrentLaunchesLeakNothing(t *testing.T) {
	l, spec := New(Options{}), specOf(t, "exit", "4")
	exitOf(t, mustLaunch(t, l, spec)) // opens the poller
	before := len(openFDs(t, os.Getpid()))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 10 {
				mine := spec
				mine.Name = fmt.Sprintf("exit-%d-%d", i, j)
				c, err := l.Launch(mine)
				if err != nil {
					t.Error(err)
					return
				}
				if code := c.Exit().Code; code != 4 {
					t.Error("exit code", code)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, openFDs(t, os.Getpid()), before)
	require.NoError(t, l.Close())
	_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
	require.ErrorIs(t, err, unix.ECHILD, "no child is left, not even a zombie")
}

func BenchmarkLaunchToExit(b *testing.B) {
	l, spec := New(Options{}), specOf(b, "exit", "0")
	defer l.Close()
	for b.Loop() {
		<-mustLaunch(b, l, spec).Done()
	}
}
