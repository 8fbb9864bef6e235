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
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// The exit codes for what a command did not end with itself, as shells and timeout(1) have them.
const (
	lateCode      = 124 // killed, because its time was over
	unreachedCode = 125 // the host did not answer
	refusedCode   = 126 // the host does not run it
	signalCode    = 128 // and the number of the signal that killed it
)

const (
	// execAllowance is what a host gets beyond the time of the command.
	execAllowance = 5 * time.Second
	// execAtOnce bounds the commands that are under way at a time.
	execAtOnce = 256
)

// execSpec is what to run, and where.
type execSpec struct {
	to      *target // nil: hosts, whatever runs there
	pick    hostPick
	perHost bool
	command []string
	within  time.Duration
}

func (a *app) execCommand() *cobra.Command {
	var s execSpec
	c := &cobra.Command{
		Use:   "exec [MESH[region]] -- COMMAND [ARG…]",
		Short: "Run a command on the hosts of a region, and fold what they say",
		Long: `Run a command for each rank of a region, on the host that has it; with --hosts once on each of
these hosts; and without a mesh on every host. Those who say the same are shown once.

The command is a path, or a name that each host looks up; there is no shell but one that you name.
It runs as the user of hostd, reads nothing, and is killed with all it has started after --timeout,
or by Ctrl-C.
The end of what it prints is shown, 64 KiB of each output. For a rank it finds in its environment
CASTNET_RANK, CASTNET_PROC_ID and, while the rank lives, CASTNET_PID.

A host runs commands only where its operator allows that: hostd --allow-exec, or host.exec: on.

The exit code is the highest of all: that of the command, 128 and the signal that killed it, 124
when --timeout did, 126 when a host does not run it, 125 when a host does not answer, or none has a rank.

JSON: region, ranks (both of a mesh alone), hosts, exit_code, signal, late, stdout, stderr, lost
(bytes that were printed before), error.`,
		Example: `  client exec -- uptime
  client exec --label zone=a -- df -h /var
  client exec demo --hosts -- nvidia-smi -L
  client exec 'demo[host=0:2]' -- sh -c 'grep VmRSS /proc/$CASTNET_PID/status'`,
		ValidArgsFunction: a.complete(liveNames),
	}
	readFlag(c.Flags(), &s.pick.labels, "label", "KEY=VALUE", "without a mesh: only hosts with these labels; several with commas between", readLabels)
	c.Flags().BoolVar(&s.perHost, "hosts", false, "once on each host of the region, and not for each of its ranks")
	_ = c.RegisterFlagCompletionFunc("label", func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return a.complete(hostLabelPairs)(c, nil, prefix)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := s.parse(args, c.ArgsLenAtDash(), a.conn.Timeout); err != nil {
			return err
		}
		return a.connected(c.Context(), func(net *mesh.Net) error { return a.exec(c.Context(), net, s) })
	}
	return c
}

// parse reads the arguments; so many of them are before the dash.
func (s *execSpec) parse(args []string, dash int, timeout time.Duration) error {
	switch {
	case dash < 0:
		return cli.Usagef("exec: want -- before the command, such as client exec demo -- uptime")
	case dash > 1:
		return cli.Usagef("unexpected argument %q before --: want one target at most", args[1])
	case dash == len(args):
		return cli.Usagef("exec: want a command after --")
	case timeout > agent.MaxExec:
		return cli.Usagef("--timeout %s: a command may take %s at most", timeout, agent.MaxExec)
	case dash == 1 && len(s.pick.labels) > 0:
		return cli.Usagef("--label chooses among all hosts: want it without a mesh")
	}
	s.command, s.within = args[dash:], timeout
	if dash == 0 {
		return nil
	}
	t, err := parseTarget(args[0])
	s.to = &t
	return err
}

// errand is one command that is to run.
type errand struct {
	rank int // -1: for none
	host subjects.HostID
	proc *subjects.ProcID
}

// aim finds where the command is to run. The extent is that of the mesh, if there is one.
func (s execSpec) aim(ctx context.Context, net *mesh.Net) ([]errand, shape.Extent, error) {
	if s.to == nil {
		infos, err := s.pick.find(ctx, net)
		var out []errand
		for _, h := range infos {
			out = append(out, errand{rank: -1, host: h.ID})
		}
		return out, shape.Extent{}, err
	}
	p, err := s.to.find(ctx, net)
	if err != nil {
		return nil, shape.Extent{}, err
	}
	meshes, err := net.Meshes(ctx)
	at := slices.IndexFunc(meshes, func(m mesh.MeshState) bool { return m.Procs.ID() == p.procs.ID() })
	if at < 0 {
		return nil, p.base, cmp.Or(err, error(&mesh.NotFoundError{What: "mesh", Name: s.to.name}))
	}
	out, err := s.among(meshes[at], p.region)
	if err == nil && len(out) == 0 { // ranks of a world whose hosts have not joined
		err = cli.WithCode(cli.ExitNotFound, fmt.Errorf("exec: no host has a rank of %s", s.to))
	}
	return out, p.base, err
}

// among are the errands to a region of a mesh, by rank. One to a rank that no host has is to no host.
func (s execSpec) among(m mesh.MeshState, region shape.Region) (out []errand, err error) {
	desc := m.Procs.Describe()
	known := map[int]bool{}
	for _, st := range m.States {
		known[st.Rank] = true
	}
	for _, rank := range region.Ranks() {
		if !s.perHost && !known[rank] {
			out = append(out, errand{rank: rank})
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
		id := desc.Proc(st.Rank, st.Gen)
		switch e := (errand{rank: -1, host: host}); {
		case !s.perHost:
			out = append(out, errand{st.Rank, host, &id})
		case !slices.Contains(out, e):
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(x, y errand) int { return cmp.Compare(x.rank, y.rank) })
	return out, nil
}

// exec runs the command everywhere, and shows what came of it.
func (a *app) exec(ctx context.Context, net *mesh.Net, s execSpec) error {
	looking, cancel := context.WithTimeout(ctx, a.conn.Timeout)
	defer cancel()
	errands, base, err := s.aim(looking, net)
	if err != nil {
		return err
	}
	bar := a.newProgress()
	bar.step(0, len(errands), "have ended")
	results := make([]execResult, len(errands))
	ended := make(chan struct{}, len(errands))
	go func() {
		defer close(ended)
		var all sync.WaitGroup
		room := make(chan struct{}, execAtOnce)
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
		bar.step(n, len(errands), "have ended")
	}
	bar.clear()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return a.showExec(foldExec(base, results))
}

// run has one host run the command.
func (s execSpec) run(ctx context.Context, net *mesh.Net, e errand) execResult {
	if !e.host.IsValid() {
		return execResult{errand: e, code: unreachedCode, err: "no host has it"}
	}
	ctx, cancel := context.WithTimeout(ctx, s.within+execAllowance)
	defer cancel()
	done, err := agent.Exec.Call(ctx, agent.Of(e.host.Proc()).Via(net.Proc()), agent.Execution{Command: s.command, Within: s.within, Proc: e.proc})
	r := execResult{errand: e, done: done, code: done.Code}
	said, ok := errors.AsType[*actor.Error](err)
	switch {
	case ok && said.Ran:
		r.code, r.err = refusedCode, strings.TrimPrefix(said.Text, "host "+e.host.Label()+": ") // all refuse alike
	case err != nil:
		r.code, r.err = unreachedCode, withoutAddress(err.Error())
	case done.Late:
		r.code = lateCode
	case done.Signal != 0:
		r.code = signalCode + done.Signal
	}
	return r
}

// showExec shows those who said the same once. Its error has the highest exit code of all.
func (a *app) showExec(groups []execGroup) error {
	if a.output != asTable {
		if err := show(a, groups, nil, nil); err != nil {
			return err
		}
	} else {
		for _, g := range groups {
			if _, err := fmt.Fprint(a.out, a.execText(g)); err != nil {
				return err
			}
		}
	}
	worst := slices.MaxFunc(groups, func(x, y execGroup) int { return x.code - y.code })
	if worst.code == 0 {
		return nil
	}
	return cli.WithCode(worst.code, fmt.Errorf("exec: %s: %s", worst.who(), worst.how(true)))
}

// execText is how people see a group: on one line where that is enough.
func (a *app) execText(g execGroup) string {
	who := a.paint(cyan, g.who())
	if len(g.Ranks) == 0 {
		who += ":"
	}
	out := strings.TrimSuffix(g.Stdout, "\n")
	if g.code == 0 && g.Stderr == "" && g.Lost == 0 && !strings.Contains(out, "\n") {
		return strings.TrimSuffix(who+" "+out, " ") + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", who, a.execHow(g))
	for line := range strings.Lines(g.Stdout) {
		b.WriteString("  " + line)
	}
	for line := range strings.Lines(g.Stderr) {
		b.WriteString("  " + a.paint(yellow, "| "+strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// execHow paints how a command ended.
func (a *app) execHow(g execGroup) string {
	if g.code == 0 {
		return a.paint(green, g.how(false))
	}
	return a.paint(red, g.how(false))
}
