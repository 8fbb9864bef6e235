package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/cgroup"
)

// KillLeftovers kills what earlier launchers left behind, so call it after Adopt. It kills and
// removes the cgroups of dead launchers' children. It spares adopted children and those of other
// state directories. It also kills unadopted kept children of its own StateDir.
//
// A launcher without a state directory leaves the children of launchers with one alone. Failures
// are in the error. The call may be repeated.
func (l *Launcher) KillLeftovers() ([]cgroup.Leftover, error) {
	if err := l.beginLaunch(); err != nil {
		return nil, err
	}
	defer l.launching.Done()
	var groups []cgroup.Group
	lifelines := make(map[string]bool)
	for _, c := range l.snapshot() {
		groups = append(groups, c.handle.tree.Group)
		lifelines[c.lifelinePath] = true
	}
	left, err := l.cgroups.KillLeftovers(groups, l.killWait)
	found, err2 := l.killUnadopted(lifelines)
	return append(left, found...), errors.Join(err, err2)
}

// killUnadopted removes the lifelines of ended kept children, and kills the readers of the others.
// Without cgroups only a lifeline reveals a child whose launcher died before the record.
func (l *Launcher) killUnadopted(ours map[string]bool) (left []cgroup.Leftover, err error) {
	if l.stateDir == "" {
		return nil, nil
	}
	paths, _ := filepath.Glob(filepath.Join(l.stateDir, "*"+lifelineSuffix))
	for _, path := range paths {
		if ours[path] {
			continue
		}
		n, alone := killAllReaders(path, l.killWait)
		if n > 0 {
			name := strings.TrimSuffix(filepath.Base(path), lifelineSuffix)
			left = append(left, cgroup.Leftover{Name: name, Processes: n})
		}
		if alone != nil {
			err = errors.Join(err, alone)
			continue
		}
		_ = os.Remove(path)
	}
	return left, err
}

// killAllReaders kills the readers of a lifeline until the kernel reports none. One scan of /proc
// misses processes forked during it.
func killAllReaders(path string, patience time.Duration) (n int, err error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(retryInterval) {
		holder, err := openLifelineWriter(path)
		if errors.Is(err, unix.ENXIO) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		_ = holder.Close()
		if time.Now().After(deadline) {
			return n, errors.New("cannot kill the reader of " + path)
		}
		n += killReaders(path, patience)
	}
}

// killReaders kills the processes with an open FIFO, with their groups.
func killReaders(path string, patience time.Duration) (n int) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if target, _ := os.Readlink(link); err != nil || target != path || pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if target, _ := os.Readlink(link); target == path { // checked again: the pidfd is that process
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			awaitPidfd(fd, patience)
			n++
		}
		_ = unix.Close(fd)
	}
	return n
}
