package launch

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// exitTailLines is how many last lines of stderr an Exit keeps.
const exitTailLines = 20

// A Child is one launched process, the leader of a process group of its own.
type Child struct {
	name     string
	h        *handle
	log      zerolog.Logger
	started  time.Time
	stdout   logFile
	stderr   logFile
	payload  *os.File // write end
	lifeline *os.File // write end, never written (LCH-2)
	done     chan struct{}
	exit     Exit // written before done is closed

	mu    sync.Mutex  // held while signalling and reaping, so LCH-5 holds
	stop  stopState   // what may still be sent
	timer *time.Timer // follows stop.deadline
}

func newChild(name string, h *handle, p *plumbing, log zerolog.Logger, killWait time.Duration) *Child {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &Child{
		name:     name,
		h:        h,
		log:      log.With().Str("child", name).Int("pid", h.pid).Logger(),
		started:  time.Now(),
		stdout:   p.stdout,
		stderr:   p.stderr,
		payload:  p.payload,
		lifeline: p.lifeline,
		done:     make(chan struct{}),
		stop:     stopState{killWait: killWait},
		timer:    timer,
	}
}

// PID is the process id, which is also the id of its group.
func (c *Child) PID() int { return c.h.pid }

// Started is when the program had been executed.
func (c *Child) Started() time.Time { return c.started }

// Done is closed once the child has ended and Exit is recorded (LCH-7).
func (c *Child) Done() <-chan struct{} { return c.done }

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

// Kill sends SIGKILL to the child and its whole group, and does not wait.
func (c *Child) Kill() error {
	return c.step(func(s stopState) (stopState, effect) { return s.kill(time.Now()) })
}

// Terminate sends SIGTERM to the child (and SIGCONT, or a stopped one would
// not notice) and, if it has not ended after grace, SIGKILL to its whole group
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
	wg.Go(func() { c.deliver(payload) })
	seen := make(chan bool, 1)
	wg.Go(func() { seen <- c.h.await() })
	for {
		select {
		case now := <-c.timer.C:
			_ = c.step(func(s stopState) (stopState, effect) { return s.tick(now) }) // logged there
		case exited := <-seen:
			_ = c.payload.Close() // frees deliver if nobody read
			_ = c.lifeline.Close()
			wg.Wait()
			c.finish(exited)
			return
		}
	}
}

// deliver writes the payload and closes its pipe, whose end is the payload's.
func (c *Child) deliver(payload []byte) {
	if _, err := c.payload.Write(payload); err != nil {
		c.log.Debug().Err(err).Msg("child did not read its payload")
	}
	_ = c.payload.Close() // a pipe has nothing to flush
}

// finish records the end. Without an exit (Close gave up) the process is left
// as it is and only forgotten.
func (c *Child) finish(exited bool) {
	c.mu.Lock()
	c.stop = c.stop.exit()
	c.timer.Stop()
	status, known := syscall.WaitStatus(0), false
	if exited {
		status, known = c.h.reap()
	}
	c.mu.Unlock()
	c.h.close()

	c.exit = newExit(status, known, time.Now())
	c.exit.StderrTail = c.StderrTail(exitTailLines)
	c.log.Debug().Stringer("exit", c.exit).Msg("child ended")
	close(c.done)
}
