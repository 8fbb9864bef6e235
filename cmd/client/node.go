package main

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
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// nodeReady is how long a hostd may take until its server can be found.
	nodeReady = 20 * time.Second
	// nodeDrain is longer than a hostd takes to drain.
	nodeDrain = 40 * time.Second
	// nodePoll is how often its file is looked for.
	nodePoll = 25 * time.Millisecond
)

// localNode is a hostd that this command has started. The nil node is none.
type localNode struct {
	path   string
	cmd    *exec.Cmd
	stderr tail
	done   chan struct{} // closed when it has ended
	err    error         // how; read after done
}

// join connects to the bus; where none is said and none is found it starts a hostd.
func (a *app) join(ctx context.Context, u upSpec) (*mesh.Net, *localNode, error) {
	o, err := a.meshOptions()
	if err != nil {
		return nil, nil, err
	}
	net, err := mesh.Connect(ctx, o)
	if o.Bus.URL != "" || !a.nobodyHome(err) {
		return net, nil, err
	}
	if u.noHostd {
		return nil, nil, a.hint(err)
	}
	path, ferr := findHostd()
	if ferr != nil {
		return nil, nil, cli.WithCode(cli.ExitConnection, fmt.Errorf("%w; and no hostd can be started: %w", err, ferr))
	}
	bar := a.newProgress()
	bar.say("no bus is found: starting " + path)
	node, err := startNode(ctx, path, a.conn.Namespace, a.getenv)
	bar.clear()
	if err != nil {
		return nil, node, err
	}
	a.note("no bus was found: started %s (pid %d), which ends with this command", path, node.cmd.Process.Pid)
	if o, err = a.meshOptions(); err != nil { // now the local file has the URL
		return nil, node, err
	}
	net, err = mesh.Connect(ctx, o)
	if err == nil {
		if _, err = net.AwaitHosts(ctx, 1); err != nil {
			err = errors.Join(err, net.Close(context.WithoutCancel(ctx)))
		}
	}
	return net, node, err
}

// findHostd looks next to this program, then along PATH.
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

// startNode starts a hostd and waits until its server can be found. A node that is returned with
// an error is to be stopped, too.
func startNode(ctx context.Context, path, namespace string, getenv func(string) string) (*localNode, error) {
	file, err := bus.LocalFile(getenv)
	if err != nil {
		return nil, err
	}
	args := []string{"--log-format", "console", "--log-level", "warn"}
	if namespace != subjects.DefaultNamespace {
		args = append(args, "--namespace", namespace)
	}
	n := &localNode{path: path, cmd: exec.Command(path, args...), done: make(chan struct{})}
	n.cmd.Stderr = &n.stderr
	n.cmd.SysProcAttr = ownGroup() // Ctrl-C is for this command, which stops the mesh first
	if err := n.run(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, nodeReady)
	defer cancel()
	tick := time.NewTicker(nodePoll)
	defer tick.Stop()
	for {
		if l, err := bus.ReadLocal(file); err == nil && l.PID == n.cmd.Process.Pid {
			return n, nil
		}
		select {
		case <-tick.C:
		case <-n.done:
			return nil, fmt.Errorf("%s could not start: %s", path, n.lastWords())
		case <-ctx.Done():
			return n, fmt.Errorf("%s was not ready within %s: %w", path, nodeReady, ctx.Err())
		}
	}
}

// run starts the process and sees to it until it ends. The goroutine keeps its thread: the process
// is told to end when that thread does.
func (n *localNode) run() error {
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

// ended is closed when the process has ended; never for no node.
func (n *localNode) ended() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.done
}

// lastWords is what it said last, else how it ended.
func (n *localNode) lastWords() string {
	if s := n.stderr.last(); s != "" {
		return s
	}
	if n.err != nil {
		return n.err.Error()
	}
	return "it said nothing"
}

// stop drains the node and waits for its end.
func (n *localNode) stop() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", n.path, err)
	}
	limit := time.NewTimer(nodeDrain)
	defer limit.Stop()
	select {
	case <-n.done:
	case <-limit.C:
		if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill %s: %w", n.path, err)
		}
		<-n.done
		return fmt.Errorf("%s did not drain within %s and was killed", n.path, nodeDrain)
	}
	if n.err != nil && !unstarted(n.cmd.ProcessState) {
		return fmt.Errorf("%s ended badly (%w): %s", n.path, n.err, n.lastWords())
	}
	return nil
}

// unstarted reports whether a hostd was stopped before it had started, which it says is an interrupt,
// or was too young to say.
func unstarted(s *os.ProcessState) bool {
	w, ok := s.Sys().(syscall.WaitStatus)
	return s.ExitCode() == cli.ExitInterrupted || ok && w.Signaled() && w.Signal() == syscall.SIGTERM
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailSize is how much it keeps.
const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

// last is the last line that says something.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
