package launch

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const defaultKillWait = 5 * time.Second

// Options of a Launcher. The zero value is good.
type Options struct {
	Log zerolog.Logger

	// KillWait is how long a process may survive SIGKILL before it is reported,
	// and before Close gives it up. Zero means 5 s.
	KillWait time.Duration
}

// A Launcher starts children and owns them until they have ended. Make one
// with New and end it with Close.
type Launcher struct {
	log      zerolog.Logger
	killWait time.Duration
	spawner  *spawner
	close    func() error // once

	launching sync.WaitGroup // calls of Launch
	watchers  sync.WaitGroup // one per child

	mu       sync.Mutex
	closed   bool
	children map[*Child]struct{} // those not yet done
}

// New starts a launcher.
func New(o Options) *Launcher {
	l := &Launcher{
		log:      o.Log,
		killWait: o.KillWait,
		spawner:  startSpawner(),
		children: make(map[*Child]struct{}),
	}
	if l.killWait <= 0 {
		l.killWait = defaultKillWait
	}
	l.close = sync.OnceValue(l.shutDown)
	return l
}

// Launch starts a child. It returns once the program has been executed, which
// says nothing about its readiness. The error is a *LaunchError (LCH-3).
func (l *Launcher) Launch(spec Spec) (*Child, error) {
	c, err := l.launch(&spec)
	if err != nil {
		return nil, &LaunchError{Name: spec.Name, Path: spec.Path, Err: err}
	}
	c.log.Debug().Str("path", spec.Path).Msg("child started")
	return c, nil
}

func (l *Launcher) launch(spec *Spec) (*Child, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.launching.Done()
	if err := spec.validate(); err != nil {
		return nil, err
	}
	p, err := openPlumbing(spec)
	if err != nil {
		return nil, err
	}
	var h *handle
	l.spawner.do(func() { h, err = start(spec, p.descriptors()) })
	if err != nil {
		p.undo()
		return nil, err
	}
	p.closeChildEnds()
	c := newChild(spec.Name, h, p, l.log, l.killWait)
	l.own(c, spec.Payload)
	return c, nil
}

// enter counts a Launch that Close has to wait for.
func (l *Launcher) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.launching.Add(1)
	return nil
}

func (l *Launcher) own(c *Child, payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.children[c] = struct{}{}
	l.watchers.Go(func() {
		c.watch(payload)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.children, c)
	})
}

// Close refuses further launches, kills every remaining child's group, waits
// for them to end, at most Options.KillWait, and stops the spawner. A second
// call returns what the first did. Stop children gently before, with Terminate.
func (l *Launcher) Close() error { return l.close() }

func (l *Launcher) shutDown() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.launching.Wait()

	l.mu.Lock()
	left := make([]*Child, 0, len(l.children))
	for c := range l.children {
		left = append(left, c)
	}
	l.mu.Unlock()

	for _, c := range left {
		_ = c.Kill() // a child that cannot be killed is among the stuck below
	}
	stuck := awaitAll(left, l.killWait)
	for _, c := range stuck {
		c.h.interrupt()
	}
	l.watchers.Wait()
	l.spawner.stop()
	return stuckError(stuck, l.killWait)
}

// awaitAll returns the children that are not done when the time is up.
func awaitAll(children []*Child, patience time.Duration) (stuck []*Child) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	up := false
	for _, c := range children {
		if !up {
			select {
			case <-c.done:
			case <-timeout.C:
				up = true
			}
		}
		select {
		case <-c.done:
		default:
			stuck = append(stuck, c)
		}
	}
	return stuck
}

func stuckError(stuck []*Child, after time.Duration) error {
	if len(stuck) == 0 {
		return nil
	}
	names := make([]string, len(stuck))
	for i, c := range stuck {
		names[i] = fmt.Sprintf("%s (pid %d)", c.name, c.PID())
	}
	return fmt.Errorf("launcher closed with processes that survived SIGKILL for %v: %s",
		after, strings.Join(names, ", "))
}
