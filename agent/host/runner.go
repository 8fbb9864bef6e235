package host

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/failpoint"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// runner runs the procs of a host, in OS processes or in its own. All methods but resolve are safe
// for concurrent use.
type runner interface {
	// resolve returns how to launch a rank of a mesh, or refuses it.
	resolve(m agent.Mesh, rank int, self string) (launchSpec, error)
	// start starts a proc. readyAtStart reports that the proc needs no ready report.
	start(ctx context.Context, boot agent.Bootstrap, how launchSpec) (process, error)
	readyAtStart() bool
	// treeControl names the way in which descendants of procs are ended.
	treeControl() string
	close() error
}

// launchSpec describes the launch of a proc.
type launchSpec struct {
	command agent.Command // as the client and the host name it
	path    string        // of its executable
	args    []string
	build   string        // the required build; "" = any
	cpus    []int         // it runs on these only; none: on any
	lease   time.Duration // of the mesh, for the adopting host
	claim   agent.Claim   // likewise
	// principal is that of the owner, likewise.
	principal subjects.Principal
	ticket    string // serial of the proc's ticket, likewise

	clientConfig keys.Snapshot // from the client
	config       *keys.Config  // the host's, with the client's pushed values
}

// process is the process of a proc. Terminate does not wait. Exit waits for Done.
type process interface {
	PID() int
	Started() time.Time
	Terminate(grace time.Duration)
	GraceExpired() <-chan struct{} // closed, before Done, when the grace is over and SIGKILL is sent
	GraceExpiredAt() time.Time     // the time of that
	Done() <-chan struct{}
	Exit() launch.Exit
	Output() logfile.Output
	Unenforced() []string
	Usage() (cpu time.Duration, memory int64) // zero: unknown
}

// execRunner runs procs as OS processes.
type execRunner struct {
	opts     Options
	launcher *launch.Launcher
	store    *store // nil: no kept procs
	ownsLogs bool   // no other host uses the run directory
}

func (r *execRunner) resolve(m agent.Mesh, rank int, self string) (how launchSpec, err error) {
	if m.Keep && r.store == nil {
		return launchSpec{}, fmt.Errorf(
			"mesh %s: cannot keep procs when the host dies: start hostd with --state-dir",
			m.ID)
	}
	if m.PerProcess > 1 {
		return launchSpec{}, fmt.Errorf("mesh %s: %d procs in a process: want 1, this host runs each in its own",
			m.ID, m.PerProcess)
	}
	if err := r.opts.ProcLimits.permits(m); err != nil {
		return launchSpec{}, err
	}
	how.command, how.build = r.opts.commandOf(m, rank)
	how.path, how.args, err = r.opts.resolveCommand(how.command, self)
	if err == nil {
		err = cmp.Or(checkArgs(how.args), checkArgs([]string{how.command.Arg0}), checkEnv(how.command.Env))
	}
	if own := m.RankSpec(rank); err == nil {
		how.cpus, err = launch.UsableCPUs(own.CPUs, own.NUMANodes)
	}
	if err != nil && len(m.Ranks) > 0 {
		err = fmt.Errorf("mesh %s: rank %d: %w", m.ID, rank, err)
	}
	return how, err
}

// commandOf returns the command of a rank, and the build that its program must have; "": any. The
// host's own command replaces the caller's executable, which is the one with a build.
func (o Options) commandOf(m agent.Mesh, rank int) (c agent.Command, build string) {
	c = m.Command
	build = m.Build
	if build != "" && o.Command.Path != "" {
		c.Path = ""
		c = o.Command.With(c)
		build = ""
	}
	own := m.RankSpec(rank).Command
	if own.Path != "" {
		build = ""
	}
	return c.With(own), build
}

func (r *execRunner) start(_ context.Context, boot agent.Bootstrap, how launchSpec) (process, error) {
	payload, err := wire.Marshal(agent.LaunchPayload{Proc: &boot})
	if err != nil {
		return nil, err
	}
	spec := launch.Spec{
		Name: boot.ProcID().Process().String(), Path: how.path, Arg0: how.command.Arg0, Args: how.args,
		Env: slices.Concat(r.opts.userEnv(), how.command.Env, rankEnv(boot)), Dir: how.command.Dir,
		Payload: payload, LogDir: r.opts.RunDir, LogCap: r.opts.LogCap, Limits: limits(boot, how.cpus),
		Keep: boot.Mesh.Keep,
	}
	if boot.Mesh.Keep {
		return r.startKept(spec, procRecord{
			Mesh: boot.Mesh, Rank: boot.Rank, Gen: boot.Gen, Nonce: boot.Nonce, Ticket: how.ticket,
			Lease: how.lease, Claim: how.claim, Principal: how.principal, Config: how.clientConfig,
		})
	}
	child, err := r.launcher.Launch(spec)
	if err != nil {
		return nil, err // an untyped nil
	}
	return child, nil
}

// startKept starts an adoptable proc. It records the proc before the proc becomes visible
// (HOST-10).
func (r *execRunner) startKept(spec launch.Spec, k procRecord) (process, error) {
	draft, err := r.store.reserve(k)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("host-state-reserved")
	child, err := r.launcher.Launch(spec)
	if err != nil {
		draft.discard()
		return nil, err
	}
	k.Process = child.Record()
	failpoint.Hit("host-launched")
	if err := draft.record(k); err != nil {
		_ = child.Kill() // the launcher reports survivors
		<-child.Done()
		return nil, err
	}
	failpoint.Hit("host-recorded")
	return child, nil
}

// limits returns the limits of a proc. Pinned procs of a mesh without CPUs of their own take turns
// with the CPUs.
func limits(boot agent.Bootstrap, own []int) launch.Limits {
	l := boot.Mesh.Limits
	out := launch.Limits{Memory: l.Memory, Pids: l.Pids, CPU: l.CPU, Files: uint64(l.Files), CPUs: own}
	if len(own) > 0 {
		return out
	}
	cpus := runtime.NumCPU()
	for n := range min(l.PinnedCPUs, cpus) {
		out.CPUs = append(out.CPUs, (boot.Rank%boot.Mesh.PerHost*l.PinnedCPUs+n)%cpus)
	}
	return out
}

func (r *execRunner) readyAtStart() bool  { return false }
func (r *execRunner) treeControl() string { return r.launcher.TreeControl() }
func (r *execRunner) close() error        { return r.launcher.Close() }
