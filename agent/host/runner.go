package host

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/wire"
)

// runner is how a host runs procs: each as an OS process, or in its own. Its methods but prepare may be
// called on any goroutine.
type runner interface {
	// prepare says what runs the procs of a mesh, or why they may not.
	prepare(m agent.Mesh, self string) (program, error)
	// start starts one; readyAtStart says that it can be reached then, else it says so itself.
	start(ctx context.Context, boot agent.Bootstrap, how program) (process, error)
	readyAtStart() bool
	// trees says how processes that procs have started are ended.
	trees() string
	close() error
}

// program is what a proc runs.
type program struct {
	path string
	args []string

	pushed keys.Snapshot // by the client
	config *keys.Config  // the host's, with what was pushed
}

// process is what runs a proc. Terminate does not wait; Exit waits for Done.
type process interface {
	PID() int
	Started() time.Time
	Terminate(grace time.Duration)
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
}

func (r *execRunner) prepare(m agent.Mesh, self string) (program, error) {
	if m.PerProcess > 1 {
		return program{}, fmt.Errorf("mesh %s: %d procs in a process: this host gives each its own: want 1", m.ID, m.PerProcess)
	}
	path, args, err := r.opts.resolve(m.Command, self)
	if err == nil {
		err = checkEnv(m.Command.Env)
	}
	return program{path: path, args: args}, err
}

func (r *execRunner) start(_ context.Context, boot agent.Bootstrap, how program) (process, error) {
	payload, err := wire.Marshal(agent.Launch{Proc: &boot})
	if err != nil {
		return nil, err
	}
	child, err := r.launcher.Launch(launch.Spec{
		Name: boot.ProcID().Process().String(), Path: how.path, Args: how.args,
		Env: slices.Concat(baseEnv(os.Getenv), boot.Mesh.Command.Env), Dir: boot.Mesh.Command.Dir,
		Payload: payload, LogDir: r.opts.Dir, LogCap: r.opts.LogCap, Limits: limits(boot),
	})
	if err != nil {
		return nil, err // and no pointer to nothing
	}
	return child, nil
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
