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

// markerVar is the environment variable that marks an orphan with its launcher and child.
const markerVar = "CASTNET_TREE"

// orphans are processes that outlived their parents and came to this process, as a subreaper or as
// the first of a container. A nil *orphans adopts none.
type orphans struct {
	log     zerolog.Logger
	prefix  string // prefix of own markers
	sigchld chan os.Signal
	quit    chan struct{}
	wg      sync.WaitGroup

	mu       sync.Mutex // held during a fork, so that no new child looks like an orphan
	count    int
	children map[string]int // marker to pid of unreaped children
}

func adoptOrphans(launcher string, log zerolog.Logger) *orphans {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		log.Warn().Err(err).Msg("cannot adopt orphans of children")
		return nil
	}
	o := &orphans{
		log: log, prefix: markerVar + "=" + launcher + ".", sigchld: make(chan os.Signal, 1),
		quit: make(chan struct{}), children: make(map[string]int),
	}
	signal.Notify(o.sigchld, unix.SIGCHLD)
	o.wg.Go(func() {
		for {
			select {
			case <-o.sigchld:
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
	signal.Stop(o.sigchld)
	close(o.quit)
	o.wg.Wait()
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
}

// forkChild lets start fork a child. Function start returns the pid, or 0.
func (o *orphans) forkChild(spec *Spec, start func() int) {
	if o == nil {
		start()
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count++
	spec.marker = o.prefix + strconv.Itoa(o.count)
	if pid := start(); pid != 0 {
		o.children[spec.marker] = pid
	}
}

// reap ends the orphans of a reaped child. It returns false on timeout.
func (o *orphans) reap(marker string, patience time.Duration) bool {
	if o == nil {
		return true
	}
	deadline := time.Now().Add(patience)
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.children, marker)
	for looks := maxSweeps; ; {
		killed, reaped := o.sweep()
		looks--
		if len(killed) == 0 && (reaped == 0 || looks <= 0) {
			return true
		}
		for _, pid := range killed {
			if !awaitZombie(pid, time.Until(deadline)) {
				return false
			}
		}
	}
}

// maxSweeps bounds the repeated sweeps of reap: orphans of other children may end without pause.
const maxSweeps = 8

// sweep reaps ended orphans and kills those of ended children. An orphan with an empty environment
// has an unknown origin and is killed when no child is left. Descendants of the killed ones follow
// in the next sweep.
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
		_, alive := o.children[marker]
		if alive || (marked && !strings.HasPrefix(marker, o.prefix)) || (!marked && len(o.children) > 0) {
			continue
		}
		o.log.Info().Int("pid", pid).Msg("killing the orphan of an ended child")
		_ = unix.Kill(pid, unix.SIGKILL) // unreaped, and only this process may reap it
		killed = append(killed, pid)
	}
	return killed, reaped
}

func (o *orphans) isChild(pid int) bool {
	for _, child := range o.children {
		if child == pid {
			return true
		}
	}
	return false
}

// execTimeout bounds the wait for a process in the midst of an exec.
const execTimeout = time.Second

// markerOf returns the marker in a process's environment. During an exec the environment is absent.
func markerOf(pid int) (marker string, found bool) {
	for deadline := time.Now().Add(execTimeout); ; time.Sleep(time.Millisecond) {
		env, err := environOf(pid)
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.HasPrefix(entry, []byte(markerVar+"=")) {
				return string(entry), true
			}
		}
		if err != nil || len(env) > 0 || hasEmptyEnviron(pid) || time.Now().After(deadline) {
			return "", false
		}
	}
}

// environOf reads the environment of a process in one read. A second read could hit another program
// after an exec.
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

// hasEmptyEnviron reports whether an unseen environment is really empty: it has bounds and the exec
// is over. During an exec, and in a zombie, the bounds are missing or equal; the kernel sets the
// code's end last.
func hasEmptyEnviron(pid int) bool {
	const state, endCode, envStart, envEnd = 0, 24, 47, 48 // fields 3, 27, 50 and 51
	fields, err := procStat(pid)
	return err != nil || len(fields) <= envEnd || fields[state] == "Z" ||
		(fields[endCode] != "0" && fields[envEnd] != "0" && fields[envStart] == fields[envEnd])
}

// childrenOf scans all processes, because not every kernel lists children.
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

// awaitZombie waits until a child of this process is a zombie.
func awaitZombie(pid int, patience time.Duration) bool {
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
