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

// handle is the kernel's side of a child. On Linux it is a pidfd in Go's network poller, so waiting
// for a thousand children takes no thread.
type handle struct {
	pid     int
	ticks   uint64 // start time in clock ticks since boot
	pidfd   *os.File
	tree    *tree
	adopted bool // another process reaps it
}

// start forks and executes. It must run on the spawner's thread (LCH-1).
func start(spec *Spec, fds []uintptr, t *tree) (*handle, error) {
	hideDescriptors()
	if err := forbidNewPrivileges(); err != nil {
		return nil, err
	}
	pidfd := -1
	sys := &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: spec.deathSignal, PidFD: &pidfd, Ptrace: t.needsStoppedStart(spec),
		Credential: spec.user.credential(),
	}
	if t.Dir != "" {
		dir, err := os.Open(t.Dir)
		if err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		defer dir.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
	}
	pid, err := fork(spec, fds, sys)
	if errors.Is(err, unix.EAGAIN) {
		return nil, fmt.Errorf("fork: the user, the cgroup or the machine is at its limit of processes: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("exec: %w", err)
	}
	failpoint.Hit("launch-forked")
	h := &handle{pid: pid, tree: t}
	h.ticks, _ = startTicks(pid) // unreaped, so /proc has it
	h.pidfd, err = pollable(pidfd)
	if err == nil {
		err = t.finishStart(pid, spec, sys)
	}
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		h.reap()
		h.close()
		return nil, err
	}
	return h, nil
}

// fork falls back to calls without clone3 and ptrace, in case a sandbox forbids them. Only clone3
// can fork into a cgroup.
func fork(spec *Spec, fds []uintptr, sys *syscall.SysProcAttr) (pid int, err error) {
	if failpoint.Refused("launch-fork") {
		return 0, syscall.EAGAIN
	}
	attr := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.environ(), Files: fds, Sys: sys}
	argv := spec.argv()
	pid, err = syscall.ForkExec(spec.Path, argv, attr)
	if err == syscall.ENOSYS && sys.UseCgroupFD {
		sys.UseCgroupFD = false
		pid, err = syscall.ForkExec(spec.Path, argv, attr)
	}
	if err == syscall.EPERM && sys.Ptrace {
		sys.Ptrace = false
		pid, err = syscall.ForkExec(spec.Path, argv, attr)
	}
	if err == syscall.EBADF { // our descriptors are open, so the new process had no free number for them
		err = syscall.EMFILE
	}
	return pid, err
}

// finishStart moves a new process into its cgroups and applies its limits: before its first
// instruction for a tracee, otherwise as soon as possible.
func (t *tree) finishStart(pid int, spec *Spec, sys *syscall.SysProcAttr) error {
	if t.Dir != "" && !sys.UseCgroupFD {
		if err := t.AddProcess(pid); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	if sys.Ptrace {
		return t.applyWhileStopped(pid, spec)
	}
	if !t.needsStoppedStart(spec) {
		return nil
	}
	t.addUnenforced("limits", errors.New("in force only after the start: ptrace is not permitted"))
	return t.apply(pid, spec)
}

// hideDescriptors marks all open descriptors as close-on-exec. Go does so itself, but a parent
// process or a C library may not. Procs must not inherit descriptors of a host. Before Linux 5.11
// this call does not exist, and such descriptors are inherited.
func hideDescriptors() {
	_ = unix.CloseRange(stderrFD+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

// forbidNewPrivileges makes all further children of this thread run without set-user-ID bits and
// file capabilities (LCH-10). A fork inherits the attribute from its thread, and the rest of this
// process does not have it.
func forbidNewPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot forbid new privileges: %w", err)
	}
	return nil
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
	// A file without deadlines is not in the poller.
	if err := f.SetDeadline(time.Time{}); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("waiting by pidfd (Linux 5.4 or later): %w", err)
	}
	return f, nil
}

// await returns true when the child has ended, or false after interrupt. An unadopted child stays a
// zombie, so its number and its group's number stay taken.
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

// reap kills the rest of the tree, then takes the child's exit status. The zombie leader pins the
// group number meanwhile (LCH-4). It does not block after await. known is false for a stolen
// status.
func (h *handle) reap() (status syscall.WaitStatus, known bool) {
	_ = h.tree.Kill()
	if h.adopted {
		_ = h.killGroup()
		return h.adoptedStatus()
	}
	err := unix.Waitid(unix.P_PID, h.pid, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	if err == unix.ECHILD {
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

// signal sends a signal to this process, even if its number was reused (LCH-4).
func (h *handle) signal(sig syscall.Signal) error {
	return h.withPidfd(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
}

// killAll kills the tree by cgroup, by group, and the leader itself, in case it left both.
func (h *handle) killAll() error {
	return errors.Join(h.tree.Kill(), h.killGroup(), h.signal(unix.SIGKILL))
}

// killGroup kills the group by number, while the unreaped leader pins that number. For an adopted
// leader only the kernel can check both atomically (Linux 6.9).
func (h *handle) killGroup() error {
	if !h.adopted {
		return ignoreGone(unix.Kill(-h.pid, unix.SIGKILL))
	}
	err := h.withPidfd(func(fd int) error {
		return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	})
	if errors.Is(err, unix.EINVAL) {
		return nil // older kernels: only the cgroup and the leader can be killed
	}
	return err
}

// withPidfd calls fn with the pidfd.
func (h *handle) withPidfd(fn func(fd int) error) (err error) {
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

// needsStoppedStart reports whether some limit can only be set after the fork. The child is then
// held at its first instruction.
func (t *tree) needsStoppedStart(s *Spec) bool {
	return len(t.V1) > 0 || s.Limits.Files > 0 || len(s.Limits.CPUs) > 0 || s.process != (ProcessLimits{})
}

// apply sets the limits that need an existing process. Those of the launcher must be in force.
func (t *tree) apply(pid int, spec *Spec) error {
	if err := spec.process.apply(pid); err != nil {
		return err
	}
	l := &spec.Limits
	for _, err := range t.LimitProcess(pid) {
		t.unenforced = append(t.unenforced, err.Error())
	}
	if len(l.CPUs) > 0 {
		var set unix.CPUSet
		for _, cpu := range l.CPUs {
			set.Set(cpu)
		}
		if err := unix.SchedSetaffinity(pid, &set); err != nil {
			t.addUnenforced(l.cpusName(), err)
		}
	}
	if l.Files > 0 {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: l.Files, Max: l.Files}, nil); err != nil {
			t.addUnenforced(l.filesName(), err)
		}
	}
	return nil
}

// applyWhileStopped waits for the tracee to stop at its first instruction, applies the limits and
// detaches. It must run on the thread of the fork.
func (t *tree) applyWhileStopped(pid int, spec *Spec) error {
	for {
		// WNOWAIT: reap takes an exit before the stop.
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return fmt.Errorf("waiting for its first instruction: %w", err)
		}
	}
	if err := t.apply(pid, spec); err != nil {
		return err
	}
	if err := unix.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("letting it go: %w", err)
	}
	return nil
}
