package launch

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A handle is the kernel's side of one child. On Linux it is a pidfd in Go's
// network poller, so that waiting for a thousand children costs no thread.
// signal, killAll and reap must not run at the same time (Child.mu).
type handle struct {
	pid   int
	pidfd *os.File
}

// start forks and executes. It must run on the spawner's thread (LCH-1).
func start(spec *Spec, fds []uintptr) (*handle, error) {
	hideDescriptors()
	pidfd := -1
	pid, err := syscall.ForkExec(spec.Path, append([]string{spec.Path}, spec.Args...), &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.environ(),
		Files: fds,
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd},
	})
	if err != nil {
		return nil, fmt.Errorf("exec: %w", err)
	}
	h := &handle{pid: pid}
	if h.pidfd, err = pollable(pidfd); err != nil {
		_ = h.killAll()
		h.reap()
		return nil, fmt.Errorf("waiting by pidfd (Linux 5.4 or later): %w", err)
	}
	return h, nil
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
		return nil, errors.ErrUnsupported
	}
	if err := unix.SetNonblock(pidfd, true); err != nil {
		_ = unix.Close(pidfd)
		return nil, err
	}
	f := os.NewFile(uintptr(pidfd), "pidfd")
	// A file that cannot have a deadline is not in the poller.
	if err := f.SetDeadline(time.Time{}); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// await returns true when the child has ended; it stays a zombie, so its number
// and its group's stay taken. It returns false after interrupt.
func (h *handle) await() bool {
	conn, err := h.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Read(func(fd uintptr) bool {
		for {
			err := unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOWAIT, nil)
			if err != unix.EINTR {
				return err != unix.EAGAIN // still running
			}
		}
	})
	return err == nil
}

// interrupt makes await return.
func (h *handle) interrupt() { _ = h.pidfd.SetReadDeadline(time.Unix(1, 0)) }

// reap kills what is left of the group while the zombie leader still pins its
// number (LCH-4), then takes exactly this child's status. It does not block
// after await. If somebody else has taken the status it says so.
func (h *handle) reap() (status syscall.WaitStatus, known bool) {
	if err := unix.Waitid(unix.P_PID, h.pid, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil); err == unix.ECHILD {
		return 0, false
	}
	_ = unix.Kill(-h.pid, unix.SIGKILL) // ESRCH: nobody is left
	for {
		_, err := syscall.Wait4(h.pid, &status, 0, nil)
		if err != syscall.EINTR {
			return status, err == nil
		}
	}
}

// signal sends to the leader, which is unreaped and so still ours (LCH-5).
func (h *handle) signal(sig syscall.Signal) error { return ignoreGone(unix.Kill(h.pid, sig)) }

// killAll kills the group, and the leader by its own number too: it may have
// moved to another group.
func (h *handle) killAll() error {
	return errors.Join(ignoreGone(unix.Kill(-h.pid, unix.SIGKILL)), h.signal(unix.SIGKILL))
}

func (h *handle) close() { _ = h.pidfd.Close() }

func ignoreGone(err error) error {
	if err == unix.ESRCH {
		return nil
	}
	return err
}
