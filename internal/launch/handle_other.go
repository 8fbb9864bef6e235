//go:build !linux

package launch

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/cgroup"
)

// handle is the kernel's side of a child. Systems other than Linux lack PDEATHSIG and pidfd, so
// this version keeps fewer promises:
//
//   - Only the lifeline tells a child that its launcher was killed. A child
//     that ignores it lives on.
//   - Waiting takes one thread per child and reaps at once. The rest of the
//     group is killed just after the leader's number became free. A new group
//     with that number, however unlikely, would be killed.
//   - Inheritable descriptors of this process are inherited.
//   - interrupt leaves the waiting goroutine behind until the child ends.
//   - Programs with set-user-ID bits get the privileges of their owners.
//   - There are no cgroups and no subreapers. Processes outside the group live
//     on, limits have no effect, and no child can be kept.
type handle struct {
	pid     int
	ticks   uint64 // Linux only
	tree    *tree
	process *os.Process
	result  chan *os.ProcessState // one value, nil if waiting failed
	state   *os.ProcessState
	stop    chan struct{}
	once    sync.Once
}

func (*handle) usage() (cpu time.Duration, memory int64) { return 0, 0 }

var errNoLimit = errors.New("this system has no such limit for a tree")

func start(spec *Spec, fds []uintptr, t *tree) (*handle, error) {
	pid, err := syscall.ForkExec(spec.Path, spec.argv(), &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.environ(),
		Files: fds,
		Sys:   &syscall.SysProcAttr{Setpgid: true, Credential: spec.user.credential()},
	})
	if err != nil {
		return nil, fmt.Errorf("exec: %w", err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return nil, err // never on Unix
	}
	if len(spec.Limits.CPUs) > 0 {
		t.addUnenforced(spec.Limits.cpusName(), errNoLimit)
	}
	if spec.Limits.Files > 0 {
		t.addUnenforced(spec.Limits.filesName(), errNoLimit)
	}
	h := &handle{
		pid: pid, tree: t, process: process, result: make(chan *os.ProcessState, 1), stop: make(chan struct{}),
	}
	go func() {
		state, _ := process.Wait() // on error the state is nil: unknown
		h.result <- state
	}()
	return h, nil
}

// await returns true when the child has ended, false after interrupt.
func (h *handle) await() bool {
	select {
	case h.state = <-h.result:
		return true
	case <-h.stop:
		return false
	}
}

// interrupt makes await return.
func (h *handle) interrupt() { h.once.Do(func() { close(h.stop) }) }

// reap kills what is left of the group and returns the status.
func (h *handle) reap() (status syscall.WaitStatus, known bool) {
	_ = unix.Kill(-h.pid, unix.SIGKILL) // ESRCH: none left
	if h.state == nil {
		return 0, false
	}
	status, known = h.state.Sys().(syscall.WaitStatus)
	return status, known
}

// signal sends a signal to the leader. os.Process knows a reaped one.
func (h *handle) signal(sig syscall.Signal) error { return ignoreGone(h.process.Signal(sig)) }

// killAll kills the group, and the leader itself in case it has left the group.
func (h *handle) killAll() error {
	return errors.Join(ignoreGone(unix.Kill(-h.pid, unix.SIGKILL)), h.signal(unix.SIGKILL))
}

func (h *handle) close() {}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// orphans are adopted on Linux only.
type orphans struct{}

func adoptOrphans(string, zerolog.Logger) *orphans { return nil }

func (o *orphans) stop()                               {}
func (o *orphans) forkChild(_ *Spec, start func() int) { start() }
func (o *orphans) reap(string, time.Duration) bool     { return true }

func bootID() string { return "" }

// BootClock works on Linux only.
func BootClock() (boot string, now time.Duration) { return "", 0 }
func openRecorded(Record) (*handle, error)        { return nil, errors.ErrUnsupported }

// UsableCPUs refuses CPUs and NUMA nodes: only Linux binds processes to them.
func UsableCPUs(cpus, nodes []int) ([]int, error) {
	if len(cpus)+len(nodes) == 0 {
		return nil, nil
	}
	return nil, fmt.Errorf("CPUs %v and NUMA nodes %v: want none: only Linux binds processes to CPUs", cpus,
		nodes)
}

// KillLeftovers finds nothing, because there are no cgroups.
func (l *Launcher) KillLeftovers() ([]cgroup.Leftover, error) { return nil, nil }
