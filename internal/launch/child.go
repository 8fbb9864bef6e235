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
)

// exitTailLines is how many last lines of stderr an Exit keeps at most, of the last 64 KiB.
const exitTailLines = 1000

// A Child is one launched or adopted process, the leader of a process group of
// its own.
type Child struct {
	name     string
	h        *handle
	log      zerolog.Logger
	killWait time.Duration
	started  time.Time
	fifo     string // path of a kept child's lifeline; "" = not kept
	stdout   logFile
	stderr   logFile
	payload  *os.File // write end; nil if adopted
	lifeline *os.File // write end
	done     chan struct{}
	overdue  chan struct{} // closed when KILL is sent because its grace is over
	killed   time.Time     // when that was; written before overdue is closed
	exit     Exit          // written before done is closed
	orphans  *orphans
	marker   string // by which its orphans are known

	mu    sync.Mutex  // held while signalling, so LCH-5 holds
	stop  stopState   // what may still be sent
	timer *time.Timer // follows stop.deadline
}

func (l *Launcher) newChild(spec *Spec, h *handle, p *plumbing) *Child {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &Child{
		name:     spec.Name,
		h:        h,
		log:      l.log.With().Str("child", spec.Name).Int("pid", h.pid).Logger(),
		killWait: l.killWait,
		orphans:  l.orphans,
		marker:   spec.marker,
		started:  time.Now(),
		fifo:     spec.lifeline,
		stdout:   p.stdout,
		stderr:   p.stderr,
		payload:  p.payload,
		lifeline: p.lifeline,
		done:     make(chan struct{}),
		overdue:  make(chan struct{}),
		stop:     stopState{killWait: l.killWait},
		timer:    timer,
	}
}

// PID is the process id, which is also the id of its group.
func (c *Child) PID() int { return c.h.pid }

// Started is when the program had been executed.
func (c *Child) Started() time.Time { return c.started }

// Name is what its Spec says.
func (c *Child) Name() string { return c.name }

// Unenforced lists the limits that are not in force, each with its reason.
func (c *Child) Unenforced() []string { return slices.Clone(c.h.tree.missing) }

// Done is closed once the child has ended and Exit is recorded (LCH-7).
func (c *Child) Done() <-chan struct{} { return c.done }

// Overdue is closed if the child has not ended within the grace that Terminate
// gave it, when SIGKILL was sent for that. Once Done is closed it never will be.
func (c *Child) Overdue() <-chan struct{} { return c.overdue }

// OverdueAt is when that SIGKILL was sent: before the exit. It is valid once Overdue is closed.
func (c *Child) OverdueAt() time.Time { return c.killed }

func (c *Child) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Exit says how the child ended. It waits for Done.
func (c *Child) Exit() Exit {
	<-c.done
	return c.exit
}

// StdoutPath is the file that receives the child's standard output; "" when it
// is not kept.
func (c *Child) StdoutPath() string { return c.stdout.path }

// StderrPath is the file that receives the child's standard error.
func (c *Child) StderrPath() string { return c.stderr.path }

// Unkept is why what the child prints goes to no file; nil when it does.
func (c *Child) Unkept() error { return errors.Join(c.stdout.unkept, c.stderr.unkept) }

// StderrTail returns at most the last n lines this child wrote to stderr, of
// the last 64 KiB of the file, as valid UTF-8; none if it cannot be read.
func (c *Child) StderrTail(n int) []string { return tail(c.stderr, n) }

// StdoutTail is StderrTail for stdout.
func (c *Child) StdoutTail(n int) []string { return tail(c.stdout, n) }

// Signal sends sig to the child, not to its group. To signal a child that has
// ended is no error.
func (c *Child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop.phase == ended {
		return nil
	}
	return c.h.signal(sig)
}

// Kill sends SIGKILL to the child and its whole tree, and does not wait.
func (c *Child) Kill() error {
	return c.step(func(s stopState) (stopState, effect) { return s.kill(time.Now()) })
}

// Terminate sends SIGTERM to the child (and SIGCONT, or a stopped one would
// not notice) and, if it has not ended after grace, SIGKILL to its whole tree
// (LCH-6). It does not wait. A repeated call may only shorten the wait; a grace
// of zero or less is Kill.
func (c *Child) Terminate(grace time.Duration) {
	// A failed signal is logged; the KILL that follows does not depend on it.
	_ = c.step(func(s stopState) (stopState, effect) { return s.terminate(time.Now(), grace) })
}

// step advances the stop state and carries out its effect.
func (c *Child) step(event func(stopState) (stopState, effect)) error {
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
		err = errors.Join(c.h.signal(syscall.SIGTERM), c.h.signal(syscall.SIGCONT))
	case sendKill:
		err = c.h.killAll()
	case sendKillLate:
		c.killed = time.Now()
		err = c.h.killAll()
		close(c.overdue)
	case reportStuck:
		c.log.Error().Dur("after", next.killWait).Msg("child survives SIGKILL")
	}
	if err != nil {
		c.log.Error().Err(err).Msg("child could not be signalled")
	}
	return err
}

// watch owns the child from start to end, with two goroutines it waits for:
// one delivers the payload, one waits for the exit.
func (c *Child) watch(payload []byte) {
	var wg sync.WaitGroup
	if c.payload != nil {
		wg.Go(func() { c.deliver(payload) })
	}
	seen := make(chan bool, 1)
	wg.Go(func() { seen <- c.h.await() })
	for {
		select {
		case now := <-c.timer.C:
			_ = c.step(func(s stopState) (stopState, effect) { return s.tick(now) }) // logged there
		case exited := <-seen:
			_ = c.payload.Close() // frees deliver if nobody read; nil is allowed
			_ = c.lifeline.Close()
			wg.Wait()
			c.finish(exited)
			return
		}
	}
}

// deliver writes the payload and closes its pipe, whose end is the payload's.
func (c *Child) deliver(payload []byte) {
	failpoint.Hit("launch-payload")
	if _, err := c.payload.Write(payload); err != nil {
		c.log.Debug().Err(err).Msg("child did not read its payload")
	}
	_ = c.payload.Close() // a pipe has nothing to flush
	failpoint.Hit("launch-delivered")
}

// finish records the end. Without an exit (Close gave up, or a kept child was
// left) the process is only forgotten.
func (c *Child) finish(exited bool) {
	c.mu.Lock()
	c.stop = c.stop.exit() // from here on nothing is sent by number (LCH-5)
	c.timer.Stop()
	c.mu.Unlock()

	var status syscall.WaitStatus
	known := false
	if exited {
		status, known = c.h.reap()
		failpoint.Hit("launch-reaped")
	}
	c.exit = newExit(status, known, time.Now())
	c.exit.StderrTail = c.StderrTail(exitTailLines)
	if exited {
		c.cleanUp()
	}
	c.h.close()
	c.log.Debug().Stringer("exit", c.exit).Msg("child ended")
	close(c.done)
	if exited {
		if err := c.h.tree.clear(c.killWait); err != nil {
			c.log.Warn().Err(err).Msg("cgroup of an ended child could not be removed")
		}
	}
}

// cleanUp ends what reap may have left of the tree (LCH-4) and takes back what
// the child had beside its logs.
func (c *Child) cleanUp() {
	t := c.h.tree
	if !t.end(c.killWait) || !c.orphans.bereave(c.marker, c.killWait) {
		c.exit.Survivors = true
		c.log.Error().Dur("after", c.killWait).Str("cgroup", t.unified).Msg("processes of an ended child survive SIGKILL")
	}
	c.exit.OOM, c.exit.Memory = t.outOfMemory(), t.memory
	_ = t.remove() // what is still counted there is tried again after done
	if c.fifo != "" {
		_ = os.Remove(c.fifo)
	}
}
