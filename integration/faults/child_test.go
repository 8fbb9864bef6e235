package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// child is this binary as another process.
type child struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser // its orders, and its lifeline
	reports chan report    // closed when it has ended
	log     *os.File       // its stderr
	over    chan struct{}  // closed once err is set
	err     error          // how it ended
}

// start starts a child and waits until it is ready. The end of the test kills it.
func start(t *testing.T, role, name, dir string, config any) (*child, report) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	settings, err := json.Marshal(config)
	require.NoError(t, err)
	c := &child{name: name, cmd: exec.Command(self), reports: make(chan report), over: make(chan struct{})}
	c.log, err = os.OpenFile(filepath.Join(dir, name+".log"), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	c.cmd.Env = append(os.Environ(), roleVariable+"="+role, configVariable+"="+string(settings))
	c.cmd.Stderr = c.log
	// A stopped child does not notice the end of its stdin.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go c.follow(out)
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("%s ended with %v and printed:\n%s", name, c.err, c.stderrTail())
		}
		c.log.Close()
	})
	ready, err := c.next(patience)
	require.NoError(t, err)
	return c, ready
}

// follow passes on the child's output until its end.
func (c *child) follow(out io.Reader) {
	for lines := json.NewDecoder(out); ; {
		var r report
		if lines.Decode(&r) != nil {
			break
		}
		c.reports <- r
	}
	close(c.reports)
	c.err = c.cmd.Wait()
	close(c.over)
}

// stderrTail is the end of the child's stderr.
func (c *child) stderrTail() string {
	const most = 3 << 10
	data, err := os.ReadFile(c.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(data[max(0, len(data)-most):]))
}

func (c *child) next(within time.Duration) (report, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case r, ok := <-c.reports:
		switch {
		case !ok:
			return r, fmt.Errorf("%s has ended", c.name)
		case r.Err != "":
			return r, errors.New(c.name + ": " + r.Err)
		}
		return r, nil
	case <-timer.C:
		c.dump()
		return report{}, fmt.Errorf("%s did not answer within %v", c.name, within)
	}
}

// ask gives an order and waits for the report. One order at a time.
func (c *child) ask(o order, within time.Duration) (report, error) {
	line, err := json.Marshal(o)
	if err != nil {
		return report{}, err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return report{}, fmt.Errorf("%s: %w", c.name, err)
	}
	return c.next(within)
}

// do is ask for orders without a failure.
func (c *child) do(t *testing.T, o order) report {
	t.Helper()
	r, err := c.ask(o, patience)
	require.NoError(t, err)
	return r
}

// signal sends a signal to the child alone.
func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(s))
}

// dump makes a stuck child print its stacks and end.
func (c *child) dump() {
	_ = c.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
	select {
	case <-c.over:
	case <-time.After(time.Second): // it is stopped
	}
}

// kill ends the child at once, and waits. It may have ended before.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // the one failure is that it has ended already
	for range c.reports {    // nobody reads what it was about to say
	}
	<-c.over
	c.in.Close()
}

// end closes the child's stdin and waits until it has ended without an error.
func (c *child) end(t *testing.T) {
	t.Helper()
	require.NoError(t, c.in.Close())
	select {
	case <-c.over:
		require.NoError(t, c.err, "%s printed:\n%s", c.name, c.stderrTail())
	case <-time.After(patience / 2): // less than it gives itself
		c.dump()
		require.FailNow(t, c.name+" did not end")
	}
}
