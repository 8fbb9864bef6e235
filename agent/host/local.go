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
	"github.com/castnet-io/castnet/cast"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/subjects"
)

// Local says how a host runs procs in its own process: for tests, simulations and programs of one
// process. A command names nothing there; a proc has no output and no limits of its own, and one that
// does not stop within its grace is given up, as Go can end no goroutine.
type Local struct {
	Registry actor.Registry // what the procs can run
	// Open opens the connections of procs; nil: to Options.Settings.
	Open func(ctx context.Context, name string) (*bus.Bus, error)
}

// localRunner runs procs in the host's own process.
type localRunner struct {
	opts Options

	mu    sync.Mutex
	leads map[subjects.ProcID]*lead
	live  map[*localProc]struct{}
}

// lead is the first proc of those that share connections.
type lead struct {
	known chan struct{} // closed once proc and err are set
	proc  *actor.Proc
	err   error
	gone  chan struct{} // closed once it has ended, and the others with it
}

func newLocalRunner(o Options) *localRunner {
	return &localRunner{opts: o, leads: map[subjects.ProcID]*lead{}, live: map[*localProc]struct{}{}}
}

func (r *localRunner) prepare(m agent.Mesh, _ string) (program, error) {
	if m.Limits != (agent.Limits{}) {
		return program{}, fmt.Errorf("mesh %s: limits %+v: procs of this host share its process: want none", m.ID, m.Limits)
	}
	if m.Keep {
		return program{}, fmt.Errorf("mesh %s is to be kept when its host dies: procs of this host are in its process", m.ID)
	}
	return program{}, nil
}

func (r *localRunner) readyAtStart() bool                               { return true }
func (r *localRunner) marks(subjects.ProcID) func(launch.Stream, int64) { return nil }
func (r *localRunner) lease(string, time.Duration, agent.Claim)         {}
func (r *localRunner) forget(subjects.ProcID)                           {}
func (r *localRunner) trees() string                                    { return "" }

// start makes a proc. One that shares connections waits for who has them.
func (r *localRunner) start(ctx context.Context, boot agent.Bootstrap, _ program) (process, error) {
	id := boot.ProcID()
	l := r.lead(id.Lead())
	p := &localProc{runner: r, id: id, lead: l, started: time.Now(), overdue: make(chan struct{}), done: make(chan struct{}), ask: make(chan time.Duration, 1)}
	o := proc.Options{
		Settings: r.opts.Settings, Space: r.opts.Space, Registry: r.opts.Local.Registry, Mesh: boot.Mesh, Rank: boot.Rank, Gen: boot.Gen,
		Log: r.opts.Log, Config: new(keys.Config), Leave: func(failed bool) { p.leave(failed) },
	}
	_, err := o.Config.Push(boot.Config)
	if err != nil {
		return nil, err
	}
	if id.Seat > 0 {
		if o.First, err = l.wait(ctx); err != nil {
			return nil, fmt.Errorf("proc %s, in whose process it would be: %w", id.Lead(), err)
		}
	} else if p.bus, err = r.open(ctx, "proc/"+id.Process().String()); err != nil {
		l.set(nil, err)
		return nil, err
	}
	o.Bus = p.bus
	p.proc, p.router, err = proc.Join(ctx, o)
	if id.Seat == 0 {
		l.set(p.proc, err)
	}
	if err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), verdictGrace)
		defer cancel()
		return nil, errors.Join(err, p.close(closing))
	}
	r.mu.Lock()
	r.live[p] = struct{}{}
	r.mu.Unlock()
	go p.life()
	return p, nil
}

func (r *localRunner) open(ctx context.Context, name string) (*bus.Bus, error) {
	if r.opts.Local.Open != nil {
		return r.opts.Local.Open(ctx, name)
	}
	return bus.Open(ctx, agent.Reach(proc.BusOptions(r.opts.Settings, name, r.opts.Log), r.opts.Config))
}

func (r *localRunner) lead(id subjects.ProcID) *lead {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.leads[id]
	if !ok {
		l = &lead{known: make(chan struct{}), gone: make(chan struct{})}
		r.leads[id] = l
	}
	return l
}

func (l *lead) set(p *actor.Proc, err error) {
	l.proc, l.err = p, err
	close(l.known)
}

func (l *lead) wait(ctx context.Context) (*actor.Proc, error) {
	select {
	case <-l.known:
		return l.proc, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close ends every proc that is left.
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
	runner  *localRunner
	id      subjects.ProcID
	lead    *lead
	bus     *bus.Bus // nil when it is another's
	proc    *actor.Proc
	router  *cast.Router
	started time.Time
	ask     chan time.Duration // what Terminate gave

	mu     sync.Mutex
	asked  bool
	failed bool

	overdue chan struct{}
	done    chan struct{}
	exit    launch.Exit
}

// life waits until it is asked to end, or its connections are lost, and closes the proc. It ends at the
// latest with the runner.
func (p *localProc) life() {
	defer close(p.done)
	var grace time.Duration
	var lost, gone <-chan struct{}
	if p.id.Seat == 0 {
		lost = p.bus.Done()
		defer close(p.lead.gone)
	} else {
		gone = p.lead.gone
	}
	broken := false
	select {
	case grace = <-p.ask:
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
		p.exit.Code, p.exit.Signal, p.exit.Survivors = -1, int(syscall.SIGKILL), true
		close(p.overdue)
	case err != nil:
		p.exit.Code, p.exit.StderrTail = 1, []string{err.Error()}
	case p.failed:
		p.exit.Code = 1
	}
	p.runner.mu.Lock()
	delete(p.runner.live, p)
	if p.id.Seat == 0 {
		delete(p.runner.leads, p.id)
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

// leave is what the proc agent calls when it has stopped everything.
func (p *localProc) leave(failed bool) {
	p.mu.Lock()
	p.failed = failed
	p.mu.Unlock()
	p.Terminate(agent.DefaultGrace)
}

// Terminate ends the proc, once.
func (p *localProc) Terminate(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked {
		p.asked = true
		p.ask <- grace
	}
}

func (p *localProc) PID() int                 { return os.Getpid() }
func (p *localProc) Started() time.Time       { return p.started }
func (p *localProc) Overdue() <-chan struct{} { return p.overdue }
func (p *localProc) OverdueAt() time.Time     { return p.exit.At }
func (p *localProc) Done() <-chan struct{}    { return p.done }
func (p *localProc) StdoutTail(int) []string  { return nil }
func (p *localProc) StderrTail(int) []string  { return nil }
func (p *localProc) Unenforced() []string     { return nil }
func (p *localProc) Exit() launch.Exit {
	<-p.done
	return p.exit
}

// Follow has nothing to follow: what the proc prints is the host's own output.
func (p *localProc) Follow(context.Context, launch.Following) error { return nil }

func (p *localProc) StdoutPath() string { return "" }
func (p *localProc) StderrPath() string { return "" }
func (p *localProc) Unkept() error      { return nil }
