package launch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// markerVar is the environment variable by which an orphan is known: it names
// the launcher and the child that it comes from.
const markerVar = "CASTNET_TREE"

// orphans are processes whose parent ended before them, in a process that is
// given them all (a subreaper, or the first in a container). A nil *orphans
// adopts nobody.
type orphans struct {
	log    zerolog.Logger
	prefix string // of our markers
	died   chan os.Signal
	quit   chan struct{}
	wg     sync.WaitGroup

	mu     sync.Mutex // held while forking, so that no new child is taken for an orphan
	count  int
	living map[string]int // marker to pid of the children that are not reaped
}

func adoptOrphans(launcher string, log zerolog.Logger) *orphans {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		log.Warn().Err(err).Msg("orphans of children cannot be adopted")
		return nil
	}
	o := &orphans{
		log: log, prefix: markerVar + "=" + launcher + ".", died: make(chan os.Signal, 1),
		quit: make(chan struct{}), living: make(map[string]int),
	}
	signal.Notify(o.died, unix.SIGCHLD)
	o.wg.Go(func() {
		for {
			select {
			case <-o.died:
				o.mu.Lock()
				o.sweep()
				o.mu.Unlock()
			case <-o.quit:
				return
			}
		}
	})
	return o
}

func (o *orphans) stop() {
	if o == nil {
		return
	}
	signal.Stop(o.died)
	close(o.quit)
	o.wg.Wait()
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
}

// expect lets start fork a child, whose pid it returns, 0 for none.
func (o *orphans) expect(spec *Spec, start func() int) {
	if o == nil {
		start()
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count++
	spec.marker = o.prefix + strconv.Itoa(o.count)
	if pid := start(); pid != 0 {
		o.living[spec.marker] = pid
	}
}

// bereave ends the orphans of a child that has been reaped. It reports whether
// they are gone in time.
func (o *orphans) bereave(marker string, patience time.Duration) bool {
	if o == nil {
		return true
	}
	deadline := time.Now().Add(patience)
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.living, marker)
	for looks := maxLooks; ; {
		killed, reaped := o.sweep()
		if looks--; len(killed) == 0 && (reaped == 0 || looks <= 0) {
			return true
		}
		for _, pid := range killed {
			if !awaitEnd(pid, time.Until(deadline)) {
				return false
			}
		}
	}
}

// maxLooks bounds how often orphans that end by themselves make bereave look
// again: those of other children may do so for ever.
const maxLooks = 8

// sweep reaps the orphans that have ended and kills those whose child has. An
// orphan that emptied its environment is of unknown origin, and is killed when
// no child is left. The children of a killed one are next, and those of one
// that ended while they were looked at, when they were still its own.
func (o *orphans) sweep() (killed []int, reaped int) {
	for _, pid := range childrenOf(os.Getpid()) {
		if o.isChild(pid) {
			continue
		}
		if got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); got == pid || err != nil {
			reaped++
			continue
		}
		marker, marked := markerOf(pid)
		_, alive := o.living[marker]
		if alive || (marked && !strings.HasPrefix(marker, o.prefix)) || (!marked && len(o.living) > 0) {
			continue
		}
		o.log.Info().Int("pid", pid).Msg("killing the orphan of an ended child")
		_ = unix.Kill(pid, unix.SIGKILL) // unreaped, and nobody but us may reap it
		killed = append(killed, pid)
	}
	return killed, reaped
}

func (o *orphans) isChild(pid int) bool {
	for _, child := range o.living {
		if child == pid {
			return true
		}
	}
	return false
}

// markerOf reads the marker in the environment of a process. One in the midst of
// an exec has no environment for a moment.
func markerOf(pid int) (marker string, found bool) {
	for deadline := time.Now().Add(aMoment); ; time.Sleep(time.Millisecond) {
		env, err := environOf(pid)
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.HasPrefix(entry, []byte(markerVar+"=")) {
				return string(entry), true
			}
		}
		if err != nil || len(env) > 0 || hasNone(pid) || time.Now().After(deadline) {
			return "", false
		}
	}
}

// environOf reads the environment of a process, all of it at once: what is left
// for a second read is gone when the process executes another program in between.
func environOf(pid int) ([]byte, error) {
	for size := 64 << 10; ; size *= 2 {
		f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil {
			return nil, err
		}
		env := make([]byte, size)
		n, err := f.Read(env)
		_ = f.Close()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil || n < size {
			return env[:n], err
		}
	}
}

// hasNone says that an environment that could not be seen is empty: it begins
// and ends somewhere, and the exec is over. While it is made, and in a zombie,
// it is nowhere, or ends where it begins; the kernel says where the code ends
// after that.
func hasNone(pid int) bool {
	const state, endCode, envStart, envEnd = 0, 24, 47, 48 // fields 3, 27, 50 and 51
	fields, err := procStat(pid)
	return err != nil || len(fields) <= envEnd || fields[state] == "Z" ||
		(fields[endCode] != "0" && fields[envEnd] != "0" && fields[envStart] == fields[envEnd])
}

// childrenOf looks at every process: not every kernel lists children.
func childrenOf(parent int) (children []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if stat, err := procStat(pid); err == nil && stat[1] == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}

// awaitEnd waits until a child of ours is a zombie.
func awaitEnd(pid int, patience time.Duration) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err == unix.ESRCH
	}
	defer func() { _ = unix.Close(fd) }()
	return awaitPidfd(fd, patience)
}

func awaitPidfd(fd int, patience time.Duration) bool {
	deadline := time.Now().Add(patience)
	for !hasEnded(fd) {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
	}
	return true
}
