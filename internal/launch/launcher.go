package launch

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/failpoint"
)

const defaultKillWait = 5 * time.Second

// Options of a Launcher. The zero value is good.
type Options struct {
	Log zerolog.Logger

	// KillWait is how long a process may survive SIGKILL before it is reported,
	// and before Close gives it up. Zero means 5 s.
	KillWait time.Duration

	// StateDir is an existing directory for the lifelines of kept children. One
	// launcher at a time may use it: lock it first.
	StateDir string

	// Cgroup is a cgroup v2 directory in which the launcher may make its own.
	// Empty means the one this process is in, NoCgroup that none is used. For
	// limits its controllers must be free to be given on, which they are not
	// in a cgroup that holds processes itself.
	Cgroup string

	// Subreaper lets this process adopt the orphans of its children where there
	// is no cgroup to find them by. Every child of this process must then be the
	// launcher's: it reaps them all.
	Subreaper bool

	// NoDeathSignal leaves it to the lifeline alone to tell children that their
	// launcher is gone.
	NoDeathSignal bool
}

// NoCgroup as Options.Cgroup turns cgroups off.
const NoCgroup = "none"

// What Launcher.Trees answers.
const (
	TreesByCgroup    = "cgroup"    // all of a child's processes end with it
	TreesBySubreaper = "subreaper" // so do those in its group, and its orphans
	TreesByGroup     = "group"     // so do those in its group
)

// A Launcher starts children and owns them until they have ended. Make one
// with New and end it with Close.
type Launcher struct {
	log         zerolog.Logger
	killWait    time.Duration
	stateDir    string
	deathSignal syscall.Signal
	spawner     *spawner
	groups      *cgroups
	orphans     *orphans // nil unless it adopts them
	close       sync.Once
	closeErr    error // written by close

	launching sync.WaitGroup // calls of Launch
	watchers  sync.WaitGroup // one per child

	mu       sync.Mutex
	closing  bool
	children map[*Child]struct{} // those whose watch has not ended
}

// New starts a launcher.
func New(o Options) *Launcher {
	l := &Launcher{
		log:         o.Log,
		killWait:    o.KillWait,
		stateDir:    o.StateDir,
		deathSignal: syscall.SIGKILL,
		spawner:     startSpawner(),
		groups:      openCgroups(o),
		children:    make(map[*Child]struct{}),
	}
	if o.NoDeathSignal {
		l.deathSignal = 0
	}
	if l.killWait <= 0 {
		l.killWait = defaultKillWait
	}
	// The first process of a container is given all orphans, wanted or not.
	if o.Subreaper && (l.groups.why != nil || os.Getpid() == 1) {
		l.orphans = adoptOrphans(l.groups.name, l.log)
	}
	if l.groups.why != nil {
		l.log.Warn().AnErr("why", l.groups.why).Str("trees", l.Trees()).
			Msg("no cgroup for children: what they start may outlive them")
	}
	return l
}

// Trees says by what the processes that a child starts are found when they
// have to end with it: one of TreesByCgroup, TreesBySubreaper, TreesByGroup.
func (l *Launcher) Trees() string {
	switch {
	case l.groups.why == nil:
		return TreesByCgroup
	case l.orphans != nil:
		return TreesBySubreaper
	}
	return TreesByGroup
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
	spec.deathSignal = l.deathSignal
	if spec.Keep {
		if err := spec.keep(l.stateDir); err != nil {
			return nil, err
		}
	}
	p, err := openPlumbing(spec)
	if err != nil {
		return nil, err
	}
	h, err := l.start(spec, p)
	if err != nil {
		p.undo()
		return nil, err
	}
	p.closeChildEnds()
	c := l.newChild(spec, h, p)
	l.own(c, spec.Payload)
	return c, nil
}

// start makes the cgroups and the process in them, or neither.
func (l *Launcher) start(spec *Spec, p *plumbing) (*handle, error) {
	t, err := l.groups.plant(spec)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("launch-planted")
	var h *handle
	fds := p.descriptors()
	l.spawner.do(func() {
		l.orphans.expect(spec, func() int {
			if h, err = start(spec, fds, t); err != nil {
				return 0
			}
			return h.pid
		})
	})
	if err != nil {
		return nil, errors.Join(err, t.clear(l.killWait))
	}
	return h, nil
}

// enter counts a Launch that Close has to wait for.
func (l *Launcher) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
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

// Close refuses further launches, kills every remaining child's tree, kept
// children included, waits for them and for what is left of their trees, at most
// four times Options.KillWait, and stops the spawner. A second call returns what
// the first did. Stop children gently before, with Terminate.
func (l *Launcher) Close() error { return l.shutDown(func(*Child) bool { return true }) }

// Leave is Close, except that kept children live on, for a later launcher to
// adopt. Their Child is done with an unknown exit.
func (l *Launcher) Leave() error { return l.shutDown(func(c *Child) bool { return c.fifo == "" }) }

func (l *Launcher) shutDown(ends func(*Child) bool) error {
	l.close.Do(func() { l.closeErr = l.end(ends) })
	return l.closeErr
}

func (l *Launcher) end(ends func(*Child) bool) error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.launching.Wait()

	var left []*Child
	for _, c := range l.snapshot() {
		if ends(c) {
			_ = c.Kill() // one that cannot be killed is among the stuck below
			left = append(left, c)
		} else {
			c.h.interrupt()
		}
	}
	stuck := awaitAll(left, l.killWait)
	for _, c := range stuck {
		c.h.interrupt()
	}
	l.watchers.Wait()
	l.orphans.stop()
	l.groups.close()
	l.spawner.stop()
	return stuckError(stuck, l.killWait)
}

// snapshot lists the children that are not done.
func (l *Launcher) snapshot() (children []*Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.children {
		if !c.isDone() {
			children = append(children, c)
		}
	}
	return children
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
		if !c.isDone() {
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
