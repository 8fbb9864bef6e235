package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// background is a client that goes on until it is told to end.
type background struct {
	cmd    *exec.Cmd
	lines  chan string // of stdout; closed at its end
	stderr *syncBuffer
	wait   func() // for its end, any number of times
	code   int    // valid after wait
}

// syncBuffer may be read while a process writes to it.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs a command in the background; it has ended when the test has.
func start(t *testing.T, env []string, args ...string) *background {
	t.Helper()
	r, w := io.Pipe()
	b := &background{cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 256), stderr: &syncBuffer{}}
	b.cmd.Env, b.cmd.Stdout, b.cmd.Stderr = env, w, b.stderr
	require.NoError(t, b.cmd.Start())
	var readers sync.WaitGroup
	readers.Go(func() {
		defer close(b.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			b.lines <- s.Text()
		}
	})
	ended := make(chan struct{})
	readers.Go(func() {
		defer close(ended)
		_ = b.cmd.Wait() // its code is in ProcessState
		_ = w.Close()
	})
	wait := func() {
		select {
		case <-ended:
		case <-time.After(60 * time.Second):
			_ = b.cmd.Process.Kill()
			<-ended
			t.Errorf("client %v did not end: %s", args, b.stderr)
		}
		b.code = b.cmd.ProcessState.ExitCode()
	}
	b.wait = sync.OnceFunc(wait)
	t.Cleanup(func() {
		_ = b.cmd.Process.Signal(os.Interrupt)
		b.wait()
		for range b.lines { // let the reader reach the end
		}
		readers.Wait()
	})
	return b
}

// exit sends a signal (nil: none) and returns the exit code.
func (b *background) exit(t *testing.T, s os.Signal) int {
	t.Helper()
	if s != nil {
		require.NoError(t, b.cmd.Process.Signal(s))
	}
	b.wait()
	return b.code
}

// next is the next line of stdout.
func (b *background) next(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	select {
	case l, ok := <-b.lines:
		require.True(t, ok, "no more output; stderr: %s", b.stderr)
		return l
	case <-ctx.Done():
		require.FailNow(t, "no output", "stderr: %s", b.stderr)
	}
	return ""
}

// up starts a mesh and holds it for the test.
func (c *cluster) up(t *testing.T, args ...string) (*background, upRecord) {
	t.Helper()
	b := start(t, c.env, append([]string{"up", "-o", "ndjson"}, args...)...)
	r := decode[upRecord](t, b.next(t))
	for _, p := range decode[[]procRecord](t, c.ok(t, "procs", r.Mesh, "-o", "json")) {
		c.procs = append(c.procs, p.PID)
	}
	return b, r
}

// kill ends the process of a rank.
func (c *cluster) kill(t *testing.T, mesh, region string) {
	t.Helper()
	all := decode[[]procRecord](t, c.ok(t, "procs", mesh+"["+region+"]", "-o", "json"))
	require.Len(t, all, 1)
	require.NoError(t, syscall.Kill(all[0].PID, syscall.SIGKILL))
}
