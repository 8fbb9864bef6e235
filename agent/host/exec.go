package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/logfile"
)

const (
	// maxExecs bounds concurrent commands. The others wait, within their timeout.
	maxExecs = 32
	// maxQueuedExecs bounds waiting commands.
	maxQueuedExecs = 2 * agent.MaxPerHost
	// execOutputCap is the file size kept, at least, of a command's output.
	execOutputCap = 1 << 20
	// envPID holds the process ID of the rank on whose behalf the command runs.
	envPID = "CASTNET_PID"
)

// Outcomes of commands in the metrics of the host.
const (
	execSucceeded = "succeeded" // exit code 0
	execFailed    = "failed"    // another end of the command, or no start
	execTimedOut  = "timed_out"
	execRefused   = "refused"
)

// exec runs a command as a child of the host and replies when it has ended (HOST-2).
func (a *hostAgent) exec(ctx *actor.Context, e agent.ExecRequest) error {
	err := a.startExec(ctx, e)
	if err != nil {
		agent.CountersOf(ctx.Proc()).CountExec(execRefused)
	}
	return err
}

// execOutcome is the outcome of a command that was not refused.
func execOutcome(r agent.ExecResult, err error) string {
	if r.TimedOut {
		return execTimedOut
	}
	if err != nil || r.ExitCode != 0 || r.Signal != 0 {
		return execFailed
	}
	return execSucceeded
}

func (a *hostAgent) startExec(ctx *actor.Context, e agent.ExecRequest) error {
	if !keys.HostAllowExec.Get(a.opts.Config) {
		return &agent.ExecNotAllowedError{Host: a.id.Label()}
	}
	runs, ok := a.runner.(*execRunner)
	if !ok {
		return fmt.Errorf("host %s runs procs in its own process: it cannot run commands", a.id.Label())
	}
	if err := e.Check(); err != nil {
		return err
	}
	if len(a.execs.queue) >= maxQueuedExecs {
		return fmt.Errorf("host %s: %d commands are waiting already", a.id.Label(), maxQueuedExecs)
	}
	spec, err := a.execSpec(runs, e)
	if err != nil {
		return err
	}
	by := time.Now().Add(e.Timeout)
	counters := agent.CountersOf(ctx.Proc())
	answer := actor.Defer[agent.ExecResult](ctx)
	wanted, end := context.WithCancelCause(context.Background())
	answer.OnCancel(func() { end(errExecCanceled) })
	a.execs.acquire(ctx, func(ctx *actor.Context) {
		ctx.Go(func(work context.Context) func(*actor.Context) {
			defer end(nil)
			defer context.AfterFunc(work, func() { end(errHostStopping) })()
			result, err := runs.exec(wanted, spec, by)
			counters.CountExec(execOutcome(result, err))
			answer.Reply(result, err)
			return a.execs.release
		})
	})
	return nil
}

// Reasons to kill a command before its timeout.
var (
	errExecCanceled = errors.New("the caller no longer waits")
	errHostStopping = errors.New("the host is stopping")
)

// execSpec returns the launch spec of a command. The command gets the environment of procs, and of
// its rank.
func (a *hostAgent) execSpec(runs *execRunner, e agent.ExecRequest) (launch.Spec, error) {
	path, err := exec.LookPath(e.Command[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return launch.Spec{}, fmt.Errorf("host %s: %w", a.id.Label(), err)
	}
	spec := launch.Spec{
		Name: "exec-" + rand.Text(), Path: path, Args: e.Command[1:], Env: runs.opts.userEnv(), NoInherit: true,
		LogDir: a.opts.RunDir, LogCap: execOutputCap,
	}
	if e.Proc == nil {
		return spec, nil
	}
	spec.Env = append(spec.Env, agent.EnvProc+"="+e.Proc.String(),
		agent.EnvRank+"="+strconv.Itoa(int(e.Proc.Rank)))
	if of := a.procs[e.Proc.Mesh.String()]; of != nil {
		for _, c := range of.procs {
			if c.id == *e.Proc && c.process != nil && !c.state.Terminal() {
				spec.Env = append(spec.Env, envPID+"="+strconv.Itoa(c.process.PID()))
			}
		}
	}
	return spec, nil
}

// exec launches a command and waits for its end, until by or the end of ctx. It removes the
// command's files.
func (r *execRunner) exec(ctx context.Context, spec launch.Spec, by time.Time) (agent.ExecResult, error) {
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		return agent.ExecResult{ExitCode: -1, TimedOut: true}, nil
	}
	if cause != nil {
		return agent.ExecResult{}, fmt.Errorf("exec %s: not started: %w", spec.Path, cause)
	}
	child, err := r.launcher.Launch(spec)
	if err != nil {
		return agent.ExecResult{}, err
	}
	defer child.Output().Remove()
	defer context.AfterFunc(ctx, func() { _ = child.Kill() })() // the launcher reports survivors
	var out [2]exitOutput
	err = child.Output().Follow(context.WithoutCancel(ctx), child.Done(), logfile.Handler{
		Line:    func(s logfile.Stream, line []byte) { out[s].add(line) },
		Skipped: func(s logfile.Stream, bytes int64) { out[s].dropped += bytes },
	})
	exit := child.Exit()
	done := agent.ExecResult{
		ExitCode: exit.Code, Signal: exit.Signal,
		TimedOut: exit.Signal != 0 && errors.Is(ctx.Err(), context.DeadlineExceeded),
		Stdout:   out[logfile.Stdout].String(), Stderr: out[logfile.Stderr].String(),
		DroppedBytes: out[0].dropped + out[1].dropped,
	}
	if err != nil { // a full disk does not hide the exit status
		done.Stderr += "[castnet] " + err.Error() + "\n"
	}
	if exit.Signal != 0 && errors.Is(ctx.Err(), context.Canceled) {
		return done, fmt.Errorf("exec %s: killed: %w", spec.Path, context.Cause(ctx))
	}
	if exit.Unknown {
		return done, fmt.Errorf("exec %s: %s", spec.Path, exit)
	}
	return done, nil
}

// exitOutput holds the end of an output.
type exitOutput struct {
	lines   []byte
	dropped int64
}

func (e *exitOutput) add(line []byte) {
	e.lines = append(append(e.lines, line...), '\n')
	if len(e.lines) > 2*agent.MaxExecOutput {
		e.trim()
	}
}

// trim removes the oldest whole lines.
func (e *exitOutput) trim() {
	over := len(e.lines) - agent.MaxExecOutput
	if over <= 0 {
		return
	}
	over += slices.Index(e.lines[over:], '\n') + 1 // found: each line has its own
	e.dropped += int64(over)
	e.lines = e.lines[:copy(e.lines, e.lines[over:])]
}

func (e *exitOutput) String() string {
	e.trim()
	return strings.ToValidUTF8(string(e.lines), "\uFFFD")
}
