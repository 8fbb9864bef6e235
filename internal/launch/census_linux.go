package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/castnet-io/castnet/internal/failpoint"
)

// Census ends what earlier launchers left: it kills and removes the cgroups of
// children whose launcher is dead, except those adopted here and those kept for
// launchers with another state directory. So adopt first. What cannot be ended
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
	l.dropLifelines()
	return left, errors.Join(errs...)
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
		errs = append(errs, t.kill())
		failpoint.Hit("census-killed")
		if !t.empty(l.killWait) {
			errs = append(errs, errors.New("processes of "+dir+" survive SIGKILL"))
		}
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

// dropLifelines removes the FIFOs of kept children that have ended.
func (l *Launcher) dropLifelines() {
	if l.stateDir == "" {
		return
	}
	paths, _ := filepath.Glob(filepath.Join(l.stateDir, "*"+lifelineSuffix))
	for _, path := range paths {
		holder, err := openHolder(path)
		if err == nil {
			_ = holder.Close()
		} else if errors.Is(err, unix.ENXIO) {
			_ = os.Remove(path)
		}
	}
}
