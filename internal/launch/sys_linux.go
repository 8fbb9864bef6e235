package launch

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/failpoint"
)

// A handle is the kernel's side of one child. On Linux it is a pidfd in Go's
// network poller, so that waiting for a thousand children costs no thread.
type handle struct {
	pid     int
	ticks   uint64 // when it started, in clock ticks since boot
	pidfd   *os.File
	tree    *tree
	adopted bool // somebody else reaps it
}

// start forks and executes. It must run on the spawner's thread (LCH-1).
func start(spec *Spec, fds []uintptr, t *tree) (*handle, error) {
	hideDescriptors()
	pidfd := -1
	sys := &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: spec.deathSignal, PidFD: &pidfd, Ptrace: t.stopped(&spec.Limits),
	}
	if t.unified != "" {
		dir, err := os.Open(t.unified)
		if err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		defer dir.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
	}
	pid, err := fork(spec, fds, sys)
	if errors.Is(err, unix.EAGAIN) {
		return nil, fmt.Errorf("fork: the user, the cgroup or the machine has all the processes it may have: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("exec: %w", err)
	}
	failpoint.Hit("launch-forked")
	h := &handle{pid: pid, tree: t}
	h.ticks, _ = startTicks(pid) // it is unreaped, so there is something to read
	h.pidfd, err = pollable(pidfd)
	if err == nil {
		err = t.settle(pid, spec, sys)
	}
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		h.reap()
		h.close()
		return nil, err
	}
	return h, nil
}

// fork goes without what a sandbox may forbid: clone3, which alone can fork
// into a cgroup, and ptrace.
func fork(spec *Spec, fds []uintptr, sys *syscall.SysProcAttr) (pid int, err error) {
	if failpoint.Refused("launch-fork") {
		return 0, syscall.EAGAIN
	}
	attr := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.environ(), Files: fds, Sys: sys}
	argv := append([]string{spec.Path}, spec.Args...)
	pid, err = syscall.ForkExec(spec.Path, argv, attr)
	if err == syscall.ENOSYS && sys.UseCgroupFD {
		sys.UseCgroupFD = false
		pid, err = syscall.ForkExec(spec.Path, argv, attr)
	}
	if err == syscall.EPERM && sys.Ptrace {
		sys.Ptrace = false
		pid, err = syscall.ForkExec(spec.Path, argv, attr)
	}
	if err == syscall.EBADF { // all of ours are open: the new process had no number left to move them to
		err = syscall.EMFILE
	}
	return pid, err
}

// settle puts a new process where it belongs: before its first instruction if
// it is a tracee, else as soon as can be.
func (t *tree) settle(pid int, spec *Spec, sys *syscall.SysProcAttr) error {
	if t.unified != "" && !sys.UseCgroupFD {
		if err := t.join(pid); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	if sys.Ptrace {
		return t.hold(pid, &spec.Limits)
	}
	if t.stopped(&spec.Limits) {
		t.apply(pid, &spec.Limits)
		t.unenforced("limits", errors.New("in force only from a moment after the start: ptrace is not permitted"))
	}
	return nil
}

// hideDescriptors marks all this process has open as close-on-exec. Go opens
// nothing else, but our own parent or a C library may have been careless, and a
// host's descriptors are not for its procs. Before Linux 5.11 there is no such
// call, and what was left inheritable is inherited.
func hideDescriptors() {
	_ = unix.CloseRange(stderrFD+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

func pollable(pidfd int) (*os.File, error) {
	if pidfd < 0 {
		return nil, fmt.Errorf("waiting by pidfd (Linux 5.4 or later): %w", errors.ErrUnsupported)
	}
	if err := unix.SetNonblock(pidfd, true); err != nil {
		_ = unix.Close(pidfd)
		return nil, err
	}
	f := os.NewFile(uintptr(pidfd), "pidfd")
	// A file that cannot have a deadline is not in the poller.
	if err := f.SetDeadline(time.Time{}); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("waiting by pidfd (Linux 5.4 or later): %w", err)
	}
	return f, nil
}

// await returns true when the child has ended; unless it is adopted it stays a
// zombie, so its number and its group's stay taken. It returns false after
// interrupt.
func (h *handle) await() bool {
	conn, err := h.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	return conn.Read(func(fd uintptr) bool { return hasEnded(int(fd)) }) == nil
}

func hasEnded(pidfd int) bool {
	for {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// interrupt makes await return.
func (h *handle) interrupt() { _ = h.pidfd.SetReadDeadline(time.Unix(1, 0)) }

// reap kills what is left of the tree, its group while the zombie leader still
// pins the number (LCH-4), then takes exactly this child's status. It does not
// block after await. If somebody else has taken the status it says so.
func (h *handle) reap() (status syscall.WaitStatus, known bool) {
	_ = h.tree.kill()
	if h.adopted {
		_ = h.killGroup()
		return h.pastStatus()
	}
	if err := unix.Waitid(unix.P_PID, h.pid, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil); err == unix.ECHILD {
		return 0, false
	}
	_ = h.killGroup()
	failpoint.Hit("launch-tree-killed")
	for {
		_, err := syscall.Wait4(h.pid, &status, 0, nil)
		if err != syscall.EINTR {
			return status, err == nil
		}
	}
}

// signal sends to this very process, whatever became of its number (LCH-5).
func (h *handle) signal(sig syscall.Signal) error {
	return h.control(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
}

// killAll kills the tree: by cgroup, then its group, then the leader by itself,
// as it may have moved to another of both.
func (h *handle) killAll() error {
	return errors.Join(h.tree.kill(), h.killGroup(), h.signal(unix.SIGKILL))
}

// killGroup may go by number as long as the leader is not reaped. Whether an
// adopted one is, only the kernel can tell in the same breath (Linux 6.9).
func (h *handle) killGroup() error {
	if !h.adopted {
		return ignoreGone(unix.Kill(-h.pid, unix.SIGKILL))
	}
	err := h.control(func(fd int) error {
		return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	})
	if errors.Is(err, unix.EINVAL) {
		return nil // an older kernel: its cgroup and the leader are what can be had
	}
	return err
}

// control calls fn with the pidfd.
func (h *handle) control(fn func(fd int) error) (err error) {
	conn, err := h.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	if closed := conn.Control(func(fd uintptr) { err = fn(int(fd)) }); closed != nil {
		return closed
	}
	return ignoreGone(err)
}

func (h *handle) close() {
	if h.pidfd != nil {
		_ = h.pidfd.Close()
	}
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
