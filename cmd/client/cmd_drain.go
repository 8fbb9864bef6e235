package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/subjects"
)

// hostAction is an operation on hosts.
type hostAction struct {
	name, short, long, doneText string
	stopsProcs                  bool // it ends procs
	run                         func(
		ctx context.Context, host actor.Ref[agent.Agent], how hostActionFlags,
	) (agent.StopSummary, error)
}

// hostActionFlags are the flags of a hostAction.
type hostActionFlags struct {
	reason        string
	grace         time.Duration
	maxConcurrent int
	force         bool // drain even if actors or ranks are lost or worlds end
}

// hostActionMargin is the hosts' time beyond that of their procs.
const hostActionMargin = 10 * time.Second

var hostActions = [...]hostAction{
	{
		name: "cordon", short: "Close hosts for new procs", doneText: "cordoned",
		long: "Close hosts for new procs until they are uncordoned. Running procs are not affected.",
		run: func(ctx context.Context, h actor.Ref[agent.Agent], f hostActionFlags) (agent.StopSummary, error) {
			_, err := agent.Cordon.Call(ctx, h, agent.CordonRequest{Cordon: true, Reason: f.reason})
			return agent.StopSummary{}, err
		},
	},
	{
		name: "uncordon", short: "Open hosts for new procs again", doneText: "open",
		long: "Open hosts for new procs again that were cordoned.",
		run: func(ctx context.Context, h actor.Ref[agent.Agent], f hostActionFlags) (agent.StopSummary, error) {
			_, err := agent.Cordon.Call(ctx, h, agent.CordonRequest{Reason: f.reason})
			return agent.StopSummary{}, err
		},
	},
	{
		name: "drain", short: "Move or stop the procs of hosts, which stay", doneText: "drained", stopsProcs: true,
		long: `Empty the hosts. Meshes with spare hosts move their procs, one of a mesh at a
time or --max-concurrent at a time: a proc ends, and starts on the spare host as its next generation.
Every other proc is stopped: SIGTERM, and SIGKILL after the grace. The command waits until no proc is
left. Meanwhile the hosts take no procs; afterwards they do unless cordoned.

If a move would lose actors, these are named, and nothing is drained without --force. Neither is a
host with procs of a world: they do not move, and the world ends (world.eviction-timeout). Nor is a
host with procs of a mesh whose spares are all used, silent or cordoned: they are stopped for good.
` + "`castnet events -f`" + ` shows each move; progress is on stderr, in lines where that is no terminal.`,
		run: func(ctx context.Context, h actor.Ref[agent.Agent], f hostActionFlags) (agent.StopSummary, error) {
			return agent.Drain.Call(
				ctx, h, agent.DrainRequest{Reason: f.reason, Grace: f.grace, MaxConcurrent: f.maxConcurrent},
			)
		},
	},
	{
		name: "shutdown", short: "Stop every proc of hosts, and then hostd", doneText: "shut down",
		stopsProcs: true,
		long:       "Stop every proc of the hosts: SIGTERM, and SIGKILL after the grace. Then hostd itself ends.",
		run: func(ctx context.Context, h actor.Ref[agent.Agent], f hostActionFlags) (agent.StopSummary, error) {
			return agent.StopAll.CallUrgent(ctx, h, agent.StopAllRequest{Reason: f.reason, Grace: f.grace})
		},
	},
}

// counts names the JSON fields of an action that stops procs.
func (d hostAction) counts() string {
	if !d.stopsProcs {
		return ""
	}
	return "; asked, ended, killed and moved procs"
}

func hostActionCommand(a *app.App, d hostAction, pick *target.HostSelector) *cobra.Command {
	f := hostActionFlags{}
	c := &cobra.Command{
		Use: d.name + " HOST…", Short: d.short,
		Long: d.long + `

Hosts are named by label or ID; --label alone takes every host that has it.

JSON: host, id, result (` + d.doneText + ` or failed), error` + d.counts() + `.`,
		Example: fmt.Sprintf(
			"  castnet hosts %s n07 n08 --reason 'new disks'\n  castnet hosts %s --label zone=a", d.name, d.name,
		),
		ValidArgsFunction: a.CompleteEach(candidates.Hosts),
	}
	reason := "" // a cordon explains nothing by itself
	if d.stopsProcs {
		reason = d.doneText + " by its user"
	}
	c.Flags().StringVar(&f.reason, "reason", reason, "`REASON` to record")
	if d.stopsProcs {
		flags.Add(
			c.Flags(), &f.grace, "grace", "duration", "from SIGTERM to SIGKILL (default: the host's own)",
			flags.PositiveDuration,
		)
	}
	if d.name == "drain" {
		flags.Add(
			c.Flags(), &f.maxConcurrent, "max-concurrent", "N",
			"procs that a host stops at a time, and a mesh moves, 1 to 256 (default: the host's own, and 1)",
			flags.Concurrency,
		)
		c.Flags().BoolVar(
			&f.force, "force", false, "drain even if worlds or ranks end, or procs move without some of their actors",
		)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 && len(pick.Labels) == 0 {
			return cli.Usagef("%s: want the labels of hosts, or --label KEY=VALUE; `castnet hosts` lists them", d.name)
		}
		p := target.HostSelector{Names: args, Labels: pick.Labels}
		return a.WithNet(c.Context(), func(conn *mesh.Net) error {
			return runHostAction(c.Context(), a, conn, d, p, f)
		})
	}
	return c
}

// hostActionRecord is the result for one host. Its JSON names are stable.
type hostActionRecord struct {
	Host   string `json:"host"`
	ID     string `json:"id"`
	Result string `json:"result"`
	Asked  int    `json:"asked"`
	Ended  int    `json:"ended"`
	Killed int    `json:"killed"`
	Moved  int    `json:"moved,omitempty"`
	Error  string `json:"error,omitempty"`
}

// runHostAction applies the action to all hosts at once.
func runHostAction(
	ctx context.Context, a *app.App, conn *mesh.Net, d hostAction, pick target.HostSelector, f hostActionFlags,
) error {
	inv, infos, err := pick.Find(ctx, conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hostActionTimeout(a, d, f, infos))
	defer cancel()
	var ending []*mesh.NoSpareError
	if d.name == "drain" {
		checking := ctx
		if f.force { // a silent proc delays nothing
			checking, cancel = context.WithTimeout(ctx, a.Conn.Timeout)
			defer cancel()
		}
		lost := checkDrain(checking, conn, infos)
		ending = appendNoSpare(nil, lost)
		if err := cmp.Or(checkWorlds(inv, infos), suggestForce(lost)); err != nil && !f.force {
			return err
		}
	}
	records := make([]hostActionRecord, len(infos))
	all := make(chan struct{})
	var wg sync.WaitGroup
	for i, h := range infos {
		wg.Go(func() {
			done, err := d.run(ctx, agent.Of(h.ID.Proc()).Via(conn.Proc()), f)
			records[i] = d.record(h, done, err)
		})
	}
	go func() {
		wg.Wait()
		close(all)
	}()
	showHostActionProgress(ctx, a.Printer, conn, infos, d, all)
	for _, e := range ending {
		noteStopped(ctx, a.Printer, conn, e, f.reason)
	}
	return showHostActionRecords(a.Printer, d, records)
}

// appendNoSpare appends the *mesh.NoSpareErrors among joined errors.
func appendNoSpare(all []*mesh.NoSpareError, err error) []*mesh.NoSpareError {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, err := range joined.Unwrap() {
			all = appendNoSpare(all, err)
		}
		return all
	}
	if e, is := errors.AsType[*mesh.NoSpareError](err); is {
		all = append(all, e)
	}
	return all
}

// noteStopped reports the ranks of a mesh that a drain has stopped for lack of a spare.
func noteStopped(
	ctx context.Context, out *output.Printer, conn *mesh.Net, e *mesh.NoSpareError, reason string,
) {
	v, _, err := inspect.Mesh(ctx, conn, e.Mesh)
	if err != nil {
		out.Notef("cannot list the stopped ranks of %s[%s]: %v", e.Mesh, e.Region, err)
	}
	for _, r := range v.Statuses {
		if r.Status == agent.Stopped.String() && r.Reason == reason {
			out.Notef("%s[%s] stopped for good: %s", e.Mesh, r.Region, reason)
		}
	}
}

// checkWorlds refuses a drain that would end worlds.
func checkWorlds(inv mesh.Inventory, infos []agent.HostInfo) error {
	for _, m := range inv.Meshes {
		w := m.Procs.Describe().World
		if w == nil || !m.Alive() {
			continue
		}
		procs, err := inv.Lookup(m.Procs.ID().String())
		if err != nil {
			return err
		}
		for _, h := range infos {
			if hostIndex(procs, h.ID) >= 0 {
				return fmt.Errorf("drain %s: world %s ends without its procs there, which do not move\n"+
					"nothing was drained: to restart these procs, stop hostd (SIGTERM) and start it again;\n"+
					"--force drains in any case", h.Label, w.World)
			}
		}
	}
	return nil
}

// checkDrain refuses a drain that would lose actors of moved procs.
func checkDrain(ctx context.Context, conn *mesh.Net, infos []agent.HostInfo) error {
	ids := make([]subjects.HostID, len(infos))
	for i, h := range infos {
		ids[i] = h.ID
	}
	hosts, err := conn.HostsOf("hosts", ids...)
	if err != nil {
		return err
	}
	return hosts.CheckDrain(ctx)
}

// hostActionTimeout returns the time limit: procs that ignore SIGTERM use up their grace, some at a
// time.
func hostActionTimeout(a *app.App, d hostAction, f hostActionFlags, infos []agent.HostInfo) time.Duration {
	if !d.stopsProcs {
		return a.Conn.Timeout
	}
	grace := f.grace
	atOnce := f.maxConcurrent
	most := 1
	if grace == 0 {
		grace = agent.DefaultGrace
	}
	if atOnce == 0 {
		atOnce = 1 // default for moves in a mesh
	}
	for _, h := range infos {
		most = max(most, h.Procs)
	}
	return max(a.Conn.Timeout, time.Duration((most+atOnce-1)/atOnce)*(grace+hostActionMargin)+hostActionMargin)
}

// record converts the result of a host.
func (d hostAction) record(h agent.HostInfo, done agent.StopSummary, err error) hostActionRecord {
	r := hostActionRecord{
		Host: h.Label, ID: h.ID.String(), Result: d.doneText, Asked: done.Requested, Ended: done.Ended,
		Killed: done.Failed, Moved: done.Moved,
	}
	if err != nil {
		r.Result, r.Error = "failed", err.Error()
	} else if done.Ended < done.Requested {
		r.Result, r.Error = "failed", fmt.Sprintf("%s left", text.Pluralize(done.Requested-done.Ended, "proc"))
	}
	return r
}

// hostActionPollInterval is the poll interval for remaining procs.
const hostActionPollInterval = 300 * time.Millisecond

// showHostActionProgress shows the number of remaining procs until all are done.
func showHostActionProgress(
	ctx context.Context, out *output.Printer, conn *mesh.Net, infos []agent.HostInfo, d hostAction,
	all <-chan struct{},
) {
	bar := out.NewLineProgress()
	defer bar.Clear()
	total := 0
	for _, h := range infos {
		total += h.Procs
	}
	if !d.stopsProcs || total == 0 {
		<-all // ends with ctx at the latest
		return
	}
	tick := time.NewTicker(hostActionPollInterval)
	defer tick.Stop()
	bar.Update(0, total, d.progressText())
	for {
		select {
		case <-all:
			return
		case <-tick.C:
			left := 0
			for _, h := range infos {
				now, err := agent.Info.Call(ctx, agent.Of(h.ID.Proc()).Via(conn.Proc()), actor.None{})
				if err == nil {
					left += now.Procs
				}
			}
			bar.Update(max(0, total-left), total, d.progressText())
		}
	}
}

// progressText is the label of the bar.
func (d hostAction) progressText() string {
	if d.name == "drain" {
		return "procs have moved or ended"
	}
	return "procs have ended"
}

// showHostActionRecords prints the result of each host. Some failed hosts are a partial failure.
func showHostActionRecords(out *output.Printer, d hostAction, records []hostActionRecord) error {
	columns := []string{"host", "result"}
	if d.stopsProcs {
		columns = append(columns, "procs")
	}
	failed := 0
	last := ""
	for _, r := range records {
		if r.Error != "" {
			failed++
			last = r.Error
		}
	}
	if failed > 0 {
		columns = append(columns, "error")
	}
	err := output.Records(out, records, columns, func(r hostActionRecord) []string {
		colour := output.Green
		if r.Error != "" {
			colour = output.Red
		}
		row := []string{r.Host, out.Paint(colour, r.Result)}
		if d.stopsProcs {
			procs := fmt.Sprintf("%d ended", r.Ended)
			if r.Killed > 0 {
				procs += fmt.Sprintf(", %d of them with an error", r.Killed)
			}
			if r.Moved > 0 {
				procs += fmt.Sprintf(", %d moved", r.Moved)
			}
			row = append(row, procs)
		}
		if failed > 0 {
			row = append(row, text.Reason(r.Error))
		}
		return row
	})
	switch {
	case err != nil || failed == 0:
		return err
	case len(records) == 1:
		return fmt.Errorf("%s %s: %s", d.name, records[0].Host, last)
	case failed == len(records):
		return fmt.Errorf("%s: all of %s failed", d.name, text.Pluralize(failed, "host"))
	}
	return cli.WithCode(
		cli.ExitPartial, fmt.Errorf("%s: %d of %s failed", d.name, failed, text.Pluralize(len(records), "host")),
	)
}
