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

// retryEvery is how often something is tried again for which the kernel has no
// event.
const retryEvery = 10 * time.Millisecond

// kill ends every process of the tree, also one that is forking just now.
func (t *tree) kill() error {
	if t.unified == "" {
		return nil
	}
	return ignoreNoDir(put(t.unified, "cgroup.kill", "1"))
}

// join puts a process there that could not be forked into it.
func (t *tree) join(pid int) error { return put(t.unified, "cgroup.procs", strconv.Itoa(pid)) }

// end kills the tree and waits until nobody of it lives, at most for so long.
// While this process is out of descriptors it keeps trying.
func (t *tree) end(patience time.Duration) bool {
	if t.unified == "" {
		return true
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(retryEvery) {
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
			return true // the directory is gone, which only an empty one can be
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// awaitEmpty waits for the word in an open cgroup.events that nobody is left.
func awaitEmpty(events *os.File, deadline time.Time) bool {
	text := make([]byte, 256)
	for {
		// Reading arms the file: the kernel reports the next change as POLLPRI.
		n, err := events.ReadAt(text, 0)
		if errors.Is(err, unix.ENODEV) || valueOf(string(text[:n]), "populated") == 0 {
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		fds := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		_, _ = unix.Poll(fds, int(left.Milliseconds())+1) // EINTR: look again
	}
}

// outOfMemory reports whether the kernel killed a process of the tree.
func (t *tree) outOfMemory() bool { return t.oom != "" && counter(t.oom, "oom_kill") > 0 }

// remove takes the directories away, and says which of them are still in use.
func (t *tree) remove() error {
	var errs []error
	for _, dir := range append([]string{t.unified}, t.legacy...) {
		if dir != "" {
			errs = append(errs, removeGroup(dir))
		}
		if dir != "" && t.foreign {
			_ = os.Remove(filepath.Dir(dir)) // the last one out
		}
	}
	return errors.Join(errs...)
}

// removeGroup removes a cgroup with those that its processes made below it.
func removeGroup(dir string) error {
	err := os.Remove(dir)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		for _, file := range below {
			_ = removeGroup(filepath.Dir(file)) // what stays keeps dir, whose error is told
		}
		err = os.Remove(dir)
	}
	return ignoreNoDir(err)
}

// clear is remove for the moments in which v1 still counts zombies whose
// parent is not us.
func (t *tree) clear(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(retryEvery) {
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
