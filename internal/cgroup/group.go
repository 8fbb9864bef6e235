package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// retryInterval is the poll interval for kernel states without an event.
const retryInterval = 10 * time.Millisecond

// Group holds all processes of one child. The zero Group is none. It can be stored, for Adopt.
type Group struct {
	Dir     string   // in cgroup v2; "" = none, then V1 only limits
	V1      []string // in v1 hierarchies
	OOMFile string   // the file that counts out-of-memory kills
	Memory  int64    // the memory limit in force

	adopted bool // in the directory of a dead manager
}

func (g *Group) dirs() (all []string) {
	if g.Dir != "" {
		all = append(all, g.Dir)
	}
	return append(all, g.V1...)
}

// Adopt takes over the stored group of a process (CGR-1).
func (g *Group) Adopt(pid int) error {
	for _, dir := range g.dirs() {
		if !strings.HasPrefix(filepath.Base(filepath.Dir(dir)), dirPrefix) ||
			!strings.HasPrefix(filepath.Base(dir), keptPrefix) {
			return fmt.Errorf("%s is no cgroup of a launcher", dir)
		}
	}
	if g.Dir != "" && !isInCgroup(pid, g.Dir) {
		return fmt.Errorf("it is not in %s", g.Dir)
	}
	g.adopted = true
	return nil
}

// isInCgroup reports whether a process is in a group or below it. The manager's directory has a
// unique name, so full paths need no comparison.
func isInCgroup(pid int, dir string) bool {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(data)) {
		if place, ok := strings.CutPrefix(strings.TrimSpace(line)+"/", "0::"); ok {
			return strings.Contains(place, "/"+filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir)+"/")
		}
	}
	return false
}

// AddProcess moves a process into the group in v2, if it was not forked there.
func (g *Group) AddProcess(pid int) error { return writeFile(g.Dir, "cgroup.procs", strconv.Itoa(pid)) }

// LimitProcess moves a process into the directories in v1. Each error has its directory.
func (g *Group) LimitProcess(pid int) (errs []error) {
	for _, dir := range g.V1 {
		if err := writeFile(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return errs
}

// Kill kills every process of the group, even during a fork.
func (g *Group) Kill() error {
	if g.Dir == "" {
		return nil
	}
	return ignoreNoDir(writeFile(g.Dir, "cgroup.kill", "1"))
}

// KillAndWait kills the group and waits for its end, up to the timeout. It retries while this
// process lacks descriptors.
func (g *Group) KillAndWait(timeout time.Duration) bool {
	if g.Dir == "" {
		return true
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(retryInterval) {
		events, err := os.Open(filepath.Join(g.Dir, "cgroup.events"))
		if err == nil {
			err = g.Kill()
			ended := err == nil && awaitEmpty(events, deadline)
			_ = events.Close()
			if ended {
				return true
			}
		}
		if err != nil && ignoreNoDir(err) == nil {
			return true // a removed directory was empty
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// awaitEmpty waits until an open cgroup.events reports an empty cgroup.
func awaitEmpty(events *os.File, deadline time.Time) bool {
	text := make([]byte, 256)
	for {
		// A read arms the file: the kernel reports the next change as POLLPRI.
		n, err := events.ReadAt(text, 0)
		if errors.Is(err, unix.ENODEV) || counterValue(string(text[:n]), "populated") == 0 {
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		fds := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		_, _ = unix.Poll(fds, int(left.Milliseconds())+1) // EINTR: loop
	}
}

// OutOfMemory reports whether the kernel killed a process of the group for lack of memory.
func (g *Group) OutOfMemory() bool {
	data, _ := os.ReadFile(g.OOMFile) // unreadable is none
	return counterValue(string(data), "oom_kill") > 0
}

// Remove removes the directories. It retries until the timeout while v1 counts zombies of foreign
// parents. Its error names the directories in use.
func (g *Group) Remove(timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); ; time.Sleep(retryInterval) {
		var errs []error
		for _, dir := range g.dirs() {
			errs = append(errs, removeDir(dir))
			if g.adopted {
				_ = os.Remove(filepath.Dir(dir)) // the last one removes the parent
			}
		}
		if err := errors.Join(errs...); err == nil || !time.Now().Before(deadline) {
			return err
		}
	}
}

// removeDir removes a cgroup with all cgroups below it.
func removeDir(dir string) error {
	err := os.Remove(dir)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		for _, file := range below {
			_ = removeDir(filepath.Dir(file)) // a remaining one keeps dir, whose error is returned
		}
		err = os.Remove(dir)
	}
	return ignoreNoDir(err)
}

func ignoreNoDir(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func readFields(path string) []string {
	data, _ := os.ReadFile(path) // unreadable is empty
	return strings.Fields(string(data))
}

// writeFile writes an existing cgroup file.
func writeFile(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	err = errors.Join(err, f.Close())
	if err != nil {
		return fmt.Errorf("%q: %w", value, err)
	}
	return nil
}

// counterValue returns the number after key in lines of "key number".
func counterValue(text, key string) (n int64) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key+" "); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
}
