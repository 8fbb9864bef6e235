package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/bench/local"
)

// patience bounds every wait for another process. A workload has less, so that it can say itself
// why it takes so long.
const patience = local.Patience + 10*time.Second

// child is a program that was started for a measurement: this one again in another role, or a peer.
type child struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser // its stdin, and its lifeline: it ends when this does (BENCH-5)
	out  *bufio.Reader
}

// startRole starts this program again, in a role.
func startRole(role string, env ...string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	return startChild(role, exec.Command(exe), append(env, roleEnv+"="+role)...)
}

// startChild starts a program. Its group is its own, so that Ctrl-C reaches only us: ending the
// others, in order, is our work.
func startChild(name string, cmd *exec.Cmd, env ...string) (*child, error) {
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		stdin.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &child{name: name, cmd: cmd, in: stdin, out: bufio.NewReader(stdout)}, nil
}

// line waits for the next line the child says: that it is ready, or what it was asked for. A child
// that is too slow is killed.
func (c *child) line(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(ctx, c.kill)()
	line, err := c.out.ReadString('\n')
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("%s did not say what it should: %w", c.name, err)
	}
	return strings.TrimSpace(line), nil
}

// ask sends a child a line and waits for the one that answers it.
func (c *child) ask(ctx context.Context, question string) (string, error) {
	if _, err := fmt.Fprintln(c.in, question); err != nil {
		return "", fmt.Errorf("ask %s: %w", c.name, err)
	}
	return c.line(ctx)
}

func (c *child) kill() {
	// The one failure is that it has ended already.
	_ = c.cmd.Process.Kill()
}

// endChildren ends them all at once and waits for each.
func endChildren(children ...*child) error {
	for _, c := range children {
		c.in.Close()
	}
	var errs []error
	for _, c := range children {
		late := time.AfterFunc(patience, c.kill)
		if err := c.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("%s ended with %w", c.name, err))
		}
		late.Stop()
	}
	return errors.Join(errs...)
}
