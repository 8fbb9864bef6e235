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

	"github.com/castnet-io/castnet/internal/cgroup"
	"github.com/castnet-io/castnet/internal/failpoint"
)

const defaultKillWait = 5 * time.Second

// Options configure a Launcher. The zero value is valid.
type Options struct {
	Log zerolog.Logger

	// KillWait is the time after which a survivor of SIGKILL is reported, and abandoned by Close.
	// Zero means 5 s.
	KillWait time.Duration

	// StateDir is an existing directory for the lifelines of kept children. Lock it first: only one
	// launcher at a time may use it.
	StateDir string

	// Cgroup is a cgroup v2 directory for the launcher's own directories. Empty means the cgroup of
	// this process, cgroup.None means none. Limits need delegated controllers. A cgroup that holds
	// processes cannot delegate them.
	Cgroup string

	// Subreaper lets this process adopt orphans of its children, for trees without cgroups. It
	// reaps all of them, so every child of this process must be the launcher's.
	Subreaper bool

	// User runs the children; nil: the user of this process. Only root can start processes of another
	// user.
	User *User

	// ProcessLimits bound each child and what it starts (LCH-10). See ProcessLimits.Check.
	ProcessLimits ProcessLimits

	// NoDeathSignal turns off PDEATHSIG. Children then rely on the lifeline.
	NoDeathSignal bool
}

// Results of Launcher.TreeControl.
const (
	TreesByCgroup    = "cgroup"    // all descendants end with a child
	TreesBySubreaper = "subreaper" // its group and its orphans end with it
	TreesByGroup     = "group"     // its group ends with it
)

// Launcher starts children and owns them until they have ended. New creates it, Close ends it.
type Launcher struct {
	log         zerolog.Logger
	killWait    time.Duration
	stateDir    string
	deathSignal syscall.Signal
	user        *User
	process     ProcessLimits
	spawner     *spawner
	cgroups     *cgroup.Manager
	orphans     *orphans // nil without adoption
	closeOnce   sync.Once
	closeErr    error // written by close

	launching sync.WaitGroup // running calls of Launch
	watchers  sync.WaitGroup // one per child

	mu       sync.Mutex
	closing  bool
	children map[*Child]struct{} // children still watched
}

// New starts a launcher.
func New(o Options) *Launcher {
	l := &Launcher{
		log:         o.Log,
		killWait:    o.KillWait,
		stateDir:    o.StateDir,
		deathSignal: syscall.SIGKILL,
		user:        o.User,
		process:     o.ProcessLimits,
		spawner:     startSpawner(),
		cgroups:     cgroup.Open(cgroup.Options{Root: o.Cgroup, Owner: o.StateDir}),
		children:    make(map[*Child]struct{}),
	}
	if o.NoDeathSignal {
		l.deathSignal = 0
	}
	if l.killWait <= 0 {
		l.killWait = defaultKillWait
	}
	// The first process of a container gets all orphans anyway.
	if o.Subreaper && (l.cgroups.Unavailable() != nil || os.Getpid() == 1) {
		l.orphans = adoptOrphans(l.cgroups.Name(), l.log)
	}
	if why := l.cgroups.Unavailable(); why != nil {
		l.log.Warn().AnErr("why", why).Str("trees", l.TreeControl()).
			Msg("cannot use cgroups: processes that children start may outlive them")
	}
	return l
}

// TreeControl names how descendants of children are found and ended: TreesByCgroup,
// TreesBySubreaper or TreesByGroup.
func (l *Launcher) TreeControl() string {
	if l.cgroups.Unavailable() == nil {
		return TreesByCgroup
	}
	if l.orphans != nil {
		return TreesBySubreaper
	}
	return TreesByGroup
}

// Launch starts a child and returns after its exec. Readiness is separate. The error is a
// *LaunchError (LCH-3).
func (l *Launcher) Launch(spec Spec) (*Child, error) {
	c, err := l.launch(&spec)
	if err != nil {
		return nil, &LaunchError{Name: spec.Name, Path: spec.Path, Err: err}
	}
	c.log.Debug().Str("path", spec.Path).Msg("child started")
	return c, nil
}

func (l *Launcher) launch(spec *Spec) (*Child, error) {
	if err := l.beginLaunch(); err != nil {
		return nil, err
	}
	defer l.launching.Done()
	if err := spec.validate(); err != nil {
		return nil, err
	}
	spec.deathSignal = l.deathSignal
	spec.user = l.user
	spec.process = l.process
	if most := l.process.Files; most > 0 && spec.Limits.Files > most {
		spec.Limits.Files = most
	}
	if spec.Keep {
		if err := spec.prepareKept(l.stateDir); err != nil {
			return nil, err
		}
	}
	p, err := openChildFiles(spec)
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
	l.track(c, spec.Payload)
	return c, nil
}

// start makes the cgroups with the process in them, or neither.
func (l *Launcher) start(spec *Spec, p *childFiles) (*handle, error) {
	t, err := l.createTree(spec)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("launch-planted")
	var h *handle
	fds := p.descriptors()
	l.spawner.do(func() {
		l.orphans.forkChild(spec, func() int {
			h, err = start(spec, fds, t)
			if err != nil {
				return 0
			}
			return h.pid
		})
	})
	if err != nil {
		return nil, errors.Join(err, t.Remove(l.killWait))
	}
	return h, nil
}

// beginLaunch counts a Launch, so that Close waits for it.
func (l *Launcher) beginLaunch() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return ErrClosed
	}
	l.launching.Add(1)
	return nil
}

func (l *Launcher) track(c *Child, payload []byte) {
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

// Close refuses further launches, kills every child's tree, kept children included, and waits for
// them. It waits at most four times Options.KillWait, then stops the spawner. A second call returns
// the first result. For a graceful stop, call Terminate before.
func (l *Launcher) Close() error { return l.shutDown(func(*Child) bool { return true }) }

// Detach closes the launcher without its kept children. A later launcher can adopt them. Their
// Child is done with an unknown exit.
func (l *Launcher) Detach() error {
	return l.shutDown(func(c *Child) bool { return c.lifelinePath == "" })
}

func (l *Launcher) shutDown(ends func(*Child) bool) error {
	l.closeOnce.Do(func() { l.closeErr = l.closeChildren(ends) })
	return l.closeErr
}

func (l *Launcher) closeChildren(ends func(*Child) bool) error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.launching.Wait()

	var left []*Child
	for _, c := range l.snapshot() {
		if ends(c) {
			_ = c.Kill() // survivors are among the stuck below
			left = append(left, c)
		} else {
			c.handle.interrupt()
		}
	}
	stuck := awaitAll(left, l.killWait)
	for _, c := range stuck {
		c.handle.interrupt()
	}
	l.watchers.Wait()
	l.orphans.stop()
	l.cgroups.Close()
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

// awaitAll returns the children that are not done after the timeout.
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
