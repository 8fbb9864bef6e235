package launch

import (
	"errors"
	"fmt"
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

// ownCgroups finds this process's directory in every cgroup hierarchy it can
// see: controller to directory, unifiedKey for v2. Its arguments are the texts
// of /proc/self/cgroup and /proc/self/mountinfo.
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
			if dir := within(mount[4], mount[3], place); ok && dir != "" {
				own[controller] = dir
			}
		}
	}
	return own
}

// within is where place of a hierarchy is seen when its directory root is
// mounted at mount; "" if it lies outside.
func within(mount, root, place string) string {
	if root = strings.TrimSuffix(root, "/"); place != root && !strings.HasPrefix(place, root+"/") {
		return ""
	}
	return filepath.Join(mount, strings.TrimPrefix(place, root))
}

// A den is a launcher's own directory in one hierarchy. It is locked while its
// launcher lives, which is how a census tells who is dead.
type den struct {
	path string
	lock *os.File
}

// makeDen tries again when a census took the new directory for an old one.
func makeDen(base, name string) (d *den, err error) {
	if _, err := os.Stat(base); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(aMoment); ; time.Sleep(retryEvery) {
		d, err = tryDen(filepath.Join(base, name))
		taken := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK)
		if !taken || time.Now().After(deadline) {
			return d, err
		}
	}
}

func tryDen(path string) (*den, error) {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	lock, err := lockDir(path)
	if err == nil {
		if _, err = os.Stat(path); err == nil {
			return &den{path, lock}, nil
		}
		_ = lock.Close()
	}
	_ = os.Remove(path)
	return nil, err
}

func lockDir(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// close removes the directory, unless a kept child lives in it.
func (d *den) close() {
	_ = os.Remove(d.path)
	_ = d.lock.Close()
}

// enable makes controllers available to the children of dir and returns those
// that are.
func enable(dir string, controllers ...string) (enabled []string) {
	offered := words(filepath.Join(dir, "cgroup.controllers"))
	for _, c := range controllers {
		if slices.Contains(offered, c) && put(dir, "cgroup.subtree_control", "+"+c) == nil {
			enabled = append(enabled, c)
		}
	}
	return enabled
}

func words(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// put writes a cgroup file, which must exist.
func put(dir, file, value string) error {
	path := filepath.Join(dir, file)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%q: %w", value, err)
	}
	return nil
}

// counter reads the number after key in a file of "key number" lines.
func counter(path, key string) int64 {
	data, _ := os.ReadFile(path) // unreadable is zero
	return valueOf(string(data), key)
}

func valueOf(text, key string) (n int64) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key+" "); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
}
