package launch

import (
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/failpoint"
	"github.com/castnet-io/castnet/internal/logfile"
)

// exitTailLines bounds the stderr lines in an Exit. They come from the last 64 KiB.
const exitTailLines = 1000

// Child is a launched or adopted process, the leader of its own process group.
type Child struct {
	name           string
	handle         *handle
	log            zerolog.Logger
	killWait       time.Duration
	started        time.Time
	lifelinePath   string // path of a kept child's lifeline; "" = not kept
	output         logfile.Output
	payload        *os.File // write end; nil if adopted
	lifeline       *os.File // write end
	done           chan struct{}
	graceExpired   chan struct{} // closed when KILL is sent at the end of its grace
	graceExpiredAt time.Time     // the time of that; written before graceExpired closes
	exit           Exit          // written before done is closed
	orphans        *orphans
	marker         string // identifies its orphans

	mu    sync.Mutex  // held while signalling, so LCH-4 holds
	stop  stopState   // signals that may still be sent
	timer *time.Timer // follows stop.deadline
}

func (l *Launcher) newChild(spec *Spec, h *handle, p *childFiles) *Child {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &Child{
		name:         spec.Name,
		handle:       h,
		log:          l.log.With().Str("child", spec.Name).Int("pid", h.pid).Logger(),
		killWait:     l.killWait,
		orphans:      l.orphans,
		marker:       spec.marker,
		started:      time.Now(),
		lifelinePath: spec.lifeline,
		output:       p.output,
		payload:      p.payload,
		lifeline:     p.lifeline,
		done:         make(chan struct{}),
		graceExpired: make(chan struct{}),
		stop:         stopState{killWait: l.killWait},
		timer:        timer,
	}
}

// PID returns the process ID, also the ID of the process group.
func (c *Child) PID() int { return c.handle.pid }

// Started returns the time of the exec.
func (c *Child) Started() time.Time { return c.started }

// Name returns the name in the child's Spec.
func (c *Child) Name() string { return c.name }

// Unenforced lists limits without effect, each with its reason.
func (c *Child) Unenforced() []string { return slices.Clone(c.handle.tree.unenforced) }

// Usage returns the CPU time and the resident memory of the child, without its descendants; zero:
// unknown, as on systems other than Linux.
func (c *Child) Usage() (cpu time.Duration, memory int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop.phase == ended {
		return 0, 0
	}
	return c.handle.usage()
}

// Done is closed once the child has ended and Exit is recorded (LCH-4).
func (c *Child) Done() <-chan struct{} { return c.done }

// GraceExpired is closed if the child outlives the grace of Terminate and SIGKILL is sent. It does
// not close after Done.
func (c *Child) GraceExpired() <-chan struct{} { return c.graceExpired }

// GraceExpiredAt returns the time of that SIGKILL, before the exit. It is valid once GraceExpired
// is closed.
func (c *Child) GraceExpiredAt() time.Time { return c.graceExpiredAt }

func (c *Child) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Exit returns the exit status. It waits for Done.
func (c *Child) Exit() Exit {
	<-c.done
	return c.exit
}

// Output returns the files of the child's output.
func (c *Child) Output() logfile.Output { return c.output }

// Signal sends sig to the child, not to its group. An ended child is no error.
func (c *Child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop.phase == ended {
		return nil
	}
	return c.handle.signal(sig)
}

// Kill sends SIGKILL to the child and its whole tree, and does not wait.
func (c *Child) Kill() error {
	return c.advanceStop(func(s stopState) (stopState, effect) { return s.kill(time.Now()) })
}

// Terminate sends SIGTERM to the child, with SIGCONT in case the child is stopped. After grace it
// sends SIGKILL to the whole tree (LCH-6). It does not wait. A repeated call can only shorten the
// grace. A grace of zero or less is Kill.
func (c *Child) Terminate(grace time.Duration) {
	// A failed signal is logged; the KILL that follows does not depend on it.
	_ = c.advanceStop(func(s stopState) (stopState, effect) { return s.terminate(time.Now(), grace) })
}

// advanceStop advances the stop state and carries out its effect.
func (c *Child) advanceStop(event func(stopState) (stopState, effect)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, do := event(c.stop)
	c.stop = next
	if next.deadline.IsZero() {
		c.timer.Stop()
	} else {
		c.timer.Reset(time.Until(next.deadline))
	}
	var err error
	switch do {
	case nothing:
	case sendTerm:
		err = errors.Join(c.handle.signal(syscall.SIGTERM), c.handle.signal(syscall.SIGCONT))
	case sendKill:
		err = c.handle.killAll()
	case sendKillAfterGrace:
		c.graceExpiredAt = time.Now()
		err = c.handle.killAll()
		close(c.graceExpired)
	case reportStuck:
		c.log.Error().Dur("after", next.killWait).Msg("child survives SIGKILL")
	}
	if err != nil {
		c.log.Error().Err(err).Msg("cannot signal a child")
	}
	return err
}

// watch owns the child from start to end. It waits for its two goroutines: one delivers the
// payload, one waits for the exit.
func (c *Child) watch(payload []byte) {
	var wg sync.WaitGroup
	if c.payload != nil {
		wg.Go(func() { c.writePayload(payload) })
	}
	seen := make(chan bool, 1)
	wg.Go(func() { seen <- c.handle.await() })
	for {
		select {
		case now := <-c.timer.C:
			_ = c.advanceStop(func(s stopState) (stopState, effect) { return s.tick(now) }) // logged there
		case exited := <-seen:
			_ = c.payload.Close() // unblocks writePayload if the child did not read; nil is allowed
			_ = c.lifeline.Close()
			wg.Wait()
			c.recordExit(exited)
			return
		}
	}
}

// writePayload writes the payload and closes the pipe. The close marks the payload's end.
func (c *Child) writePayload(payload []byte) {
	failpoint.Hit("launch-payload")
	if _, err := c.payload.Write(payload); err != nil {
		c.log.Debug().Err(err).Msg("child did not read its payload")
	}
	_ = c.payload.Close() // a pipe has nothing to flush
	failpoint.Hit("launch-delivered")
}

// recordExit records the end. Without an exit (after Close, or for a detached kept child) the
// process is only forgotten.
func (c *Child) recordExit(exited bool) {
	c.mu.Lock()
	c.stop = c.stop.exit() // from here on no signal goes to its number (LCH-4)
	c.timer.Stop()
	c.mu.Unlock()

	var status syscall.WaitStatus
	known := false
	if exited {
		status, known = c.handle.reap()
		failpoint.Hit("launch-reaped")
	}
	c.exit = newExit(status, known, time.Now())
	c.exit.StderrTail = c.output[logfile.Stderr].Tail(exitTailLines)
	if exited {
		c.cleanUp()
	}
	c.handle.close()
	c.log.Debug().Stringer("exit", c.exit).Msg("child ended")
	close(c.done)
	if exited {
		if err := c.handle.tree.Remove(c.killWait); err != nil {
			c.log.Warn().Err(err).Msg("cannot remove the cgroup of an ended child")
		}
	}
}

// cleanUp ends the rest of the tree (LCH-4) and removes the child's resources other than its logs.
func (c *Child) cleanUp() {
	t := c.handle.tree
	if !t.KillAndWait(c.killWait) || !c.orphans.reap(c.marker, c.killWait) {
		c.exit.Survivors = true
		c.log.Error().Dur("after", c.killWait).Str("cgroup", t.Dir).
			Msg("processes of an ended child survive SIGKILL")
	}
	c.exit.OOM, c.exit.Memory = t.OutOfMemory(), t.Memory
	_ = t.Remove(0) // KillLeftovers retries
	if c.lifelinePath != "" {
		_ = os.Remove(c.lifelinePath)
	}
}
