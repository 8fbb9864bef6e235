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

// Census ends what earlier launchers left: it kills and removes the cgroups of
// children whose launcher is dead, except those adopted here and those kept for
// launchers with another state directory; and kept children of this one that
// nobody adopted. So adopt first. A launcher without a state directory leaves
// alone what those with one have left: the next one there is to tell of it. What
// cannot be ended or removed is in the error; a census may be repeated.
func (l *Launcher) Census() (left []Leftover, err error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.launching.Done()
	ours := make(map[string]bool)
	for _, c := range l.snapshot() {
		for _, dir := range append([]string{c.h.tree.unified}, c.h.tree.legacy...) {
			ours[dir] = true
		}
	}
	var errs []error
	for _, base := range l.groups.own { // the same directory twice is no harm
		dens, _ := filepath.Glob(filepath.Join(base, denPrefix+"*"))
		for _, path := range dens {
			mine := strings.HasPrefix(filepath.Base(path), owner(l.stateDir))
			if filepath.Base(path) == l.groups.name || (l.stateDir == "" && !mine) {
				continue
			}
			lock, err := l.lockDead(path, mine && l.stateDir != "")
			if err != nil {
				continue // its launcher lives, or it is gone
			}
			found, err := l.endDen(path, ours)
			left, errs = append(left, found...), append(errs, err)
			(&den{path, lock}).close()
		}
	}
	found, err := l.endKept()
	return append(left, found...), errors.Join(append(errs, err)...)
}

// aMoment bounds the wait for what others have for a moment: a census a den, a
// process in the midst of an exec what its launcher had.
const aMoment = time.Second

// lockDead locks the den of a dead launcher. That of one which surely is, as its
// state directory is ours now, may still be held for a moment by a child that
// it had forked and that has not executed its program: until then the child has
// all that the launcher had open.
func (l *Launcher) lockDead(path string, surely bool) (lock *os.File, err error) {
	for deadline := time.Now().Add(aMoment); ; time.Sleep(retryEvery) {
		lock, err = lockDir(path)
		if !surely || !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return lock, err
		}
	}
}

// endDen ends the trees in a dead launcher's den.
func (l *Launcher) endDen(path string, ours map[string]bool) (left []Leftover, err error) {
	mine := strings.HasPrefix(filepath.Base(path), owner(l.stateDir))
	dirs, _ := filepath.Glob(filepath.Join(path, "*.*"))
	var errs []error
	for _, dir := range dirs {
		name, kept := strings.CutPrefix(filepath.Base(dir), keptPrefix)
		name = strings.TrimPrefix(name, stopPrefix)
		if i := strings.LastIndexByte(name, '.'); i > 0 {
			name = name[:i]
		}
		_, noGroup := os.Stat(filepath.Join(dir, "cgroup.type"))
		switch {
		case ours[dir] || (kept && !mine) || !isGroup(dir):
			continue
		case noGroup != nil: // v1 only limits
			errs = append(errs, (&tree{legacy: []string{dir}}).clear(l.killWait))
			continue
		}
		t := &tree{unified: dir}
		left = append(left, Leftover{Name: name, Processes: processes(dir)})
		if !t.end(l.killWait) {
			errs = append(errs, errors.New("processes of "+dir+" survive SIGKILL"))
		}
		failpoint.Hit("census-killed")
		errs = append(errs, t.clear(l.killWait))
	}
	return left, errors.Join(errs...)
}

// isGroup tells a cgroup directory from the files beside it.
func isGroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
}

// processes counts those of a cgroup and of the cgroups below it.
func processes(dir string) int {
	n := len(words(filepath.Join(dir, "cgroup.procs")))
	below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	for _, file := range below {
		n += processes(filepath.Dir(file))
	}
	return n
}

// endKept removes the lifelines of kept children that have ended, and kills
// those that read one and were not adopted: with no cgroup it is all that tells
// of one whose launcher died before it wrote a record.
func (l *Launcher) endKept() (left []Leftover, err error) {
	if l.stateDir == "" {
		return nil, nil
	}
	ours := make(map[string]bool)
	for _, c := range l.snapshot() {
		ours[c.fifo] = true
	}
	paths, _ := filepath.Glob(filepath.Join(l.stateDir, "*"+lifelineSuffix))
	for _, path := range paths {
		if ours[path] {
			continue
		}
		n, alone := endReaders(path, l.killWait)
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

// endReaders kills the processes that read a lifeline until there is none, which
// the kernel knows: a look at /proc misses who is forked while it lasts.
func endReaders(path string, patience time.Duration) (n int, err error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(retryEvery) {
		holder, err := openHolder(path)
		switch {
		case errors.Is(err, unix.ENXIO):
			return n, nil
		case err != nil:
			return n, err
		}
		_ = holder.Close()
		if time.Now().After(deadline) {
			return n, errors.New("who reads " + path + " cannot be ended")
		}
		n += killReaders(path, patience)
	}
}

// killReaders kills the processes that have a FIFO open, with their groups.
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
		if target, _ := os.Readlink(link); target == path { // still: the pidfd is that process
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			awaitPidfd(fd, patience)
			n++
		}
		_ = unix.Close(fd)
	}
	return n
}
