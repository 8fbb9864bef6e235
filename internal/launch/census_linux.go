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
// nobody adopted. So adopt first. What cannot be ended
// or removed is in the error; a census may be repeated.
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
			lock, err := lockDir(path)
			if err != nil {
				continue // its launcher lives, or it is gone
			}
			found, err := l.endDen(path, ours)
			left, errs = append(left, found...), append(errs, err)
			(&den{path, lock}).close()
		}
	}
	return append(left, l.endKept()...), errors.Join(errs...)
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
func (l *Launcher) endKept() (left []Leftover) {
	if l.stateDir == "" {
		return nil
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
		if holder, err := openHolder(path); err == nil {
			_ = holder.Close()
			if n := killReaders(path, l.killWait); n > 0 {
				left = append(left, Leftover{Name: strings.TrimSuffix(filepath.Base(path), lifelineSuffix), Processes: n})
			}
		} else if !errors.Is(err, unix.ENXIO) {
			continue
		}
		_ = os.Remove(path)
	}
	return left
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
