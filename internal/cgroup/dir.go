package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// unifiedKey stands for cgroup v2 among the controllers of v1.
const unifiedKey = ""

// ownCgroups returns this process's directory in every visible cgroup hierarchy, by controller,
// with unifiedKey for v2. The arguments are the texts of /proc/self/cgroup and
// /proc/self/mountinfo.
func ownCgroups(membership, mountinfo string) map[string]string {
	places := make(map[string]string) // controller to path within the hierarchy
	for line := range strings.Lines(membership) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) == 3 {
			for controller := range strings.SplitSeq(fields[1], ",") {
				places[controller] = fields[2]
			}
		}
	}
	own := make(map[string]string)
	for line := range strings.Lines(mountinfo) {
		head, tail, found := strings.Cut(line, " - ")
		mount, kind := strings.Fields(head), strings.Fields(tail)
		if !found || len(mount) < 5 || len(kind) < 3 {
			continue
		}
		var controllers []string
		switch kind[0] {
		case "cgroup2":
			controllers = []string{unifiedKey}
		case "cgroup":
			controllers = strings.Split(kind[2], ",")
		}
		for _, controller := range controllers {
			place, ok := places[controller]
			if dir := mountedPath(mount[4], mount[3], place); ok && dir != "" {
				own[controller] = dir
			}
		}
	}
	return own
}

// mountedPath returns the path of a hierarchy's place if its directory root is mounted at mount, or
// "" outside of it.
func mountedPath(mount, root, place string) string {
	root = strings.TrimSuffix(root, "/")
	if place != root && !strings.HasPrefix(place, root+"/") {
		return ""
	}
	return filepath.Join(mount, strings.TrimPrefix(place, root))
}

// managerDir is a manager's own directory in one hierarchy, with its lock. The lock lasts as long
// as the manager, so KillLeftovers recognizes the directories of dead managers. Only the holder of
// the lock removes the directory.
type managerDir struct {
	path string
	lock *os.File
}

// lockTimeout bounds the wait for locks that others hold briefly: another KillLeftovers, or a
// forked child before its exec.
const lockTimeout = time.Second

// createManagerDir retries if KillLeftovers takes the new directory for an old one: KillLeftovers
// locks the directory first, and removes it.
func createManagerDir(base, name string) (*managerDir, error) {
	if _, err := os.Stat(base); err != nil {
		return nil, err
	}
	path := filepath.Join(base, name)
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(retryInterval) {
		if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		d, err := lockDir(path)
		taken := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK)
		if !taken || time.Now().After(deadline) {
			return d, err
		}
	}
}

// lockDir locks the directory that has this path. A removed directory can be locked, while its
// manager has already made the next one: then the error is fs.ErrNotExist.
func lockDir(path string) (*managerDir, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	locked, err := f.Stat()
	named, err2 := os.Stat(path)
	if err != nil || err2 != nil || !os.SameFile(locked, named) {
		_ = f.Close()
		return nil, &fs.PathError{Op: "lock", Path: path, Err: fs.ErrNotExist}
	}
	return &managerDir{path, f}, nil
}

// close removes the directory, unless it holds a kept group.
func (d *managerDir) close() {
	_ = os.Remove(d.path)
	_ = d.lock.Close()
}

// enableControllers enables controllers for the children of dir and returns the enabled ones.
func enableControllers(dir string, controllers ...string) (enabled []string) {
	offered := readFields(filepath.Join(dir, "cgroup.controllers"))
	for _, c := range controllers {
		if slices.Contains(offered, c) && writeFile(dir, "cgroup.subtree_control", "+"+c) == nil {
			enabled = append(enabled, c)
		}
	}
	return enabled
}
