package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
)

// stopWithin is how long a hostd may take to stop before it is killed: more than it gives its procs.
const stopWithin = 20 * time.Second

// cluster is a NATS server in this process and some hostds beside it.
type cluster struct {
	server *embed.Server
	hostds []*hostd
}

// startCluster starts them all, or leaves nothing behind. died is told of a hostd that ends unasked.
func startCluster(ctx context.Context, s settings, died func(error)) (*cluster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own executable: %w", err)
	}
	c := &cluster{}
	if c.server, err = embed.Start(ctx, embed.Options{Token: rand.Text()}); err != nil {
		return nil, err
	}
	for i := range s.hosts {
		h, err := startHostd(s.binary, string(rune('a'+i)), self, c.server)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		c.hostds = append(c.hostds, h)
		go h.wait(died)
	}
	return c, nil
}

// options say how to reach the cluster's bus.
func (c *cluster) options() *bus.Options {
	return &bus.Options{URL: c.server.URL(), Token: c.server.Token()}
}

// stop ends the hostds, all at a time, then the server (DEMO-1).
func (c *cluster) stop() error {
	for _, h := range c.hostds {
		h.terminate()
	}
	var errs []error
	for _, h := range c.hostds {
		<-h.done
		h.kill.Stop()
		errs = append(errs, h.failure)
	}
	c.server.Shutdown()
	return errors.Join(errs...)
}

// hostd is one hostd process.
type hostd struct {
	label string
	cmd   *exec.Cmd
	said  *os.File      // what it prints
	done  chan struct{} // closed when it has ended
	asked chan struct{} // closed when it was told to stop
	kill  *time.Timer   // what happens when it does not

	failure error // why its end was no good one; valid when done is closed
}

func startHostd(path, label, allow string, server *embed.Server) (*hostd, error) {
	said, err := nameless()
	if err != nil {
		return nil, err
	}
	h := &hostd{label: label, said: said, done: make(chan struct{}), asked: make(chan struct{})}
	h.cmd = exec.Command(path, "--nats", server.URL(), "--label", label, "--allow", allow, "--log-format", "console")
	h.cmd.Env = append(withoutNATS(os.Environ()), "NATS_TOKEN="+server.Token()) // arguments are for all to read
	h.cmd.Stdout, h.cmd.Stderr = h.said, h.said
	h.cmd.SysProcAttr = sysProcAttr()
	if err := h.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start hostd: %w", err), said.Close())
	}
	return h, nil
}

// nameless is a file that goes when the last process that has it does. Unlike a pipe it takes what a
// hostd says even when we are gone, so that this does not keep it from cleaning up.
func nameless() (*os.File, error) {
	f, err := os.CreateTemp("", "castnet-wordcount-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// withoutNATS keeps what the user's environment says of another server from a hostd of ours.
func withoutNATS(env []string) (out []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, "NATS_") {
			out = append(out, e)
		}
	}
	return out
}

func (h *hostd) wait(died func(error)) {
	defer close(h.done)
	defer h.said.Close()
	err := h.cmd.Wait()
	select {
	case <-h.asked:
		if err != nil {
			h.failure = fmt.Errorf("hostd %s did not stop well: %w%s", h.label, err, h.words())
		}
	default:
		died(fmt.Errorf("hostd %s ended: %s%s", h.label, h.cmd.ProcessState, h.words()))
	}
}

// terminate asks the process to stop, and sees to it that it does.
func (h *hostd) terminate() {
	close(h.asked)
	_ = h.cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended, which wait tells
	h.kill = time.AfterFunc(stopWithin, func() { _ = h.cmd.Process.Kill() })
}

// lastWords is how much of what a hostd said an error quotes.
const lastWords = 2 << 10

// words is the end of what it said, on lines of its own; "" when that is nothing.
func (h *hostd) words() string {
	info, err := h.said.Stat()
	if err != nil {
		return ""
	}
	end := io.NewSectionReader(h.said, max(0, info.Size()-lastWords), lastWords)
	text, err := io.ReadAll(end)
	if said := strings.TrimSpace(string(text)); err == nil && said != "" {
		return "\n  " + strings.ReplaceAll(said, "\n", "\n  ")
	}
	return ""
}
