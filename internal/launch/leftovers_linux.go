package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/failpoint"
)

// KillLeftovers kills what earlier launchers left behind, so call it after Adopt. It kills and
// removes the cgroups of dead launchers' children. It spares adopted children and those of other
// state directories. It also kills unadopted kept children of its own StateDir.
//
// A launcher without a state directory leaves the children of launchers with one alone. Failures
// are in the error. The call may be repeated.
func (l *Launcher) KillLeftovers() (left []Leftover, err error) {
	if err := l.beginLaunch(); err != nil {
		return nil, err
	}
	defer l.launching.Done()
	ours := make(map[string]bool)
	for _, c := range l.snapshot() {
		for _, dir := range append([]string{c.handle.tree.unified}, c.handle.tree.legacy...) {
			ours[dir] = true
		}
	}
	var errs []error
	for _, base := range l.cgroups.ownDirs { // a duplicate is harmless
		dens, _ := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
		for _, path := range dens {
			mine := strings.HasPrefix(filepath.Base(path), namePrefix(l.stateDir))
			if filepath.Base(path) == l.cgroups.name || (l.stateDir == "" && !mine) {
				continue
			}
			lock, err := l.lockDeadDir(path, mine && l.stateDir != "")
			if err != nil {
				continue // its launcher lives, or the directory is gone
			}
			found, err := l.killDirLeftovers(path, ours)
			left, errs = append(left, found...), append(errs, err)
			(&cgroupDir{path, lock}).close()
		}
	}
	found, err := l.killUnadopted()
	return append(left, found...), errors.Join(append(errs, err)...)
}

// contentionTimeout bounds the wait for locks that others hold briefly: another KillLeftovers, or a
// forked child before its exec.
const contentionTimeout = time.Second

// lockDeadDir locks the directory of a dead launcher. surely marks one known to be dead, because
// its state directory is ours. A forked child holds such a lock until its exec, so lockDeadDir
// waits.
func (l *Launcher) lockDeadDir(path string, surely bool) (lock *os.File, err error) {
	for deadline := time.Now().Add(contentionTimeout); ; time.Sleep(retryInterval) {
		lock, err = lockDir(path)
		if !surely || !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return lock, err
		}
	}
}

// killDirLeftovers ends the trees in a dead launcher's directory.
func (l *Launcher) killDirLeftovers(path string, ours map[string]bool) (left []Leftover, err error) {
	mine := strings.HasPrefix(filepath.Base(path), namePrefix(l.stateDir))
	dirs, _ := filepath.Glob(filepath.Join(path, "*.*"))
	var errs []error
	for _, dir := range dirs {
		name, kept := strings.CutPrefix(filepath.Base(dir), keptPrefix)
		name = strings.TrimPrefix(name, stopPrefix)
		if i := strings.LastIndexByte(name, '.'); i > 0 {
			name = name[:i]
		}
		_, noGroup := os.Stat(filepath.Join(dir, "cgroup.type"))
		if ours[dir] || (kept && !mine) || !isCgroup(dir) {
			continue
		}
		if noGroup != nil { // v1 cgroups only limit
			errs = append(errs, (&tree{legacy: []string{dir}}).removeWithRetry(l.killWait))
			continue
		}
		t := &tree{unified: dir}
		left = append(left, Leftover{Name: name, Processes: countProcesses(dir)})
		if !t.killAndWait(l.killWait) {
			errs = append(errs, errors.New("processes of "+dir+" survive SIGKILL"))
		}
		failpoint.Hit("census-killed")
		errs = append(errs, t.removeWithRetry(l.killWait))
	}
	return left, errors.Join(errs...)
}

// isCgroup distinguishes a cgroup directory from the files beside it.
func isCgroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
}

// countProcesses counts the processes of a cgroup and of those below it.
func countProcesses(dir string) int {
	n := len(readFields(filepath.Join(dir, "cgroup.procs")))
	below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	for _, file := range below {
		n += countProcesses(filepath.Dir(file))
	}
	return n
}

// killUnadopted removes the lifelines of ended kept children, and kills the readers of the others.
// Without cgroups only a lifeline reveals a child whose launcher died before the record.
func (l *Launcher) killUnadopted() (left []Leftover, err error) {
	if l.stateDir == "" {
		return nil, nil
	}
	ours := make(map[string]bool)
	for _, c := range l.snapshot() {
		ours[c.lifelinePath] = true
	}
	paths, _ := filepath.Glob(filepath.Join(l.stateDir, "*"+lifelineSuffix))
	for _, path := range paths {
		if ours[path] {
			continue
		}
		n, alone := killAllReaders(path, l.killWait)
		if n > 0 {
			left = append(left, Leftover{Name: strings.TrimSuffix(filepath.Base(path), lifelineSuffix), Processes: n})
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
