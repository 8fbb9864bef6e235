package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/cgroup"
	"github.com/castnet-io/castnet/internal/logfile"
)

// kept plays a kept child: it reports its holder, exits with code 7 on SIGUSR1, and dies of any
// other signal.
func kept() {
	in, _, err := FromEnv(os.Getenv)
	check(err)
	_, err = in.Payload()
	check(err)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGUSR1)
	fmt.Println("ready", in.Kept())
	for {
		select {
		case held := <-in.LauncherPresent():
			fmt.Println("held", held)
		case <-in.Lifeline():
			fmt.Println("the lifeline of a kept child was closed")
		case <-end:
			syscall.Exit(7)
		}
	}
}

// keeper launches a kept child and another one, a shell with its script, records the kept one and
// waits to be killed. Its arguments are state directory, log directory, the script, and its cgroup.
func keeper() {
	l := New(Options{StateDir: os.Args[1], Cgroup: os.Args[4]})
	plain, err := l.Launch(Spec{
		Name: "plain", Path: "/bin/sh", Args: []string{"-c", os.Args[3]}, LogDir: os.Args[2],
		Env: []string{"PATH=" + os.Getenv("PATH")},
	})
	check(err)
	c, err := l.Launch(Spec{
		Name: "kept", Path: os.Args[0], Env: []string{modeVar + "=kept"}, LogDir: os.Args[2], Keep: true,
	})
	check(err)
	record, err := json.Marshal(c.Record())
	check(err)
	fmt.Println("plain", plain.PID())
	fmt.Println("record", string(record))
	select {}
}

// keep starts a keeper, kills it once its kept child runs, and returns its record and the directory
// of the state.
func keep(t *testing.T, script string) (r Record, stateDir string) { return keepIn(t, "", script) }

// keepIn is keep with a cgroup for the keeper's own.
func keepIn(t *testing.T, place, script string) (r Record, stateDir string) {
	stateDir = t.TempDir()
	outer := New(Options{Cgroup: cgroup.None}) // its end is not that of the kept
	spec := specOf(t, "keeper", stateDir, t.TempDir(), script, place)
	spec.Env = append(spec.Env, "PATH="+os.Getenv("PATH"))
	k := mustLaunch(t, outer, spec)
	t.Cleanup(func() {
		l := New(Options{StateDir: stateDir, Cgroup: place})
		_, err := l.KillLeftovers()
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.NoError(t, outer.Close())
	})
	require.NoError(t, json.Unmarshal([]byte(lineIn(t, stdoutOf(k), "record ")), &r))
	require.Equal(t, "true", lineIn(t, r.Output[logfile.Stdout].Path, "ready "))
	if script != "" { // the shell ends with the keeper
		for _, line := range []string{"one ", "two ", "three ", "four "} {
			pidIn(t, filepath.Join(filepath.Dir(r.Output[logfile.Stdout].Path), "plain.stdout.log"), line)
		}
	}
	require.NoError(t, k.Kill())
	exitOf(t, k)
	require.Equal(t, "false", lineIn(t, r.Output[logfile.Stdout].Path, "held "))
	return r, stateDir
}

func stateLauncher(t *testing.T, stateDir string) *Launcher { return stateLauncherIn(t, "", stateDir) }

func stateLauncherIn(t *testing.T, place, stateDir string) *Launcher {
	l := New(Options{StateDir: stateDir, Cgroup: place})
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func mustAdopt(t *testing.T, l *Launcher, r Record) *Child {
	t.Helper()
	c, err := l.Adopt(r)
	require.NoError(t, err)
	return c
}

// needsExitOf skips on a kernel without exit codes of foreign children.
func needsExitOf(t *testing.T, e Exit) {
	if e.Unknown {
		var u unix.Utsname
		require.NoError(t, unix.Uname(&u))
		t.Skipf("Linux %s has no exit codes of foreign children: 6.15 has",
			unix.ByteSliceToString(u.Release[:]))
	}
}

func TestAdopt_watchesChildrenThatAKilledLauncherKept(t *testing.T) {
	r, dir := keep(t, "")
	l := stateLauncher(t, dir)
	c := mustAdopt(t, l, r)
	stored, err := json.Marshal(r)
	require.NoError(t, err)
	again, err := json.Marshal(c.Record())
	require.NoError(t, err)
	require.JSONEq(t, string(stored), string(again), "the next launcher can do the same")
	require.Equal(t, r.PID, c.PID())
	lineIn(t, r.Output[logfile.Stdout].Path, "held true")
	require.True(t, c.Started().Equal(r.Started))

	require.NoError(t, c.Signal(syscall.SIGUSR1))
	e := exitOf(t, c)
	require.NoFileExists(t, filepath.Join(dir, "kept.lifeline"))
	if r.Group.Dir != "" {
		require.NoDirExists(t, r.Group.Dir)
	}
	needsExitOf(t, e)
	require.Equal(t, "exited with code 7", e.String())
}

// Both ways to learn of an end: as a zombie, and reaped by its parent.
func TestAdopt_reportsTheExitOfAForeignChild(t *testing.T) {
	for _, reaped := range []bool{false, true} {
		exe, err := os.Executable()
		require.NoError(t, err)
		p, err := os.StartProcess(exe, []string{exe, "7"}, &os.ProcAttr{Env: []string{modeVar + "=exit"}})
		require.NoError(t, err)
		h := &handle{pid: p.Pid, tree: new(tree), adopted: true}
		h.ticks, err = startTicks(p.Pid)
		require.NoError(t, err)
		fd, err := unix.PidfdOpen(p.Pid, 0)
		require.NoError(t, err)
		h.pidfd, err = pollable(fd)
		require.NoError(t, err)
		require.True(t, h.await())
		if reaped {
			_, err = p.Wait()
			require.NoError(t, err)
		}
		status, known := h.adoptedStatus()
		h.close()
		if !reaped {
			_, err = p.Wait()
			require.NoError(t, err)
		}
		needsExitOf(t, Exit{Unknown: !known})
		require.Equal(t, 7, status.ExitStatus(), "reaped: %v", reaped)
	}
}

func TestAdopt_adoptedChildIsStoppedNormally_LCH6(t *testing.T) {
	r, dir := keep(t, "")
	c := mustAdopt(t, stateLauncher(t, dir), r)
	require.NoError(t, c.Signal(syscall.SIGSTOP))
	c.Terminate(patience)
	e := exitOf(t, c)
	needsExitOf(t, e)
	require.Equal(t, int(syscall.SIGTERM), e.Signal)
}

func TestAdopt_killEndsTheTree_LCH4(t *testing.T) {
	r, dir := keep(t, "")
	if r.Group.Dir == "" {
		t.Skip("no cgroup here")
	}
	other := startIn(t, r.Group.Dir)
	c := mustAdopt(t, stateLauncher(t, dir), r)
	require.NoError(t, c.Kill())
	exitOf(t, c)
	require.Equal(t, syscall.SIGKILL, other())
}

// startIn starts a process in a cgroup and returns a wait for its end.
func startIn(t *testing.T, group string) func() syscall.Signal {
	exe, err := os.Executable()
	require.NoError(t, err)
	p, err := os.StartProcess(exe, []string{exe}, &os.ProcAttr{Env: []string{modeVar + "=ready"}})
	require.NoError(t, err)
	require.NoError(t, (&cgroup.Group{Dir: group}).AddProcess(p.Pid))
	return func() syscall.Signal {
		state, err := p.Wait()
		require.NoError(t, err)
		return state.Sys().(syscall.WaitStatus).Signal()
	}
}

func TestAdopt_refusesAWrongProcessWithoutTouchingIt(t *testing.T) {
	r, dir := keep(t, "")
	l := stateLauncher(t, dir)
	for name, tt := range map[string]struct {
		edit func(*Record)
		is   error
		text string
	}{
		"start time": {func(r *Record) { r.Ticks++ }, ErrPIDReused, "not the same process: it started at tick"},
		"boot":       {func(r *Record) { r.Boot = "other" }, ErrOtherBoot, "earlier boot"},
		"pid":        {func(r *Record) { r.PID = os.Getpid() }, ErrPIDReused, "not the same process"},
		"no pid": {func(r *Record) { r.PID = 1 << 22 }, ErrGone,
			`cannot adopt "kept" (pid 4194304): process is gone`},
		"zero pid": {func(r *Record) { r.PID = 0 }, ErrGone, "gone"},
		"name":     {func(r *Record) { r.Name = "../kept" }, nil, "does not match"},
		"not kept": {func(r *Record) { r.Kept = false }, nil, "the record is not of a kept process"},
		"cgroup": {func(r *Record) { r.Group.Dir = "/sys/fs/cgroup" }, ErrPIDReused,
			"no cgroup of a launcher"},
		"another one": {func(r *Record) { r.Group.Dir = "/x/castnet-1/keep.kept.1" }, ErrPIDReused,
			"is not in /x/"},
	} {
		wrong := r
		tt.edit(&wrong)
		_, err := l.Adopt(wrong)
		require.ErrorContains(t, err, tt.text, name)
		if tt.is != nil {
			require.ErrorIs(t, err, tt.is, name)
		}
	}
	stateless := newLauncher(t)
	_, err := stateless.Adopt(r)
	require.ErrorContains(t, err, "Options.StateDir")

	c := mustAdopt(t, l, r) // it was left alone
	_, err = l.Adopt(r)
	require.ErrorContains(t, err, "is a child of this launcher")
	require.NoError(t, c.Kill())
	exitOf(t, c)
	_, err = l.Adopt(r)
	require.ErrorIs(t, err, ErrGone)
}

func TestLeave_keepsKeptChildrenAndKillsTheOthers(t *testing.T) {
	l := New(Options{StateDir: t.TempDir()})
	spec := specOf(t, "kept")
	spec.Keep = true
	c, plain := mustLaunch(t, l, spec), mustLaunch(t, l, specOf(t, "ready"))
	lineIn(t, stdoutOf(c), "ready")
	require.NoError(t, l.Detach())
	require.NoError(t, l.Close(), "the same result as Leave")
	require.True(t, c.Exit().Unknown)
	require.Equal(t, int(syscall.SIGKILL), plain.Exit().Signal)
	require.Equal(t, "false", lineIn(t, stdoutOf(c), "held "))

	next := stateLauncher(t, l.stateDir)
	again := mustAdopt(t, next, c.Record())
	lineIn(t, stdoutOf(c), "held true")
	require.NoError(t, again.Signal(syscall.SIGUSR1))
	require.Equal(t, 7, exitOf(t, again).Code, "its status is for this process to take")
	_, err := next.KillLeftovers()
	require.NoError(t, err)
}

func TestLaunch_refusesTwoKeptChildrenOfOneName(t *testing.T) {
	r, dir := keep(t, "")
	l := stateLauncher(t, dir)
	spec := specOf(t, "kept")
	spec.Keep = true
	_, err := l.Launch(spec)
	require.ErrorIs(t, err, ErrKeptAlive)
	c := mustAdopt(t, l, r)
	require.NoError(t, c.Kill())
	exitOf(t, c)

	again := mustLaunch(t, l, spec)
	require.NoError(t, unix.Kill(again.PID(), 0))
	require.NotEqual(t, r.PID, again.PID())
}

func TestLaunch_keepRequiresAStateDirectory(t *testing.T) {
	spec := specOf(t, "kept")
	spec.Keep = true
	_, err := newLauncher(t).Launch(spec)
	require.ErrorContains(t, err, "Options.StateDir")
	_, err = stateLauncher(t, "/no/such/dir").Launch(spec)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestKillLeftovers_endsOnlyChildrenOfDeadLaunchers(t *testing.T) {
	place := ownPlace(t)
	alive := mustLaunch(t, stateLauncherIn(t, place, ""), specOf(t, "ready"))
	foreign, _ := keepIn(t, place, "") // of another state directory
	r, dir := keepIn(t, place, scattered+"wait")
	l := stateLauncherIn(t, place, dir)
	adopted := mustAdopt(t, l, r)
	var orphans []int
	for _, line := range []string{"one ", "two ", "three ", "four "} {
		orphans = append(orphans, pidIn(t,
			filepath.Join(filepath.Dir(r.Output[logfile.Stdout].Path), "plain.stdout.log"), line))
	}
	left, err := l.KillLeftovers()
	require.NoError(t, err)
	plain := named(left, "plain")
	require.GreaterOrEqual(t, plain.Processes, 3, "the shell's orphans: %v", left)
	require.Zero(t, named(left, "kept").Processes, "one was adopted, one is another's: %v", left)
	for _, pid := range []int{alive.PID(), foreign.PID, adopted.PID()} {
		require.NoError(t, unix.Kill(pid, 0))
	}
	requireAllEnded(t, orphans)

	require.NoError(t, l.Detach())
	next := stateLauncherIn(t, place, dir) // adopts nobody
	left, err = next.KillLeftovers()
	require.NoError(t, err)
	require.Equal(t, 1, named(left, "kept").Processes)
	require.NoFileExists(t, filepath.Join(dir, "kept.lifeline"))
	require.NoDirExists(t, filepath.Dir(r.Group.Dir))
	left, err = next.KillLeftovers()
	require.NoError(t, err)
	require.Empty(t, left, "it may be repeated")
}

// Without cgroups the lifeline reveals a kept child without a record.
func TestKillLeftovers_endsAnUnadoptedKeptChild(t *testing.T) {
	l := New(Options{StateDir: t.TempDir(), Cgroup: cgroup.None})
	spec := specOf(t, "kept")
	spec.Keep = true
	c := mustLaunch(t, l, spec)
	lineIn(t, stdoutOf(c), "ready")
	left, err := l.KillLeftovers()
	require.NoError(t, err)
	require.Empty(t, left, "it is ours")
	require.NoError(t, l.Detach())

	next := New(Options{StateDir: l.stateDir, Cgroup: cgroup.None})
	left, err = next.KillLeftovers()
	require.NoError(t, err)
	require.Equal(t, []cgroup.Leftover{{Name: "kept", Processes: 1}}, left)
	require.NoFileExists(t, c.lifelinePath)
	require.NoError(t, next.Close())
	_, err = unix.Wait4(c.PID(), nil, 0, nil)
	require.NoError(t, err)
}

func named(left []cgroup.Leftover, name string) cgroup.Leftover {
	for _, l := range left {
		if l.Name == name {
			return l
		}
	}
	return cgroup.Leftover{}
}

func TestOptions_noDeathSignalLeavesOnlyTheLifeline(t *testing.T) {
	l := New(Options{NoDeathSignal: true})
	defer l.Close()
	c := mustLaunch(t, l, specOf(t, "deathSignal"))
	require.Equal(t, "0", lineIn(t, stdoutOf(c), "signal "))
	c = mustLaunch(t, newLauncher(t), specOf(t, "deathSignal"))
	require.Equal(t, "9", lineIn(t, stdoutOf(c), "signal "))
}

func deathSignal() {
	var sig int32
	check(unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0, 0, 0))
	fmt.Println("signal", sig)
}
