package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Exit codes for commands without one of their own, as in shells and timeout(1).
const (
	timeoutCode     = 124 // killed on timeout
	unreachableCode = 125 // no answer from the host
	refusedCode     = 126 // refused by the host
	signalCode      = 128 // plus the number of the fatal signal
)

const (
	// execTimeoutMargin is the host's time beyond the command's.
	execTimeoutMargin = 5 * time.Second
	// maxConcurrentExecs bounds concurrent commands.
	maxConcurrentExecs = 256
)

// execSpec is a command with its target.
type execSpec struct {
	target  *target // nil: hosts themselves
	hosts   hostSelector
	perHost bool
	command []string
	timeout time.Duration
}

func (a *app) execCommand() *cobra.Command {
	var s execSpec
	c := &cobra.Command{
		Use:   "exec [MESH[region]] -- COMMAND [ARG…]",
		Short: "Run a command on the hosts of a region, and merge equal output",
		Long: `Run a command for each rank of a region, on the host of the rank; with --hosts once on each of
these hosts; and without a mesh on every host. Equal results are shown once.

The command is a path, or a name that each host looks up; it does not run in a shell. It runs as the
user of hostd, without input, and is killed with its children after --timeout, or by Ctrl-C.
The last 64 KiB of each output are shown. For a rank it finds in its environment
CASTNET_RANK, CASTNET_PROC_ID and, while the rank lives, CASTNET_PID.

A host runs commands only where its operator allows that: hostd --allow-exec, or host.allow-exec: on.

The exit code is the highest of all: that of the command, 128 plus the signal that killed it, 124
after --timeout, 126 if a host refuses it, 125 if a host does not answer or a rank has no host.

JSON: region, ranks (both of a mesh alone), hosts, exit_code, signal, late, stdout, stderr, lost
(omitted earlier bytes), error.`,
		Example: `  castnet exec -- uptime
  castnet exec --label zone=a -- df -h /var
  castnet exec demo --hosts -- nvidia-smi -L
  castnet exec 'demo[host=0:2]' -- sh -c 'grep VmRSS /proc/$CASTNET_PID/status'`,
		ValidArgsFunction: a.complete(liveNames),
	}
	addFlag(c.Flags(), &s.hosts.labels, "label", "KEY=VALUE", "without a mesh: only hosts with these labels; several with commas between", readLabels)
	c.Flags().BoolVar(&s.perHost, "hosts", false, "once per host of the region instead of once per rank")
	_ = c.RegisterFlagCompletionFunc("label", func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return a.complete(hostLabelPairs)(c, nil, prefix)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := s.parse(args, c.ArgsLenAtDash(), a.conn.Timeout); err != nil {
			return err
		}
		return a.withNet(c.Context(), func(net *mesh.Net) error { return a.exec(c.Context(), net, s) })
	}
	return c
}

// parse reads the arguments. dash is their number before "--".
func (s *execSpec) parse(args []string, dash int, timeout time.Duration) error {
	switch {
	case dash < 0:
		return cli.Usagef("exec: want -- before the command, such as castnet exec demo -- uptime")
	case dash > 1:
		return cli.Usagef("unexpected argument %q before --: want one target at most", args[1])
	case dash == len(args):
		return cli.Usagef("exec: want a command after --")
	case timeout > agent.MaxExecTimeout:
		return cli.Usagef("--timeout %s: a command may take %s at most", timeout, agent.MaxExecTimeout)
	case dash == 1 && len(s.hosts.labels) > 0:
		return cli.Usagef("--label chooses among all hosts: want it without a mesh")
	}
	s.command = args[dash:]
	s.timeout = timeout
	if dash == 0 {
		return nil
	}
	t, err := parseTarget(args[0])
	s.target = &t
	return err
}

// execTask is one command to run.
type execTask struct {
	rank int // -1: no rank
	host subjects.HostID
	proc *subjects.ProcID
}

// resolve finds the hosts and ranks of the target. The extent is that of the mesh, if any.
func (s execSpec) resolve(ctx context.Context, net *mesh.Net) ([]execTask, shape.Extent, error) {
	if s.target == nil {
		_, infos, err := s.hosts.find(ctx, net)
		var out []execTask
		for _, h := range infos {
			out = append(out, execTask{rank: -1, host: h.ID})
		}
		return out, shape.Extent{}, err
	}
	inv, procs, err := net.InventoryFor(ctx, s.target.name)
	if err != nil {
		return nil, shape.Extent{}, orEmptyWorld(ctx, net, s.target.name, err)
	}
	p, err := s.target.resolveIn(procs)
	if err != nil {
		return nil, shape.Extent{}, err
	}
	at := slices.IndexFunc(inv.Meshes, func(m mesh.MeshState) bool { return m.Procs.ID() == procs.ID() })
	m := inv.Meshes[at]
	m.States = slices.DeleteFunc(m.States, func(s agent.State) bool { return s.Status.Phase == agent.Unknown }) // on a silent host
	out, err := s.tasksIn(m, p.region)
	if err == nil && len(out) == 0 { // ranks of a world whose hosts have not joined
		err = withMissingHosts(inv, fmt.Errorf("exec: no host has a rank of %s", s.target))
	}
	return out, p.base, err
}

// tasksIn returns the tasks for a region, by rank. A rank without host gives a task without host.
func (s execSpec) tasksIn(m mesh.MeshState, region shape.Region) (out []execTask, err error) {
	desc := m.Procs.Describe()
	known := map[int]bool{}
	for _, st := range m.States {
		known[st.Rank] = true
	}
	for _, rank := range region.Ranks() {
		if !s.perHost && !known[rank] {
			out = append(out, execTask{rank: rank})
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
		e := execTask{rank: -1, host: host}
		if !s.perHost {
			out = append(out, execTask{st.Rank, host, &id})
		} else if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(x, y execTask) int { return cmp.Compare(x.rank, y.rank) })
	return out, nil
}

// exec runs the command on all targets and prints the results.
func (a *app) exec(ctx context.Context, net *mesh.Net, s execSpec) error {
	looking, cancel := context.WithTimeout(ctx, a.conn.Timeout)
	defer cancel()
	errands, base, err := s.resolve(looking, net)
	if err != nil {
		return err
	}
	bar := a.newProgress()
	bar.update(0, len(errands), "have ended")
	results := make([]execResult, len(errands))
	ended := make(chan struct{}, len(errands))
	go func() {
		defer close(ended)
		var all sync.WaitGroup
		room := make(chan struct{}, maxConcurrentExecs)
		for i, e := range errands {
			room <- struct{}{}
			all.Go(func() {
				results[i] = s.run(ctx, net, e)
				<-room
				ended <- struct{}{}
			})
		}
		all.Wait()
	}()
	n := 0
	for range ended { // each has a deadline
		n++
		bar.update(n, len(errands), "have ended")
	}
	bar.clear()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return a.showExec(groupExecResults(base, results))
}

// run runs the command on one host.
func (s execSpec) run(ctx context.Context, net *mesh.Net, e execTask) execResult {
	if !e.host.IsValid() {
		return execResult{execTask: e, code: unreachableCode, err: "no host has it"}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout+execTimeoutMargin)
	defer cancel()
	done, err := agent.Exec.Call(ctx, agent.Of(e.host.Proc()).Via(net.Proc()), agent.ExecRequest{Command: s.command, Timeout: s.timeout, Proc: e.proc})
	r := execResult{execTask: e, done: done, code: done.Code}
	said, ok := errors.AsType[*actor.Error](err)
	switch {
	case ok && said.Ran:
		r.code, r.err = refusedCode, strings.TrimPrefix(said.Text, "host "+e.host.Label()+": ") // all refusals have this form
	case err != nil:
		r.code, r.err = unreachableCode, stripActorID(err.Error())
	case done.TimedOut:
		r.code = timeoutCode
	case done.Signal != 0:
		r.code = signalCode + done.Signal
	}
	return r
}

// showExec prints equal results once. Its error has the highest exit code.
func (a *app) showExec(groups []execGroup) error {
	if a.output != asTable {
		if err := showRecords(a, groups, nil, nil); err != nil {
			return err
		}
	} else {
		for _, g := range groups {
			if _, err := fmt.Fprint(a.stdout, a.execText(g)); err != nil {
				return err
			}
		}
	}
	worst := slices.MaxFunc(groups, func(x, y execGroup) int { return x.code - y.code })
	if worst.code == 0 {
		return nil
	}
	return cli.WithCode(worst.code, fmt.Errorf("exec: %s: %s", worst.describeTargets(), worst.describeResult(true)))
}

// execText formats a group for people, on one line if possible.
func (a *app) execText(g execGroup) string {
	who := a.paint(cyan, g.describeTargets())
	if len(g.Ranks) == 0 {
		who += ":"
	}
	out := strings.TrimSuffix(g.Stdout, "\n")
	if g.code == 0 && g.Stderr == "" && g.DroppedBytes == 0 && !strings.Contains(out, "\n") {
		return strings.TrimSuffix(who+" "+out, " ") + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", who, a.paintExecResult(g))
	for line := range strings.Lines(g.Stdout) {
		b.WriteString("  " + line)
	}
	for line := range strings.Lines(g.Stderr) {
		b.WriteString("  " + a.paint(yellow, "| "+strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// paintExecResult formats the exit status in colour.
func (a *app) paintExecResult(g execGroup) string {
	if g.code == 0 {
		return a.paint(green, g.describeResult(false))
	}
	return a.paint(red, g.describeResult(false))
}
