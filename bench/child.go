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
)

// patience bounds every wait for another process.
const patience = 30 * time.Second

// child is this program again, in another role.
type child struct {
	role     string
	cmd      *exec.Cmd
	lifeline io.Closer // its stdin: the role ends when this does (BENCH-5)
	out      *bufio.Reader
}

// startChild starts a role. Its group is its own, so that Ctrl-C reaches only us: ending the
// others, in order, is our work.
func startChild(role string, env ...string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	c := &child{role: role, cmd: exec.Command(exe)}
	c.cmd.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		stdin.Close()
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	c.lifeline, c.out = stdin, bufio.NewReader(stdout)
	return c, nil
}

// ready waits for the one line a role says when it is, and returns it. A child that is too slow
// is killed.
func (c *child) ready(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(ctx, c.kill)()
	line, err := c.out.ReadString('\n')
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("a %s did not become ready: %w", c.role, err)
	}
	return strings.TrimSpace(line), nil
}

func (c *child) kill() {
	// The one failure is that it has ended already.
	_ = c.cmd.Process.Kill()
}

// endChildren ends them all at once and waits for each.
func endChildren(children ...*child) error {
	for _, c := range children {
		c.lifeline.Close()
	}
	var errs []error
	for _, c := range children {
		late := time.AfterFunc(patience, c.kill)
		if err := c.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("a %s ended with %w", c.role, err))
		}
		late.Stop()
	}
	return errors.Join(errs...)
}
