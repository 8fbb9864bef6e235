package launch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// BootClock returns the machine's boot ID and the time since boot. All processes share this clock,
// and no user can set it. On systems without it, boot is "".
func BootClock() (boot string, now time.Duration) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return "", 0
	}
	return bootID(), time.Duration(ts.Nano())
}

func bootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

// procStat returns the fields of /proc/PID/stat from the third on. The second, the name, may hold
// any bytes and ends with the last parenthesis.
func procStat(pid int) ([]string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	return fields, nil
}

// startTicks returns the start time of a process in clock ticks since boot.
func startTicks(pid int) (uint64, error) {
	fields, err := procStat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[19], 10, 64) // field 22
}

// usage reads the fields 14, 15, 22 and 24.
func (h *handle) usage() (cpu time.Duration, memory int64) {
	const user, system, start, resident = 11, 12, 19, 21
	fields, err := procStat(h.pid)
	if err != nil || len(fields) <= resident || fields[start] != strconv.FormatUint(h.ticks, 10) {
		return 0, 0 // another process has the number of an adopted child
	}
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(fields[field], 10, 64) // the kernel writes numbers
		return n
	}
	return time.Duration(number(user)+number(system)) * clockTick, number(resident) * int64(os.Getpagesize())
}

// clockTick is the unit of times in /proc.
const clockTick = time.Second / 100

// openRecorded opens the process of a record. It opens the pidfd first, so a right start time
// proves that the pidfd is the recorded process.
func openRecorded(r Record) (*handle, error) {
	fd, err := unix.PidfdOpen(r.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd: %w", err)
	}
	pidfd, err := pollable(fd)
	if err != nil {
		return nil, err
	}
	h := &handle{
		pid: r.PID, ticks: r.Ticks, pidfd: pidfd, adopted: !isOwnChild(fd), tree: &tree{r.Group, r.Unenforced},
	}
	if err := h.verify(r, fd); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *handle) verify(r Record, fd int) error {
	ticks, err := startTicks(r.PID)
	if err != nil || hasEnded(fd) {
		return ErrGone
	}
	if ticks != r.Ticks {
		return fmt.Errorf("%w: it started at tick %d, the record says %d", ErrPIDReused, ticks, r.Ticks)
	}
	if err := h.tree.Adopt(r.PID); err != nil {
		return fmt.Errorf("%w: %w", ErrPIDReused, err)
	}
	return nil
}

// isOwnChild reports whether a process is a child of this one, with a status to reap.
func isOwnChild(pidfd int) bool {
	return unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil) != unix.ECHILD
}

// retryInterval is the poll interval for kernel states without an event.
const retryInterval = 10 * time.Millisecond

// adoptedStatusTimeout bounds the moment between zombie and pidfd status.
const adoptedStatusTimeout = time.Second

// adoptedStatus returns the exit status of a child reaped by another process. While it is a zombie,
// /proc has the status; afterwards the pidfd has it (Linux 6.15). Between them neither has,
// briefly.
func (h *handle) adoptedStatus() (status syscall.WaitStatus, known bool) {
	for deadline := time.Now().Add(adoptedStatusTimeout); ; time.Sleep(retryInterval) {
		status, known = h.zombieStatus()
		if known {
			return status, known
		}
		info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		err := h.withPidfd(func(fd int) error { return unix.IoctlPidfdInfo(fd, &info) })
		if err == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0 {
			return syscall.WaitStatus(info.Exit_code), true
		}
		if err != nil || time.Now().After(deadline) {
			return 0, false
		}
	}
}

// zombieStatus reads field 52. The kernel shows it to processes with the right to trace, such as
// the launching user's.
func (h *handle) zombieStatus() (status syscall.WaitStatus, known bool) {
	const state, start, exitCode = 0, 19, 49
	fields, err := procStat(h.pid)
	if err != nil || len(fields) <= exitCode || fields[state] != "Z" ||
		fields[start] != strconv.FormatUint(h.ticks, 10) {
		return 0, false
	}
	code, err := strconv.ParseUint(fields[exitCode], 10, 32)
	return syscall.WaitStatus(code), err == nil
}
