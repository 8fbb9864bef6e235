package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/signin"
	"github.com/castnet-io/castnet/cast"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/subjects"
)

// Local runs procs in the host's own process: for tests, simulations and single-process programs.
// The command of a mesh is ignored. Such a proc has no output and no limits. It is abandoned after
// its grace, because Go cannot kill a goroutine.
type Local struct {
	Registry actor.Registry // actor types of the procs
	// Open opens the connections of procs; nil: to Options.Settings.
	Open func(ctx context.Context, name string) (*bus.Bus, error)
}

// localRunner runs procs in the host's own process.
type localRunner struct {
	opts Options

	mu      sync.Mutex
	leaders map[subjects.ProcID]*leader
	live    map[*localProc]struct{}
}

// leader is the first of several procs with shared connections.
type leader struct {
	ready chan struct{} // closed once proc and err are set
	proc  *actor.Proc
	err   error
	ended chan struct{} // closed once it and its followers have ended
}

func newLocalRunner(o Options) *localRunner {
	return &localRunner{opts: o, leaders: map[subjects.ProcID]*leader{}, live: map[*localProc]struct{}{}}
}

func (r *localRunner) resolve(m agent.Mesh, rank int, _ string) (launchSpec, error) {
	if own := m.RankSpec(rank); len(own.CPUs)+len(own.NUMANodes) > 0 {
		return launchSpec{}, fmt.Errorf("mesh %s: rank %d: CPUs of its own: procs of this host share its process: "+
			"want none", m.ID, rank)
	}
	if m.Limits != (agent.Limits{}) {
		return launchSpec{}, fmt.Errorf("mesh %s: limits %+v: procs of this host share its process: want none",
			m.ID, m.Limits)
	}
	if m.Keep {
		return launchSpec{}, fmt.Errorf("mesh %s: cannot keep procs when the host dies: they run in its process",
			m.ID)
	}
	return launchSpec{command: m.Command}, nil
}

func (r *localRunner) readyAtStart() bool  { return true }
func (r *localRunner) treeControl() string { return "" }

// start starts a proc. A proc with shared connections waits for its leader.
func (r *localRunner) start(ctx context.Context, boot agent.Bootstrap, _ launchSpec) (process, error) {
	id := boot.ProcID()
	l := r.leader(id.Lead())
	p := &localProc{
		runner: r, id: id, leader: l, started: time.Now(), graceExpired: make(chan struct{}),
		done: make(chan struct{}), terminate: make(chan time.Duration, 1),
	}
	o := proc.Options{
		Principal: subjects.Proc.Principal(boot.Host.Proc.Mesh.Label()), Settings: r.opts.Settings,
		Space: r.opts.Space, Registry: r.opts.Local.Registry, Mesh: boot.Mesh,
		Rank: boot.Rank, Gen: boot.Gen,
		Log: r.opts.Log, Config: new(keys.Config), OnLeave: func(failed bool) { p.onLeave(failed) },
	}
	_, err := o.Config.Push(boot.Config)
	if err != nil {
		return nil, err
	}
	if id.Index > 0 {
		o.Leader, err = l.wait(ctx)
		if err != nil {
			return nil, fmt.Errorf("cannot share the process of proc %s: %w", id.Lead(), err)
		}
	} else {
		p.bus, err = r.opts.openBus(ctx, "proc/"+id.Process().String(), subjects.User{
			Principal: o.Principal, Process: id.Process()})
		if err != nil {
			l.resolve(nil, err)
			return nil, err
		}
	}
	o.Bus = p.bus
	p.proc, p.router, err = proc.Join(ctx, o)
	if id.Index == 0 {
		l.resolve(p.proc, err)
	}
	if err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
		defer cancel()
		return nil, errors.Join(err, p.close(closing))
	}
	r.mu.Lock()
	r.live[p] = struct{}{}
	r.mu.Unlock()
	go p.run()
	return p, nil
}

// openBus opens connections for a host or a proc in this process.
func (o Options) openBus(ctx context.Context, name string, as subjects.User) (*bus.Bus, error) {
	if o.Local != nil && o.Local.Open != nil {
		return o.Local.Open(ctx, name)
	}
	settings, err := signin.As(proc.BusOptions(o.Settings, name, o.Log), o.Space, as)
	if err != nil {
		return nil, err
	}
	return bus.Open(ctx, agent.WithBusDefaults(settings, o.Config))
}

func (r *localRunner) leader(id subjects.ProcID) *leader {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.leaders[id]
	if !ok {
		l = &leader{ready: make(chan struct{}), ended: make(chan struct{})}
		r.leaders[id] = l
	}
	return l
}

func (l *leader) resolve(p *actor.Proc, err error) {
	l.proc, l.err = p, err
	close(l.ready)
}

func (l *leader) wait(ctx context.Context) (*actor.Proc, error) {
	select {
	case <-l.ready:
		return l.proc, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close ends all remaining procs.
func (r *localRunner) close() error {
	r.mu.Lock()
	var left []*localProc
	for p := range r.live {
		left = append(left, p)
	}
	r.mu.Unlock()
	for _, p := range left {
		p.Terminate(0)
	}
	for _, p := range left {
		<-p.done
	}
	return nil
}

// localProc is a proc in the host's own process.
type localProc struct {
	runner    *localRunner
	id        subjects.ProcID
	leader    *leader
	bus       *bus.Bus // nil if shared
	proc      *actor.Proc
	router    *cast.Router
	started   time.Time
	terminate chan time.Duration // receives the grace of Terminate

	mu          sync.Mutex
	terminating bool
	failed      bool

	graceExpired chan struct{}
	done         chan struct{}
	exit         launch.Exit
}

// run waits for a stop request or the loss of the connections, then closes the proc. It ends at the
// latest with the runner.
func (p *localProc) run() {
	defer close(p.done)
	var grace time.Duration
	var lost, gone <-chan struct{}
	if p.id.Index == 0 {
		lost = p.bus.Done()
		defer close(p.leader.ended)
	} else {
		gone = p.leader.ended
	}
	broken := false
	select {
	case grace = <-p.terminate:
	case <-gone:
	case <-lost:
		broken = true
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(grace, time.Millisecond))
	defer cancel()
	err := p.close(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit = launch.Exit{At: time.Now()}
	switch {
	case broken:
		p.exit.Code, p.exit.StderrTail = 1, []string{"the bus broke: " + p.bus.Err().Error()}
	case errors.Is(err, context.DeadlineExceeded):
		p.exit.Code = -1
		p.exit.Signal = int(syscall.SIGKILL)
		p.exit.Survivors = true
		close(p.graceExpired)
	case err != nil:
		p.exit.Code, p.exit.StderrTail = 1, []string{err.Error()}
	case p.failed:
		p.exit.Code = 1
	}
	// The host remembers ended procs. Their connections take a MiB each.
	p.bus = nil
	p.proc = nil
	p.router = nil
	p.leader = nil
	p.runner.mu.Lock()
	delete(p.runner.live, p)
	if p.id.Index == 0 {
		delete(p.runner.leaders, p.id)
	}
	p.runner.mu.Unlock()
}

func (p *localProc) close(ctx context.Context) error {
	var errs []error
	if p.proc != nil {
		errs = append(errs, p.proc.Close(ctx))
	}
	if p.router != nil {
		p.router.Close()
	}
	if p.bus != nil {
		errs = append(errs, p.bus.Close(ctx))
	}
	return errors.Join(errs...)
}

// onLeave is the proc agent's callback after it has stopped everything.
func (p *localProc) onLeave(failed bool) {
	p.mu.Lock()
	p.failed = failed
	p.mu.Unlock()
	p.Terminate(agent.DefaultGrace)
}

// Terminate ends the proc, once.
func (p *localProc) Terminate(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminating {
		p.terminating = true
		p.terminate <- grace
	}
}

func (p *localProc) PID() int                      { return os.Getpid() }
func (p *localProc) Started() time.Time            { return p.started }
func (p *localProc) GraceExpired() <-chan struct{} { return p.graceExpired }
func (p *localProc) GraceExpiredAt() time.Time     { return p.exit.At }
func (p *localProc) Done() <-chan struct{}         { return p.done }
func (p *localProc) Unenforced() []string          { return nil }

// Usage is unknown: procs share the process of their host.
func (p *localProc) Usage() (cpu time.Duration, memory int64) { return 0, 0 }

// Output is empty: a local proc prints to the host's own output.
func (p *localProc) Output() logfile.Output { return logfile.Output{} }

func (p *localProc) Exit() launch.Exit {
	<-p.done
	return p.exit
}
