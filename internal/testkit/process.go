package testkit

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Process is a program started by a test.
type Process struct {
	*exec.Cmd
	Out, Err *Transcript // stdout and stderr; nil if the command redirects them
	ended    chan struct{}
}

// Start starts a program. At the end of the test a running program is killed.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, Out: recorded(&cmd.Stdout), Err: recorded(&cmd.Stderr), ended: make(chan struct{})}
	if p.Out != nil && p.Err != nil && p.Out != p.Err {
		p.Out.beside, p.Err.beside = p.Err, p.Out
	}
	require.NoError(t, cmd.Start())
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // the result is in ProcessState
		for _, tr := range []*Transcript{p.Out, p.Err} {
			if tr != nil {
				tr.finish()
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		<-p.ended
	})
	return p
}

// recorded directs an output to a Transcript, unless it is redirected.
func recorded(output *io.Writer) *Transcript {
	if *output == nil {
		*output = &Transcript{}
	}
	tr, _ := (*output).(*Transcript)
	return tr
}

// Said returns all output so far.
func (p *Process) Said() string {
	switch {
	case p.Out == p.Err:
		return p.Out.String()
	case p.Err == nil:
		return p.Out.String()
	case p.Out == nil:
		return p.Err.String()
	}
	return p.Out.String() + p.Err.String()
}

// PID returns the process ID.
func (p *Process) PID() int { return p.Process.Pid }

// Send sends a signal.
func (p *Process) Send(t testing.TB, s os.Signal) {
	t.Helper()
	require.NoError(t, p.Process.Signal(s), "%s", p.Said())
}

// Ended is closed once the process has ended and all output is read.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Exit waits for the end and returns the exit code, or -1 after a signal.
func (p *Process) Exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(Patience):
		require.FailNow(t, "a process does not end", "%v:\n%s", p.Args, p.Said())
	}
	return p.ProcessState.ExitCode()
}

// Stop sends SIGTERM and requires an exit with code 0.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.Send(t, syscall.SIGTERM)
	require.Zero(t, p.Exit(t), "%v:\n%s", p.Args, p.Said())
}

// Environment returns an environment for programs under test: the variables needed to run and
// build, without the user's settings. Its directories for runtime, configuration and temporary
// files are the test's own. A server of the test has Patience to answer, because the machine may be
// busy.
func Environment(runtime, config, temporary string, more ...string) []string {
	env := []string{
		"XDG_RUNTIME_DIR=" + runtime, "XDG_CONFIG_HOME=" + config, "TMPDIR=" + temporary, "NO_COLOR=1",
		"LC_ALL=C.UTF-8", "CASTNET_BUS_CONNECT_TIMEOUT=" + Patience.String(),
	}
	for _, v := range os.Environ() {
		if key, _, _ := strings.Cut(v, "="); key == "PATH" || key == "HOME" || key == "XDG_CACHE_HOME" ||
			strings.HasPrefix(key, "GO") {
			env = append(env, v)
		}
	}
	return append(env, more...)
}

// WriteProgram writes a file that the test executes. A child that another goroutine forks during
// the write would keep the file open for writing until its exec, and to execute it would fail with
// "text file busy": no child is forked meanwhile.
func WriteProgram(t testing.TB, path string, text []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, text, 0o755))
}
