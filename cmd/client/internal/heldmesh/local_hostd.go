package heldmesh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// hostdStartTimeout bounds the start of a hostd, up to a usable server.
	hostdStartTimeout = 20 * time.Second
	// hostdStopTimeout exceeds the drain time of a hostd.
	hostdStopTimeout = 40 * time.Second
	// hostdPollInterval is the poll interval for hostd's file.
	hostdPollInterval = 25 * time.Millisecond
)

// localHostd is a hostd started by this command. A nil *localHostd is none.
type localHostd struct {
	path   string
	cmd    *exec.Cmd
	stderr tailBuffer
	done   chan struct{} // closed at its end
	err    error         // exit error; read after done
}

// connectOrStart connects to the bus. If none is named or found, it starts a hostd.
func connectOrStart(ctx context.Context, a *app.App, u Spec) (*mesh.Net, *localHostd, error) {
	o, err := a.MeshOptions()
	if err != nil {
		return nil, nil, err
	}
	conn, err := mesh.Connect(ctx, o)
	if o.Bus.URL != "" || !a.IsBusMissing(err) {
		return conn, nil, err
	}
	if u.noHostd {
		return nil, nil, a.SuggestHostd(err)
	}
	path, ferr := findHostd()
	if ferr != nil {
		return nil, nil, cli.WithCode(
			cli.ExitConnection, fmt.Errorf("%w; and no hostd can be started: %w", err, ferr),
		)
	}
	bar := a.NewProgress()
	bar.Message("found no bus: starting " + path)
	node, err := startHostd(ctx, path, a.Conn.Namespace, a.Getenv)
	bar.Clear()
	if err != nil {
		return nil, node, err
	}
	a.Notef("found no bus: started %s (pid %d), which ends with this command", path, node.cmd.Process.Pid)
	o, err = a.MeshOptions()
	if err != nil { // the local file has the URL now
		return nil, node, err
	}
	conn, err = mesh.Connect(ctx, o)
	if err == nil {
		_, err = conn.AwaitHosts(ctx, 1)
		if err != nil {
			err = errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
		}
	}
	return conn, node, err
}

// findHostd looks beside this program, then along PATH.
func findHostd() (string, error) {
	if self, err := os.Executable(); err == nil {
		next := filepath.Join(filepath.Dir(self), "hostd")
		if info, err := os.Stat(next); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return next, nil
		}
	}
	path, err := exec.LookPath("hostd")
	if err != nil {
		return "", errors.New("hostd is neither next to this program nor in PATH")
	}
	return path, nil
}

// startHostd starts a hostd and waits for its server. The caller also stops a hostd returned with
// an error.
func startHostd(
	ctx context.Context, path, namespace string, getenv func(string) string,
) (*localHostd, error) {
	file, err := bus.LocalFile(getenv)
	if err != nil {
		return nil, err
	}
	args := []string{"--log-format", "console", "--log-level", "warn"}
	if namespace != subjects.DefaultNamespace {
		args = append(args, "--namespace", namespace)
	}
	n := &localHostd{path: path, cmd: exec.Command(path, args...), done: make(chan struct{})}
	n.cmd.Stderr = &n.stderr
	n.cmd.SysProcAttr = ownProcessGroup() // Ctrl-C goes to this command only, which stops the mesh first
	if err := n.run(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, hostdStartTimeout)
	defer cancel()
	tick := time.NewTicker(hostdPollInterval)
	defer tick.Stop()
	for {
		if l, err := bus.ReadLocal(file); err == nil && l.PID == n.cmd.Process.Pid {
			return n, nil
		}
		select {
		case <-tick.C:
		case <-n.done:
			return nil, fmt.Errorf("%s could not start: %s", path, n.lastOutput())
		case <-ctx.Done():
			return n, fmt.Errorf("%s was not ready within %s: %w", path, hostdStartTimeout, ctx.Err())
		}
	}
}

// run starts the process and waits for its end. The goroutine keeps its thread, because the death
// signal follows the starting thread.
func (n *localHostd) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(n.done)
		err := n.cmd.Start()
		started <- err
		if err == nil {
			n.err = n.cmd.Wait()
		}
	}()
	return <-started
}

// exited is closed at the end of the process, never for nil.
func (n *localHostd) exited() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.done
}

// lastOutput returns the last output line, else the exit status.
func (n *localHostd) lastOutput() string {
	if s := n.stderr.lastLine(); s != "" {
		return s
	}
	if n.err != nil {
		return n.err.Error()
	}
	return "it printed nothing"
}

// stop drains the hostd and waits for its end.
func (n *localHostd) stop() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", n.path, err)
	}
	limit := time.NewTimer(hostdStopTimeout)
	defer limit.Stop()
	select {
	case <-n.done:
	case <-limit.C:
		if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill %s: %w", n.path, err)
		}
		<-n.done
		return fmt.Errorf("%s did not drain within %s and was killed", n.path, hostdStopTimeout)
	}
	if n.err != nil && !stoppedBeforeReady(n.cmd.ProcessState) {
		return fmt.Errorf("%s failed (%w): %s", n.path, n.err, n.lastOutput())
	}
	return nil
}

// stoppedBeforeReady reports whether a hostd was stopped during its start: by its exit code, or by
// a signal before it handled any.
func stoppedBeforeReady(s *os.ProcessState) bool {
	w, ok := s.Sys().(syscall.WaitStatus)
	return s.ExitCode() == cli.ExitInterrupted || ok && w.Signaled() && w.Signal() == syscall.SIGTERM
}

// tailBuffer keeps the end of its input.
type tailBuffer struct {
	mu   sync.Mutex
	text []byte
}

// tailSize bounds the kept bytes.
const tailSize = 8 << 10

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

// lastLine returns the last non-empty line.
func (t *tailBuffer) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
