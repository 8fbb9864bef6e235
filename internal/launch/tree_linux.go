package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// retryInterval is the poll interval for kernel states without an event.
const retryInterval = 10 * time.Millisecond

// kill kills every process of the tree, even during a fork.
func (t *tree) kill() error {
	if t.unified == "" {
		return nil
	}
	return ignoreNoDir(writeCgroupFile(t.unified, "cgroup.kill", "1"))
}

// addProcess moves a process into the tree's cgroup, if it was not forked there.
func (t *tree) addProcess(pid int) error {
	return writeCgroupFile(t.unified, "cgroup.procs", strconv.Itoa(pid))
}

// killAndWait kills the tree and waits for its end, up to the timeout. It retries while this
// process lacks descriptors.
func (t *tree) killAndWait(patience time.Duration) bool {
	if t.unified == "" {
		return true
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(retryInterval) {
		events, err := os.Open(filepath.Join(t.unified, "cgroup.events"))
		if err == nil {
			err = t.kill()
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

// outOfMemory reports whether the kernel killed a process of the tree for lack of memory.
func (t *tree) outOfMemory() bool { return t.oomFile != "" && readCounter(t.oomFile, "oom_kill") > 0 }

// remove removes the directories. Its error names those in use.
func (t *tree) remove() error {
	var errs []error
	for _, dir := range append([]string{t.unified}, t.legacy...) {
		if dir != "" {
			errs = append(errs, removeGroup(dir))
		}
		if dir != "" && t.adopted {
			_ = os.Remove(filepath.Dir(dir)) // the last one removes the parent
		}
	}
	return errors.Join(errs...)
}

// removeGroup removes a cgroup with all cgroups below it.
func removeGroup(dir string) error {
	err := os.Remove(dir)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		for _, file := range below {
			_ = removeGroup(filepath.Dir(file)) // a remaining one keeps dir, whose error is returned
		}
		err = os.Remove(dir)
	}
	return ignoreNoDir(err)
}

// removeWithRetry retries remove while v1 counts zombies of foreign parents.
func (t *tree) removeWithRetry(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(retryInterval) {
		if err := t.remove(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func ignoreNoDir(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
