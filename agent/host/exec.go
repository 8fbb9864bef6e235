package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
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
)

const (
	// execsAtOnce bounds the commands that run at a time; the others wait, within their time.
	execsAtOnce = 32
	// execsQueued bounds those that wait.
	execsQueued = 2 * agent.MaxPerHost
	// execFile is how much of a command's output the disk keeps at least.
	execFile = 1 << 20
	// envPID tells a command the process of the rank on whose behalf it runs.
	envPID = "CASTNET_PID"
)

// exec runs a command as a child of the host, and answers when it has ended (HOST-14).
func (a *hostAgent) exec(ctx *actor.Context, e agent.Execution) error {
	if !keys.HostExec.Get(a.opts.Config) {
		return &agent.ExecNotAllowedError{Host: a.id.Label()}
	}
	runs, ok := a.run.(*execRunner)
	if !ok {
		return fmt.Errorf("host %s runs procs in its own process: it starts no commands", a.id.Label())
	}
	if err := e.Check(); err != nil {
		return err
	}
	if len(a.execs.queue) >= execsQueued {
		return fmt.Errorf("host %s: %d commands wait already", a.id.Label(), execsQueued)
	}
	spec, err := a.execSpec(e)
	if err != nil {
		return err
	}
	a.opts.Log.Info().Str("by", sender(ctx)).Str("program", spec.Path).Dur("within", e.Within).Msg("runs a command for a client")
	by := time.Now().Add(e.Within)
	answer := actor.Defer[agent.Executed](ctx)
	wanted, end := context.WithCancelCause(context.Background())
	answer.GivenUp(func() { end(errGivenUp) })
	a.execs.enter(ctx, func(ctx *actor.Context) {
		ctx.Go(func(work context.Context) func(*actor.Context) {
			defer end(nil)
			defer context.AfterFunc(work, func() { end(errHostStops) })()
			answer.Reply(runs.exec(wanted, spec, by))
			return a.execs.leave
		})
	})
	return nil
}

// Why a command is killed before its time is over.
var (
	errGivenUp   = errors.New("who asked for it waits no longer")
	errHostStops = errors.New("the host stops")
)

// execSpec is what is launched for a command: with the environment that procs start with, and of the rank it is for.
func (a *hostAgent) execSpec(e agent.Execution) (launch.Spec, error) {
	path, err := exec.LookPath(e.Command[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return launch.Spec{}, fmt.Errorf("host %s: %w", a.id.Label(), err)
	}
	spec := launch.Spec{
		Name: "exec-" + rand.Text(), Path: path, Args: e.Command[1:], Env: baseEnv(os.Getenv), NoProc: true,
		LogDir: a.opts.Dir, LogCap: execFile,
	}
	if e.Proc == nil {
		return spec, nil
	}
	spec.Env = append(spec.Env, agent.EnvProc+"="+e.Proc.String(), agent.EnvRank+"="+strconv.Itoa(int(e.Proc.Rank)))
	if of := a.shares[e.Proc.Mesh.String()]; of != nil {
		for _, c := range of.procs {
			if c.id == *e.Proc && c.process != nil && !c.life.Over() {
				spec.Env = append(spec.Env, envPID+"="+strconv.Itoa(c.process.PID()))
			}
		}
	}
	return spec, nil
}

// exec launches a command, and waits for its end, at most until by, and no longer than ctx. Its files go with it.
func (r *execRunner) exec(ctx context.Context, spec launch.Spec, by time.Time) (agent.Executed, error) {
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	switch why := context.Cause(ctx); {
	case errors.Is(why, context.DeadlineExceeded):
		return agent.Executed{Code: -1, Late: true}, nil
	case why != nil:
		return agent.Executed{}, fmt.Errorf("exec %s: not begun: %w", spec.Path, why)
	}
	child, err := r.launcher.Launch(spec)
	if err != nil {
		return agent.Executed{}, err
	}
	defer func() {
		for _, path := range []string{child.StdoutPath(), child.StderrPath()} {
			_ = os.Remove(path) // there may be none
		}
	}()
	defer context.AfterFunc(ctx, func() { _ = child.Kill() })() // one that cannot be killed is the launcher's to report
	var out [2]lastWords
	err = child.Follow(context.WithoutCancel(ctx), launch.Following{
		Line:    func(s launch.Stream, line []byte) { out[s].add(line) },
		Skipped: func(s launch.Stream, bytes int64) { out[s].lost += bytes },
	})
	exit := child.Exit()
	done := agent.Executed{
		Code: exit.Code, Signal: exit.Signal, Late: exit.Signal != 0 && errors.Is(ctx.Err(), context.DeadlineExceeded),
		Stdout: out[launch.Stdout].String(), Stderr: out[launch.Stderr].String(), Lost: out[0].lost + out[1].lost,
	}
	if err != nil { // the disk takes no output: that is no reason not to tell how it ended
		done.Stderr += "[castnet] " + err.Error() + "\n"
	}
	switch {
	case exit.Signal != 0 && errors.Is(ctx.Err(), context.Canceled):
		return done, fmt.Errorf("exec %s: killed: %w", spec.Path, context.Cause(ctx))
	case exit.Unknown:
		return done, fmt.Errorf("exec %s: %s", spec.Path, exit)
	}
	return done, nil
}

// lastWords are the end of an output.
type lastWords struct {
	lines []byte
	lost  int64
}

func (e *lastWords) add(line []byte) {
	e.lines = append(append(e.lines, line...), '\n')
	if len(e.lines) > 2*agent.MaxExecOutput {
		e.trim()
	}
}

// trim lets go of what is too old, in whole lines.
func (e *lastWords) trim() {
	over := len(e.lines) - agent.MaxExecOutput
	if over <= 0 {
		return
	}
	over += slices.Index(e.lines[over:], '\n') + 1 // there is one: each line has its own
	e.lost += int64(over)
	e.lines = e.lines[:copy(e.lines, e.lines[over:])]
}

func (e *lastWords) String() string {
	e.trim()
	return strings.ToValidUTF8(string(e.lines), "\uFFFD")
}
