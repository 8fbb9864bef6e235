package launch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/internal/cgroup"
	"github.com/castnet-io/castnet/internal/logfile"
)

// modeVar makes the test binary play a child. Its value is a key of modes,
// with arguments in os.Args[1:].
const modeVar = "CASTNET_LAUNCH_TEST"

// patience bounds each wait. No test ever uses it up.
const patience = 30 * time.Second

var modes = map[string]func(){
	"exit":        func() { syscall.Exit(number(1)) },
	"stop":        func() { await(number(1)) },
	"env":         func() { fmt.Println(strings.Join(os.Environ(), "\n")) },
	"pwd":         func() { dir, err := os.Getwd(); check(err); fmt.Println(dir) },
	"ready":       func() { fmt.Println("ready"); select {} },
	"answer":      answer,
	"ignoreTerm":  ignoreTerm,
	"flood":       flood,
	"payload":     payload,
	"lifeline":    lifeline,
	"parent":      parent,
	"leaveGroup":  leaveGroup,
	"launcher":    launcher,
	"subreaper":   subreaper,
	"life":        life,
	"refused":     refused,
	"exhaustKill": exhaustKill,
	"kept":        kept,
	"keeper":      keeper,
	"eat":         eat,
	"deathSignal": deathSignal,
	"limits":      limits,
	"exhaust":     exhaust,
}

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVar); mode != "" {
		run, ok := modes[mode]
		if !ok {
			panic("no such mode: " + mode)
		}
		run()
		syscall.Exit(0) // os.Exit would sleep for -race and write for -cover
	}
	goleak.VerifyTestMain(m)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(99)
	}
}

func number(arg int) int {
	n, err := strconv.Atoi(os.Args[arg])
	check(err)
	return n
}

// await ends this process by a signal of its own.
func await(sig int) {
	check(syscall.Kill(os.Getpid(), syscall.Signal(sig)))
	select {}
}

func answer() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	fmt.Println("ready")
	for range asked {
		fmt.Println("alive")
	}
}

func ignoreTerm() {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("ready")
	select {}
}

func flood() {
	for i := range number(1) {
		fmt.Fprintf(os.Stderr, "line %d\n", i)
	}
	fmt.Fprint(os.Stderr, "no newline \xff")
	syscall.Exit(3)
}

func payload() {
	in, launched, err := FromEnv(os.Getenv)
	check(err)
	data, err := in.Payload()
	check(err)
	fmt.Println(launched, len(data), fmt.Sprintf("%x", sha256.Sum256(data)), os.Getenv(EnvVar) == "")
	check(in.Close())
}

// lifeline lives until the launcher is gone, and then prints a line. Linux would kill it before;
// forgetParent turns that off.
func lifeline() {
	forgetParent()
	in, _, err := FromEnv(os.Getenv)
	check(err)
	fmt.Println("ready", os.Getpid())
	<-in.Lifeline()
	fmt.Println("the launcher is gone")
}

// parent starts a grandchild in its own group, then lives on or exits.
func parent() {
	child, err := os.StartProcess(os.Args[0], []string{os.Args[0]}, &os.ProcAttr{
		Env:   []string{modeVar + "=ready"},
		Files: []*os.File{nil, os.Stdout, os.Stderr},
	})
	check(err)
	fmt.Println("grandchild", child.Pid)
	if os.Args[1] == "exits" {
		syscall.Exit(5)
	}
	select {}
}

func leaveGroup() {
	group, err := syscall.Getpgid(os.Getppid())
	check(err)
	check(syscall.Setpgid(0, group))
	fmt.Println("ready")
	select {}
}

// launcher launches one child of the mode in its arguments, in its own
// directory, and waits to be killed.
func launcher() {
	l := New(Options{Cgroup: cgroup.None})
	_, err := l.Launch(Spec{
		Name: "inner", Path: os.Args[0], Env: []string{modeVar + "=" + os.Args[1]}, LogDir: os.Args[2],
	})
	check(err)
	fmt.Println("launched")
	select {}
}

// newLauncher is closed with the test, and must then have no stuck child.
func newLauncher(t testing.TB) *Launcher {
	l := New(Options{})
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// specOf makes this binary play mode.
func specOf(t testing.TB, mode string, args ...string) Spec {
	exe, err := os.Executable()
	require.NoError(t, err)
	return Spec{
		Name: mode, Path: exe, Args: args, LogDir: t.TempDir(),
		Env: []string{modeVar + "=" + mode},
	}
}

func mustLaunch(t testing.TB, l *Launcher, spec Spec) *Child {
	t.Helper()
	c, err := l.Launch(spec)
	require.NoError(t, err)
	return c
}

func stdoutOf(c *Child) string { return c.Output()[logfile.Stdout].Path }
func stderrOf(c *Child) string { return c.Output()[logfile.Stderr].Path }

// exitOf waits for the end of c.
func exitOf(t testing.TB, c *Child) Exit {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(patience):
		require.Fail(t, "the child did not end")
	}
	return c.Exit()
}

// lineIn waits until a line of the file begins with prefix and returns the rest.
func lineIn(t testing.TB, path, prefix string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found, rest := false, ""
	waitForFile(t, path)
	err := logfile.Output{{Path: path}}.Follow(ctx, nil,
		logfile.Handler{Line: func(_ logfile.Stream, line []byte) {
			if after, ok := strings.CutPrefix(string(line), prefix); ok && !found {
				found, rest = true, strings.TrimSpace(after)
				cancel()
			}
		}})
	require.True(t, found, "no line %q in %s: %v", prefix, path, err)
	return rest
}

func waitForFile(t testing.TB, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(path)
		return err == nil
	}, patience, time.Millisecond, path)
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Clean(path))
	require.NoError(t, err)
	return string(data)
}
