package hostexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Exit codes for commands without one of their own, as in shells and timeout(1).
const (
	TimeoutCode     = 124 // killed on timeout
	unreachableCode = 125 // no answer from the host
	RefusedCode     = 126 // refused by the host
	SignalCode      = 128 // plus the number of the fatal signal
)

const (
	// execTimeoutMargin is the host's time beyond the command's.
	execTimeoutMargin = 5 * time.Second
	// maxConcurrentExecs bounds concurrent commands.
	maxConcurrentExecs = 256
)

// Spec is a command with its target.
type Spec struct {
	target  *target.Target // nil: hosts themselves
	Hosts   target.HostSelector
	PerHost bool
	command []string
	timeout time.Duration
}

// Parse reads the arguments. dash is their number before "--".
func (s *Spec) Parse(args []string, dash int, timeout time.Duration) error {
	switch {
	case dash < 0:
		return cli.Usagef("exec: want -- before the command, such as castnet exec demo -- uptime")
	case dash > 1:
		return cli.Usagef("unexpected argument %q before --: want one target at most", args[1])
	case dash == len(args):
		return cli.Usagef("exec: want a command after --")
	case timeout > agent.MaxExecTimeout:
		return cli.Usagef("--timeout %s: a command may take %s at most", timeout, agent.MaxExecTimeout)
	case dash == 1 && len(s.Hosts.Labels) > 0:
		return cli.Usagef("--label chooses among all hosts: want it without a mesh")
	}
	s.command = args[dash:]
	s.timeout = timeout
	if dash == 0 {
		return nil
	}
	t, err := target.Parse(args[0])
	s.target = &t
	return err
}

// task is one command to run.
type task struct {
	rank   int // -1: no rank
	host   subjects.HostID
	proc   *subjects.ProcID
	absent string // why it cannot run
}

// hostTasks returns the tasks for hosts without a mesh, the silent ones included.
func (s Spec) hostTasks(ctx context.Context, conn *mesh.Net) (out []task, err error) {
	inv, infos, err := s.Hosts.Find(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, h := range infos {
		out = append(out, task{rank: -1, host: h.ID})
	}
	for _, h := range inv.Silent() {
		if h.State != agent.HostDead && s.Hosts.Matches(h.HostInfo) {
			out = append(out, task{rank: -1, host: h.ID, absent: "no answer"})
		}
	}
	if len(out) == 0 {
		err = target.WithMissingHosts(inv, errors.New("exec: no host answers"))
	}
	return out, err
}

// resolve finds the hosts and ranks of the target. The extent is that of the mesh, if any.
func (s Spec) resolve(ctx context.Context, conn *mesh.Net) ([]task, shape.Extent, error) {
	if s.target == nil {
		out, err := s.hostTasks(ctx, conn)
		return out, shape.Extent{}, err
	}
	inv, procs, err := conn.InventoryFor(ctx, s.target.Name)
	if err != nil {
		return nil, shape.Extent{}, target.OrEmptyWorld(ctx, conn, s.target.Name, err)
	}
	p, err := s.target.ResolveIn(procs)
	if err != nil {
		return nil, shape.Extent{}, err
	}
	at := slices.IndexFunc(inv.Meshes, func(m mesh.MeshState) bool { return m.Procs.ID() == procs.ID() })
	m := inv.Meshes[at]
	// on a silent host
	m.States = slices.DeleteFunc(m.States, func(s agent.State) bool { return s.Status.Phase == agent.Unknown })
	out, err := s.tasksIn(m, p.Region)
	if err == nil && len(out) == 0 { // ranks of a world whose hosts have not joined
		err = target.WithMissingHosts(inv, fmt.Errorf("exec: no host has a rank of %s", s.target))
	}
	return out, p.Base, err
}

// tasksIn returns the tasks for a region, by rank. A rank without host gives a task without host.
func (s Spec) tasksIn(m mesh.MeshState, region shape.Region) (out []task, err error) {
	desc := m.Procs.Describe()
	known := map[int]bool{}
	for _, st := range m.States {
		known[st.Rank] = true
	}
	for _, rank := range region.Ranks() {
		if !s.PerHost && !known[rank] {
			out = append(out, task{rank: rank, absent: "no host has it"})
		}
	}
	for _, st := range m.States {
		if !region.Contains(st.Rank) {
			continue
		}
		host, err := m.Procs.Host(st.Rank)
		if err != nil {
			return nil, err
		}
		id := desc.ProcID(st.Rank, st.Gen)
		e := task{rank: -1, host: host}
		if !s.PerHost {
			out = append(out, task{rank: st.Rank, host: host, proc: &id})
		} else if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(x, y task) int { return cmp.Compare(x.rank, y.rank) })
	return out, nil
}

// Run runs the command on all targets and prints the results.
func Run(ctx context.Context, a *app.App, conn *mesh.Net, s Spec) error {
	looking, cancel := context.WithTimeout(ctx, a.Conn.Timeout)
	defer cancel()
	errands, base, err := s.resolve(looking, conn)
	if err != nil {
		return err
	}
	bar := a.NewProgress()
	bar.Update(0, len(errands), "have ended")
	results := make([]result, len(errands))
	ended := make(chan struct{}, len(errands))
	go func() {
		defer close(ended)
		fanout.Each(maxConcurrentExecs, errands, func(i int, e task) {
			results[i] = s.run(ctx, conn, e)
			ended <- struct{}{}
		})
	}()
	n := 0
	for range ended { // each has a deadline
		n++
		bar.Update(n, len(errands), "have ended")
	}
	bar.Clear()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return showExec(a.Printer, groupExecResults(base, results))
}

// run runs the command on one host.
func (s Spec) run(ctx context.Context, conn *mesh.Net, e task) result {
	if e.absent != "" {
		return result{task: e, code: unreachableCode, err: e.absent}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout+execTimeoutMargin)
	defer cancel()
	done, err := agent.Exec.Call(
		ctx, agent.Of(e.host.Proc()).Via(conn.Proc()),
		agent.ExecRequest{Command: s.command, Timeout: s.timeout, Proc: e.proc},
	)
	r := result{task: e, done: done, code: done.ExitCode}
	said, ok := errors.AsType[*actor.Error](err)
	switch {
	case ok && said.Ran:
		// all refusals have this form
		r.code, r.err = RefusedCode, strings.TrimPrefix(said.Text, "host "+e.host.Label()+": ")
	case err != nil:
		r.code, r.err = unreachableCode, text.StripActorID(err.Error())
	case done.TimedOut:
		r.code = TimeoutCode
	case done.Signal != 0:
		r.code = SignalCode + done.Signal
	}
	return r
}

// showExec prints equal results once. Its error has the highest exit code, and the targets where
// the command did not run: a table does not list these.
func showExec(out *output.Printer, groups []Group) error {
	if out.Format != output.Table {
		if err := output.Records(out, groups, nil, nil); err != nil {
			return err
		}
	}
	var failed []string
	for _, g := range groups {
		if g.Error != "" {
			failed = append(failed, g.describeTargets()+": "+g.Error)
		} else if out.Format == output.Table {
			if _, err := fmt.Fprint(out.Stdout, execText(out, g)); err != nil {
				return err
			}
		}
	}
	worst := slices.MaxFunc(groups, func(x, y Group) int { return x.code - y.code })
	if worst.code == 0 {
		return nil
	}
	if more := len(failed) - inspect.MaxReasons; more > 0 {
		failed = append(failed[:inspect.MaxReasons], fmt.Sprintf("and %s", text.Pluralize(more, "more result")))
	}
	if len(failed) == 0 {
		failed = []string{worst.describeTargets() + ": " + worst.describeResult(true)}
	}
	return cli.WithCode(worst.code, errors.New("exec: "+strings.Join(failed, "\n  ")))
}

// execText formats a group for people, on one line if possible.
func execText(out *output.Printer, g Group) string {
	who := out.Paint(output.Cyan, g.describeTargets())
	if len(g.Ranks) == 0 {
		who += ":"
	}
	text := strings.TrimSuffix(g.Stdout, "\n")
	if g.code == 0 && g.Stderr == "" && g.DroppedBytes == 0 && !strings.Contains(text, "\n") {
		return strings.TrimSuffix(who+" "+text, " ") + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", who, paintExecResult(out, g))
	for line := range strings.Lines(g.Stdout) {
		b.WriteString("  " + line)
	}
	for line := range strings.Lines(g.Stderr) {
		b.WriteString("  " + out.Paint(output.Yellow, "| "+strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// paintExecResult formats the exit status in colour.
func paintExecResult(out *output.Printer, g Group) string {
	if g.code == 0 {
		return out.Paint(output.Green, g.describeResult(false))
	}
	return out.Paint(output.Red, g.describeResult(false))
}
