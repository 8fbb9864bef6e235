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

// stopWithin is the time after which a stopping hostd is killed, longer than the grace of its
// procs.
const stopWithin = 20 * time.Second

// cluster is a NATS server in this process with hostd processes.
type cluster struct {
	server *embed.Server
	hostds []*hostd
}

// startCluster starts all processes, or leaves none behind. It calls died for an unexpected end of
// a hostd.
func startCluster(ctx context.Context, s settings, died func(error)) (*cluster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own executable: %w", err)
	}
	c := &cluster{}
	c.server, err = embed.Start(ctx, embed.Options{Token: rand.Text()})
	if err != nil {
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

// options returns the bus options of the cluster.
func (c *cluster) options() *bus.Options {
	return &bus.Options{URL: c.server.URL(), Token: c.server.Token()}
}

// stop stops all hostds at once, then the server (DEMO-1).
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
	said  *os.File      // its output
	done  chan struct{} // closed at its end
	asked chan struct{} // closed by a stop request
	kill  *time.Timer   // the kill after stopWithin

	failure error // reason of a bad end; valid once done is closed
}

func startHostd(path, label, allow string, server *embed.Server) (*hostd, error) {
	said, err := nameless()
	if err != nil {
		return nil, err
	}
	h := &hostd{label: label, said: said, done: make(chan struct{}), asked: make(chan struct{})}
	h.cmd = exec.Command(path, "--nats", server.URL(), "--label", label, "--allow", allow,
		"--log-format", "console")
	// arguments are visible to all users
	h.cmd.Env = append(withoutNATS(os.Environ()), "NATS_TOKEN="+server.Token())
	h.cmd.Stdout, h.cmd.Stderr = h.said, h.said
	h.cmd.SysProcAttr = sysProcAttr()
	if err := h.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start hostd: %w", err), said.Close())
	}
	return h, nil
}

// nameless returns a file without a name, which disappears with its last user. Unlike a pipe it
// accepts output after the end of this process, so a hostd can still clean up.
func nameless() (*os.File, error) {
	f, err := os.CreateTemp("", "castnet-wordcount-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// withoutNATS removes the user's NATS settings, which name another server.
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

// terminate asks the process to stop and schedules a kill.
func (h *hostd) terminate() {
	close(h.asked)
	_ = h.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended, reported by wait
	h.kill = time.AfterFunc(stopWithin, func() { _ = h.cmd.Process.Kill() })
}

// lastWords bounds the output quoted in an error.
const lastWords = 2 << 10

// words returns the end of the output on separate lines, or "".
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
