package launch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestExit_codeIsExact(t *testing.T) {
	l := newLauncher(t)
	for _, code := range []int{0, 1, 7, 255} {
		c := mustLaunch(t, l, specOf(t, "exit", strconv.Itoa(code)))
		e := exitOf(t, c)
		require.Equal(t, code, e.Code)
		require.Zero(t, e.Signal)
		require.Equal(t, code == 0, e.Clean())
		require.False(t, e.At.Before(c.Started()))
	}
}

func TestExit_signalIsExact(t *testing.T) {
	l := newLauncher(t)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		e := exitOf(t, mustLaunch(t, l, specOf(t, "stop", strconv.Itoa(int(sig)))))
		require.Equal(t, int(sig), e.Signal)
		require.Equal(t, -1, e.Code)
		require.False(t, e.Clean())
	}
}

func TestSignal_reachesTheChildAndIsNoErrorAfterItsEnd(t *testing.T) {
	c := mustLaunch(t, newLauncher(t), specOf(t, "answer"))
	lineIn(t, stdoutOf(c), "ready")
	require.NoError(t, c.Signal(syscall.SIGUSR1))
	lineIn(t, stdoutOf(c), "alive")
	require.ErrorIs(t, c.Signal(syscall.Signal(1000)), syscall.EINVAL)

	require.NoError(t, c.Kill())
	require.Equal(t, int(syscall.SIGKILL), exitOf(t, c).Signal)
	require.NoError(t, c.Signal(syscall.SIGUSR1))
	require.NoError(t, c.Kill())
	c.Terminate(time.Second)
}

func TestTerminate_killsAChildThatIgnoresTerm_LCH6(t *testing.T) {
	c := mustLaunch(t, newLauncher(t), specOf(t, "ignoreTerm"))
	lineIn(t, stdoutOf(c), "ready")
	begin := time.Now()
	c.Terminate(20 * time.Millisecond)
	require.Equal(t, int(syscall.SIGKILL), exitOf(t, c).Signal)
	require.True(t, isOverdue(c))
	require.GreaterOrEqual(t, c.GraceExpiredAt().Sub(begin), 20*time.Millisecond)
	require.False(t, c.Exit().At.Before(c.GraceExpiredAt()))
}

func TestTerminate_laterCallCanOnlyShortenTheGrace_LCH6(t *testing.T) {
	c := mustLaunch(t, newLauncher(t), specOf(t, "ignoreTerm"))
	lineIn(t, stdoutOf(c), "ready")
	c.Terminate(time.Hour)
	c.Terminate(time.Millisecond)
	c.Terminate(2 * time.Hour)
	require.Equal(t, int(syscall.SIGKILL), exitOf(t, c).Signal)
}

func TestTerminate_sendsTermFirst(t *testing.T) {
	c := mustLaunch(t, newLauncher(t), specOf(t, "ready"))
	lineIn(t, stdoutOf(c), "ready")
	c.Terminate(time.Hour)
	require.Equal(t, int(syscall.SIGTERM), exitOf(t, c).Signal)
	require.False(t, isOverdue(c))
}

func isOverdue(c *Child) bool {
	select {
	case <-c.GraceExpired():
		return true
	default:
		return false
	}
}

func TestKill_reachesALeaderThatLeftItsGroup(t *testing.T) {
	c := mustLaunch(t, newLauncher(t), specOf(t, "leaveGroup"))
	lineIn(t, stdoutOf(c), "ready")
	require.NoError(t, c.Kill())
	require.Equal(t, int(syscall.SIGKILL), exitOf(t, c).Signal)
}

func TestPayload_arrivesWholeUpToTheLimit(t *testing.T) {
	l := newLauncher(t)
	for _, size := range []int{0, 1, 100_000, MaxPayload} {
		spec := specOf(t, "payload")
		spec.Payload = bytes.Repeat([]byte("castnet"), size/7+1)[:size]
		c := mustLaunch(t, l, spec)
		require.Equal(t, "exited with code 0", exitOf(t, c).String(), "%v", c.Output()[logfile.Stderr].Tail(9))
		want := fmt.Sprintf("true %d %x true\n", size, sha256.Sum256(spec.Payload))
		require.Equal(t, want, readFile(t, stdoutOf(c)))
	}
}

func TestPayload_unreadPayloadDelaysNothing(t *testing.T) {
	spec := specOf(t, "exit", "0")
	spec.Payload = make([]byte, MaxPayload)
	require.True(t, exitOf(t, mustLaunch(t, newLauncher(t), spec)).Clean())
}

func TestEnvironment_isExactlyTheSpecs(t *testing.T) {
	t.Setenv("CASTNET_LAUNCH_SECRET", "of the launcher")
	spec := specOf(t, "env")
	spec.Env = append(spec.Env, "A=1", "B=x=y", "A=2", EnvVar+"=7,8", "EMPTY=")
	c := mustLaunch(t, newLauncher(t), spec)
	require.True(t, exitOf(t, c).Clean())
	want := []string{modeVar + "=env", "B=x=y", "A=2", "EMPTY=", EnvVar + "=3,4", ""}
	require.Equal(t, want, strings.Split(readFile(t, stdoutOf(c)), "\n"))
}

func TestDir_isTheChildsWorkingDirectory(t *testing.T) {
	spec := specOf(t, "pwd")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	spec.Dir = dir
	c := mustLaunch(t, newLauncher(t), spec)
	require.True(t, exitOf(t, c).Clean())
	require.Equal(t, dir+"\n", readFile(t, stdoutOf(c)))
}

func TestOutput_tailHoldsTheLastLinesOfAFlood_LCH6(t *testing.T) {
	c := mustLaunch(t, newLauncher(t), specOf(t, "flood", "50000"))
	e := exitOf(t, c)
	require.Equal(t, 3, e.Code)
	require.Len(t, e.StderrTail, exitTailLines)
	require.Equal(t, []string{"line 49998", "line 49999", "no newline \uFFFD"}, e.StderrTail[exitTailLines-3:])
	require.Equal(t, e.StderrTail[exitTailLines-2:], c.Output()[logfile.Stderr].Tail(2))
	require.Empty(t, c.Output()[logfile.Stderr].Tail(0))

	all := c.Output()[logfile.Stderr].Tail(1 << 20)
	require.Less(t, len(strings.Join(all, "\n")), 64<<10+8)
	require.True(t, strings.HasPrefix(all[0], "line "), "the clipped first line is left out: %q", all[0])
}

func TestLogs_keepButDoNotRepeatEarlierOutput(t *testing.T) {
	l, spec := newLauncher(t), specOf(t, "flood", "2")
	exitOf(t, mustLaunch(t, l, spec))
	c := mustLaunch(t, l, spec)
	exitOf(t, c)

	life := "line 0\nline 1\nno newline \xff"
	require.Equal(t, life+life, readFile(t, stderrOf(c)))
	require.Equal(t, []string{"line 0", "line 1", "no newline \uFFFD"}, c.Exit().StderrTail)
	var followed []string
	require.NoError(t, c.Output().Follow(t.Context(), c.Done(),
		logfile.Handler{Line: func(s logfile.Stream, line []byte) {
			require.Equal(t, logfile.Stderr, s, "stdout is empty")
			followed = append(followed, string(line))
		}}))
	require.Equal(t, strings.Split(life, "\n"), followed)

	info, err := os.Stat(stderrOf(c))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
}

func TestLaunch_refusesInvalidSpecsByName_LCH3(t *testing.T) {
	l, dir := newLauncher(t), t.TempDir()
	file := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	plain := file("plain", "text", 0o644)
	garbage := file("garbage", "not a program", 0o755)
	for _, tt := range []struct {
		edit func(*Spec)
		want string
		is   error
	}{
		{func(s *Spec) { s.Path = "/no/such/program" }, "/no/such/program", fs.ErrNotExist},
		{func(s *Spec) { s.Path = "relative" }, `"relative" is not absolute`, nil},
		{func(s *Spec) { s.Path = "" }, `"" is not absolute`, nil},
		{func(s *Spec) { s.Path = dir }, "executable file, found mode d", nil},
		{func(s *Spec) { s.Path = plain }, "executable file, found mode -rw", fs.ErrPermission},
		{func(s *Spec) { s.Path = garbage }, "exec format error", syscall.ENOEXEC},
		{func(s *Spec) { s.Path = "/tmp/\x00" }, "invalid argument", nil},
		{func(s *Spec) { s.Name = "" }, "does not match", nil},
		{func(s *Spec) { s.Name = "../x" }, `"../x" does not match`, nil},
		{func(s *Spec) { s.Name = strings.Repeat("n", 201) }, "does not match", nil},
		{func(s *Spec) { s.Args = []string{"a", "b\x00"} }, "argument 2", nil},
		{func(s *Spec) { s.Env = []string{"A=b", "word"} }, "entry 2 is not KEY=VALUE", nil},
		{func(s *Spec) { s.Env = []string{"=b"} }, "entry 1 is not KEY=VALUE", nil},
		{func(s *Spec) { s.Env = []string{"A=b\x00"} }, "entry 1 contains a NUL byte", nil},
		{func(s *Spec) { s.Dir = "/no/such/dir" }, `working directory "/no/such/dir"`, fs.ErrNotExist},
		{func(s *Spec) { s.Dir = plain }, "not a directory", syscall.ENOTDIR},
		{func(s *Spec) { s.LogDir = "" }, `log directory ""`, fs.ErrNotExist},
		{func(s *Spec) { s.Payload = make([]byte, MaxPayload+1) }, "1048577 bytes", ErrPayloadTooLarge},
	} {
		spec := specOf(t, "exit", "0")
		logDir := spec.LogDir
		tt.edit(&spec)
		_, err := l.Launch(spec)
		launchErr, ok := errors.AsType[*LaunchError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, spec.Name, launchErr.Name)
		require.ErrorContains(t, err, tt.want)
		if tt.is != nil {
			require.ErrorIs(t, err, tt.is)
		}
		left, err := os.ReadDir(logDir)
		require.NoError(t, err)
		require.Empty(t, left, tt.want)
	}
}

func TestLaunch_keepsExistingLogFiles_LCH3(t *testing.T) {
	spec := specOf(t, "exit", "0")
	spec.Path = filepath.Join(t.TempDir(), "garbage")
	testkit.WriteProgram(t, spec.Path, []byte("not a program"))
	earlier := filepath.Join(spec.LogDir, "exit.stderr.log")
	require.NoError(t, os.WriteFile(earlier, []byte("earlier"), 0o600))
	_, err := newLauncher(t).Launch(spec)
	require.ErrorIs(t, err, syscall.ENOEXEC)
	require.Equal(t, "earlier", readFile(t, earlier))
	require.NoFileExists(t, filepath.Join(spec.LogDir, "exit.stdout.log"))
}

func TestLaunch_refusesLogPathsThatAreNotFiles(t *testing.T) {
	l := newLauncher(t)
	spec := specOf(t, "exit", "0")
	path := filepath.Join(spec.LogDir, "exit.stderr.log")
	require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), path))
	_, err := l.Launch(spec)
	require.ErrorContains(t, err, path)

	require.NoError(t, os.Remove(path))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err = l.Launch(spec)
	require.ErrorContains(t, err, path)
	require.NoFileExists(t, filepath.Join(spec.LogDir, "exit.stdout.log"))
}

func TestClose_endsEveryChildAndRefusesMore(t *testing.T) {
	l := New(Options{})
	var children []*Child
	for range 3 {
		children = append(children, mustLaunch(t, l, specOf(t, "ignoreTerm")))
	}
	require.NoError(t, l.Close())
	for _, c := range children {
		require.Equal(t, int(syscall.SIGKILL), c.Exit().Signal)
	}
	_, err := l.Launch(specOf(t, "exit", "0"))
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, l.Close())
}

func TestClose_duringLaunchLeavesNoChild_LCH4(t *testing.T) {
	for range 10 {
		l, spec := New(Options{}), specOf(t, "ready")
		got := make(chan *Child, 1)
		go func() {
			c, err := l.Launch(spec)
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			got <- c
		}()
		require.NoError(t, l.Close())
		if c := <-got; c != nil {
			require.Equal(t, int(syscall.SIGKILL), exitOf(t, c).Signal)
		}
	}
}

func TestStuckError_namesEveryStuckChild(t *testing.T) {
	require.NoError(t, stuckError(nil, time.Second))
	stuck := []*Child{{name: "a", handle: &handle{pid: 11}}, {name: "b", handle: &handle{pid: 12}}}
	require.EqualError(t, stuckError(stuck, 5*time.Second),
		"launcher closed with processes that survived SIGKILL for 5s: a (pid 11), b (pid 12)")
}

func TestAwaitAll_returnsChildrenStillRunning_LCH6(t *testing.T) {
	ended := &Child{done: make(chan struct{})}
	close(ended.done)
	stuck := &Child{done: make(chan struct{})}
	require.Equal(t, []*Child{stuck}, awaitAll([]*Child{ended, stuck, ended}, time.Millisecond))
	require.Empty(t, awaitAll([]*Child{ended, ended}, time.Hour))
}
