package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// BootClock says which boot of the machine this is, and how long it has run: a clock that nobody sets, and
// that processes share. Where there is none, boot is "".
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

// procStat returns the fields of /proc/PID/stat from the third on. The second,
// the name, may hold anything, and ends with the last parenthesis.
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

// startTicks is when a process started, in clock ticks since boot.
func startTicks(pid int) (uint64, error) {
	fields, err := procStat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[19], 10, 64) // field 22
}

// find opens the process of a record. The pidfd is opened first: once the start
// time is right, it is this process that we hold.
func find(r Record) (*handle, error) {
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
	h := &handle{pid: r.PID, ticks: r.Ticks, pidfd: pidfd, adopted: !isOurs(fd), tree: &tree{
		unified: r.Cgroup, legacy: r.Legacy, oom: r.OOM, memory: r.Memory, missing: r.Unenforced,
	}}
	if err := h.verify(r, fd); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *handle) verify(r Record, fd int) error {
	ticks, err := startTicks(r.PID)
	switch {
	case err != nil || hasEnded(fd):
		return ErrGone
	case ticks != r.Ticks:
		return fmt.Errorf("%w: it started at tick %d, the record says %d", ErrNotSame, ticks, r.Ticks)
	}
	for _, dir := range append([]string{r.Cgroup}, r.Legacy...) {
		if dir != "" && !isOfDen(dir) {
			return fmt.Errorf("%w: %s is no cgroup of a launcher", ErrNotSame, dir)
		}
	}
	if r.Cgroup != "" && !isIn(r.PID, r.Cgroup) {
		return fmt.Errorf("%w: it is not in %s", ErrNotSame, r.Cgroup)
	}
	return nil
}

// isOfDen says that a directory is one that a launcher made for a kept child:
// nothing else is ever killed or removed because a record says so.
func isOfDen(dir string) bool {
	return strings.HasPrefix(filepath.Base(filepath.Dir(dir)), denPrefix) && strings.HasPrefix(filepath.Base(dir), keptPrefix)
}

// isIn says that a process is in a child's cgroup, or in one below it. The name
// of a den is unique, so that the paths need not be compared from their roots.
func isIn(pid int, dir string) bool {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(data)) {
		if place, ok := strings.CutPrefix(strings.TrimSpace(line)+"/", "0::"); ok {
			return strings.Contains(place, "/"+filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir)+"/")
		}
	}
	return false
}

// isOurs says that a process is a child of this one after all, so that its
// status is for us to take.
func isOurs(pidfd int) bool {
	return unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil) != unix.ECHILD
}

// pastStatusWait bounds the moment in which nobody knows how a process ended.
const pastStatusWait = time.Second

// pastStatus finds out how a process ended that somebody else reaps: from its
// entry in /proc as long as it is a zombie, from the pidfd afterwards (Linux
// 6.15). In between, for a moment, neither knows.
func (h *handle) pastStatus() (status syscall.WaitStatus, known bool) {
	for deadline := time.Now().Add(pastStatusWait); ; time.Sleep(retryEvery) {
		if status, known = h.zombieStatus(); known {
			return status, known
		}
		info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		err := h.control(func(fd int) error { return unix.IoctlPidfdInfo(fd, &info) })
		if err == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0 {
			return syscall.WaitStatus(info.Exit_code), true
		}
		if err != nil || time.Now().After(deadline) {
			return 0, false
		}
	}
}

// zombieStatus reads field 52, which the kernel shows to who may trace the
// process, as who launched it may.
func (h *handle) zombieStatus() (status syscall.WaitStatus, known bool) {
	const state, start, exitCode = 0, 19, 49
	fields, err := procStat(h.pid)
	if err != nil || len(fields) <= exitCode || fields[state] != "Z" || fields[start] != strconv.FormatUint(h.ticks, 10) {
		return 0, false
	}
	code, err := strconv.ParseUint(fields[exitCode], 10, 32)
	return syscall.WaitStatus(code), err == nil
}
