package host

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/failpoint"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// runner is how a host runs procs: each as an OS process, or in its own. Its methods but prepare may be
// called on any goroutine.
type runner interface {
	// prepare says what runs the procs of a mesh, or why they may not.
	prepare(m agent.Mesh, self string) (program, error)
	// start starts one; readyAtStart says that it can be reached then, else it says so itself.
	start(ctx context.Context, boot agent.Bootstrap, how program) (process, error)
	readyAtStart() bool
	// marks takes down how much of a kept proc's output is published; nil: that is not needed.
	marks(id subjects.ProcID) func(s launch.Stream, at int64)
	// lease takes down that the lease of a kept mesh was renewed, and by whom; 0: its procs have ended.
	lease(mesh string, term time.Duration, by agent.Claim)
	// forget is for a proc that has ended, and been told.
	forget(id subjects.ProcID)
	// trees says how processes that procs have started are ended.
	trees() string
	close() error
}

// program is what a proc runs.
type program struct {
	path  string
	args  []string
	lease time.Duration // of the mesh, for who adopts the proc
	claim agent.Claim   // likewise

	pushed keys.Snapshot // by the client
	config *keys.Config  // the host's, with what was pushed
}

// process is what runs a proc. Terminate does not wait; Exit waits for Done.
type process interface {
	PID() int
	Started() time.Time
	Terminate(grace time.Duration)
	Overdue() <-chan struct{} // closed, before Done, when its grace is over and it is killed
	OverdueAt() time.Time     // when that was
	Done() <-chan struct{}
	Exit() launch.Exit
	StdoutTail(n int) []string
	StderrTail(n int) []string
	StdoutPath() string
	StderrPath() string
	Follow(ctx context.Context, f launch.Following) error
	Unkept() error
	Unenforced() []string
}

// execRunner runs procs as OS processes.
type execRunner struct {
	opts     Options
	launcher *launch.Launcher
	store    *store // nil: nothing is kept
}

func (r *execRunner) prepare(m agent.Mesh, self string) (program, error) {
	if m.Keep && r.store == nil {
		return program{}, fmt.Errorf("mesh %s is to be kept when its host dies, and this host has no state directory: start hostd with --state-dir", m.ID)
	}
	if m.PerProcess > 1 {
		return program{}, fmt.Errorf("mesh %s: %d procs in a process: this host gives each its own: want 1", m.ID, m.PerProcess)
	}
	path, args, err := r.opts.resolve(m.Command, self)
	if err == nil {
		err = cmp.Or(checkArgs(m.Command.Args), checkEnv(m.Command.Env))
	}
	return program{path: path, args: args}, err
}

func (r *execRunner) start(_ context.Context, boot agent.Bootstrap, how program) (process, error) {
	payload, err := wire.Marshal(agent.Launch{Proc: &boot})
	if err != nil {
		return nil, err
	}
	spec := launch.Spec{
		Name: boot.ProcID().Process().String(), Path: how.path, Args: how.args,
		Env: slices.Concat(baseEnv(os.Getenv), boot.Mesh.Command.Env, worldEnv(boot)), Dir: boot.Mesh.Command.Dir,
		Payload: payload, LogDir: r.opts.Dir, LogCap: r.opts.LogCap, Limits: limits(boot), Keep: boot.Mesh.Keep,
	}
	if boot.Mesh.Keep {
		return r.startKept(spec, kept{
			Mesh: boot.Mesh, Rank: boot.Rank, Gen: boot.Gen, Nonce: boot.Nonce, Lease: how.lease, Claim: how.claim, Config: how.pushed,
		})
	}
	child, err := r.launcher.Launch(spec)
	if err != nil {
		return nil, err // and no pointer to nothing
	}
	return child, nil
}

// startKept starts a proc that the next host can adopt: nobody hears of it before it is written down
// (HOST-10).
func (r *execRunner) startKept(spec launch.Spec, k kept) (process, error) {
	draft, err := r.store.reserve(k)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("host-state-reserved")
	child, err := r.launcher.Launch(spec)
	if err != nil {
		draft.drop()
		return nil, err
	}
	k.Process = child.Record()
	failpoint.Hit("host-launched")
	if err := draft.record(k); err != nil {
		_ = child.Kill() // one that cannot be killed is the launcher's to report
		<-child.Done()
		return nil, err
	}
	failpoint.Hit("host-recorded")
	return child, nil
}

func (r *execRunner) marks(id subjects.ProcID) func(launch.Stream, int64) { return r.store.marks(id) }

func (r *execRunner) lease(mesh string, term time.Duration, by agent.Claim) {
	r.store.lease(mesh, term, by)
}

func (r *execRunner) forget(id subjects.ProcID) {
	failpoint.Hit("host-ended")
	r.store.forget(id)
}

// limits are what a proc may take. Those of a mesh that are bound to CPUs take turns with them.
func limits(boot agent.Bootstrap) launch.Limits {
	l := boot.Mesh.Limits
	out := launch.Limits{Memory: l.Memory, Pids: l.Pids, CPU: l.CPU, Files: uint64(l.Files)}
	cpus := runtime.NumCPU()
	for n := range min(l.Bind, cpus) {
		out.CPUs = append(out.CPUs, (boot.Rank%boot.Mesh.PerHost*l.Bind+n)%cpus)
	}
	return out
}

func (r *execRunner) readyAtStart() bool { return false }
func (r *execRunner) trees() string      { return r.launcher.Trees() }
func (r *execRunner) close() error       { return r.launcher.Close() }
